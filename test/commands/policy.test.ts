/** `rredcot policy build`, `info` and `check` as a user runs them: what they print, and their exit codes. */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { compareReference, compareRuns } from '../../dist/policy/run/check.js';
import type { Branch, PackedTrace } from '../../dist/policy/run/pack.js';
import type { PolicySession } from '../../dist/policy/run/session.js';
import { familyScores, loadFamily } from '../oracle/families.js';
import { type Json, LLAMA, writeCheckpoint } from '../support/checkpoints.js';
import { rredcotHere } from '../support/in-process.js';
import { ROOT, temporaryFolder } from '../support/program.js';

const scratch = await temporaryFolder();

/** 259 tokens, so that the embedded policy's tokenizer fits */
const QWEN: Json = {
  ...LLAMA,
  architectures: ['Qwen2ForCausalLM'],
  vocab_size: 259,
  use_sliding_window: true,
  sliding_window: 12,
  max_window_layers: 1,
  max_position_embeddings: 512,
  rope_scaling: { rope_type: 'yarn', factor: 2, original_max_position_embeddings: 512 },
};
const checkpoint = join(scratch, 'checkpoint');
const policy = join(scratch, 'policy');
const textless = join(scratch, 'textless.json');
writeFileSync(textless, '{"close": "", "open": ""}');
let build: Awaited<ReturnType<typeof rredcotHere>>;

beforeAll(async () => {
  writeCheckpoint(checkpoint, QWEN, { dtype: 'BF16', shards: 2 });
  build = await rredcotHere(['policy', 'build', checkpoint, '-o', policy]);
});

describe('policy build', () => {
  test('prints the exit template it took, and the tokens of a branch', () => {
    const letters = (text: string) => [...text].map((letter) => JSON.stringify(letter)).join(' ');
    expect(build.code, build.stderr).toBe(0);
    expect(build.stdout).toBe('');
    expect(build.stderr).toBe(
      [
        'exit template, from the checkpoint:',
        '  close  "\\n</think>\\n\\n"',
        '  open   "**Final Answer**\\n\\\\boxed{"',
        '  closer "}"',
        `  branch "\\n" "</think>" ${letters('\n\n**Final Answer**\n\\boxed{7}')} (30 tokens for the answer 7)`,
        '  scored "7" "}"',
        'prompt start  none',
        'end tokens    "<|end|>" (258)',
        'graphs: float32 for the CPU, bf16 for CUDA',
        `policy folder written to ${policy}`,
        '',
      ].join('\n'),
    );
  });

  test('a part that the file gives wins over the checkpoint', async () => {
    const [file, out] = [join(scratch, 'template.json'), join(scratch, 'given')];
    writeFileSync(file, '{"close": "a", "open": "b", "closer": "c"}');
    const template = async (...flags: string[]) => {
      const run = await rredcotHere(['policy', 'build', checkpoint, '-o', out, ...flags]);
      expect(run.code, run.stderr).toBe(0);
      const { exitTemplate } = JSON.parse(readFileSync(join(out, 'policy.json'), 'utf8')) as Json;
      return [exitTemplate, /exit template, (.*):/.exec(run.stderr)?.[1]];
    };
    const { stderr } = build;
    expect(stderr).toContain('from the checkpoint');
    expect(await template('--exit-template', file)).toEqual([
      { close: 'a', open: 'b', closer: 'c' },
      'given',
    ]);
    writeFileSync(file, '{"closer": ""}');
    expect(await template('--exit-template', file)).toEqual([
      { close: '\n</think>\n\n', open: '**Final Answer**\n\\boxed{', closer: '' },
      'given in part',
    ]);
  });

  test.each<[string, string[], RegExp]>([
    ['no checkpoint', ['nowhere', '-o', 'out'], /nowhere: no such folder, expected a checkpoint\n {2}try: /],
    ['no checkpoint, but a step token', ['nowhere', '-o', 'out', '--step-token', 'x'], /no such folder/],
    ['a file', ['package.json', '-o', 'out'], /package\.json: is a file, expected a checkpoint/],
    ['a name on the Hub', ['Qwen/Qwen2.5-0.5B', '-o', 'out'], /try: hf download Qwen\/Qwen2\.5-0\.5B /],
    ['no output', [checkpoint], /required option '-o/],
    [
      'a template that is none',
      [checkpoint, '-o', 'out', '--exit-template', 'package.json'],
      /package\.json/,
    ],
    ['a template without text', [checkpoint, '-o', 'out', '--exit-template', textless], /empty/],
  ])('refused: %s', async (_, args, message) => {
    const run = await rredcotHere(['policy', 'build', ...args]);
    expect(run.code).toBe(2);
    expect(run.stderr).toMatch(message);
    expect(run.stderr).not.toContain('this is a bug');
  });
});

describe('policy info', () => {
  test('shows architecture, parameters, dtype, vocabulary, limits, template and files', async () => {
    const run = await rredcotHere(['policy', 'info', policy]);
    expect(run.code, run.stderr).toBe(0);
    const parameters = [...loadFamily(checkpoint).tensors.values()].reduce(
      (sum, { length }) => sum + length,
      0,
    );
    for (const part of [
      'Qwen2ForCausalLM: 2 layers, hidden 44, 6 heads of 10 on 3 key/value heads, MLP 53, own head',
      'theta 500, yarn × 2 from 512 tokens',
      'the last 12 tokens in 1 of 2 layers',
      `parameters    ${parameters.toLocaleString('en-US')} in bf16`,
      'vocabulary    259, byte-level tokenizer',
      'limit         1,024 tokens',
      'close  "\\n</think>\\n\\n"',
      'model-00002-of-00002.safetensors',
      'policy.onnx',
    ])
      expect(run.stdout).toContain(part);
    for (const name of ['policy.onnx', 'tokenizer.json']) {
      const sha256 = createHash('sha256')
        .update(readFileSync(join(policy, name)))
        .digest('hex');
      expect(run.stdout).toMatch(new RegExp(`(^|  )${sha256.slice(0, 12)}…  +[\\d,]+ bytes  ${name}$`, 'm'));
    }
  });

  test('a folder that is no policy', async () => {
    const run = await rredcotHere(['policy', 'info', checkpoint]);
    expect(run.code).toBe(2);
    expect(run.stderr).toMatch(/not a policy folder.*\n {2}try: build one/s);
  });
});

describe('policy check', () => {
  const ids = Array.from({ length: 60 }, (_, i) => (i * 101 + 7) % 259);
  const reference = (change: (file: Record<string, unknown>) => void = () => {}) => {
    const { logprobs, entropies } = familyScores(loadFamily(checkpoint), ids);
    const file = { ids, logprobs: [...logprobs.slice(1)], entropies: [...entropies.slice(1)] };
    change(file);
    const path = join(scratch, 'reference.json');
    writeFileSync(path, JSON.stringify(file));
    return path;
  };
  const check = (...args: string[]) => rredcotHere(['policy', 'check', policy, ...args]);

  test('trunk, branches and naive re-encoding agree on the built-in text and on a given one', async () => {
    const text = join(scratch, 'text.txt');
    writeFileSync(text, 'So 3 × 4 = 12.\nWait, no: 13.\n');
    for (const args of [[], ['--text', text]]) {
      const run = await check(...args, '--tolerance', '1e-4');
      expect(run.code, run.stdout + run.stderr).toBe(0);
      expect(run.stdout).toMatch(
        /^files: 11 as built\ncanary on cpu, .*:\n {2}log p +\d\.\de-\d nats at .*\n {2}entropy .*\n {2}branch log p .*\ntext of \d+ tokens on cpu/,
      );
      for (const pair of [
        'trunk − naive, log p',
        'trunk − naive, entropy',
        'branches − trunk',
        'branches − naive',
        'decoding − naive, log p',
        'attention, two − one',
        'attention, sum − 1',
        'gradient, two − one',
      ])
        expect(run.stdout).toContain(pair);
      expect(run.stdout).toMatch(/all checks hold\n$/);
    }
  });

  test('a reference that agrees: exit 0, with the largest differences; either set of names', async () => {
    const renamed = (file: Record<string, unknown>) => {
      file.token_logprobs = file.logprobs;
      file.token_entropies_nats = file.entropies;
      file.logprobs = file.entropies = undefined;
    };
    for (const change of [undefined, renamed]) {
      const run = await check('--reference', reference(change), '--tolerance', '1e-4');
      expect(run.code, run.stdout + run.stderr).toBe(0);
      expect(run.stdout).toMatch(/trunk − reference, log p +\d\.\de-[567] at token \d+ \(59 compared\)/);
      expect(run.stdout).toMatch(/trunk − reference, entropy +\d\.\de-[567] at token/);
    }
  });

  test('a reference that differs: exit 65, naming the number and the token; its tolerance, or the flag, decides', async () => {
    const off = (tolerance?: number) =>
      reference((file) => {
        (file.logprobs as number[])[10] = ((file.logprobs as number[])[10] as number) + 0.01;
        file.tolerance = tolerance;
      });
    const run = await check('--reference', off());
    expect(run.code).toBe(65);
    expect(run.stderr).toMatch(
      /does not check: trunk − reference, log p differ by 1\.0e-2 nats at token 11\n {2}try: /,
    );
    expect(run.stdout).toContain('trunk − reference, log p    1.0e-2 at token 11');
    expect((await check('--reference', off(0.02))).code).toBe(0);
    expect((await check('--reference', off(0.02), '--tolerance', '0.001')).code).toBe(65);
  });

  test('weights, or graphs that write or attribute, that are no longer those of the build: exit 65', async () => {
    const [other, out] = [join(scratch, 'other'), join(scratch, 'changed')];
    writeCheckpoint(other, { ...QWEN, rms_norm_eps: 1e-2 }, { dtype: 'BF16', shards: 2 });
    expect((await rredcotHere(['policy', 'build', other, '-o', out])).code).toBe(0);
    // what scores has another ε than what writes
    copyFileSync(join(policy, 'policy.onnx'), join(out, 'policy.onnx'));
    copyFileSync(join(out, 'policy.gradient.onnx'), join(out, 'policy.attention.onnx'));
    const path = join(out, 'model-00002-of-00002.safetensors');
    const bytes = readFileSync(path);
    bytes[bytes.length - 1] = (bytes[bytes.length - 1] as number) ^ 1;
    writeFileSync(path, bytes);
    const run = await rredcotHere(['policy', 'check', out]);
    expect(run.code).toBe(65);
    expect(run.stderr).toMatch(
      /policy\.onnx, policy\.attention\.onnx, model-00002-of-00002\.safetensors changed since the build/,
    );
    expect(run.stderr).toMatch(
      /build; canary: log p of token \d+ of \d+ is .*; decoding − naive, log p differ by \d\.\de\+0 nats at token \d+; attention, sum − 1 differ by \d\.\de\S+ at/,
    );
  });

  test.each<[string, (file: Record<string, unknown>) => void, RegExp]>([
    ['no entropies', (file) => delete file.entropies, /has no entropies/],
    ['too few logprobs', (file) => (file.logprobs as number[]).pop(), /has 58 logprobs, expected 59/],
    [
      'too many entropies',
      (file) => (file.entropies as number[]).push(1, 1),
      /61 entropies, expected 59 or 60/,
    ],
    ['an id beyond the vocabulary', (file) => (file.ids as number[]).splice(0, 1, 259), /the id 259/],
    ['a text for a number', (file) => (file.logprobs as unknown[]).splice(0, 1, 'x'), /logprobs/],
    ['a tolerance of nothing', (file) => Object.assign(file, { tolerance: 0 }), /tolerance/],
  ])('refused: a reference with %s', async (_, change, message) => {
    const run = await check(
      '--reference',
      reference((file) => {
        file.ids = [...ids];
        change(file);
      }),
    );
    expect(run.code).toBe(2);
    expect(run.stderr).toMatch(message);
    expect(run.stderr).toMatch(/try: make one with/);
  });

  test('refused: texts of too few tokens, files that are not there, a tolerance that is no number', async () => {
    const short = join(scratch, 'short.txt');
    writeFileSync(short, 'abc');
    for (const [args, message] of [
      [['--text', short], /has 3 tokens, expected at least 4/],
      [['--text', 'nowhere.txt'], /nowhere\.txt: cannot be read/],
      [['--reference', 'nowhere.json'], /nowhere\.json: cannot be read as JSON/],
      [['--tolerance', 'x'], /--tolerance x: expected a positive number/],
      [['--tolerance', '0'], /--tolerance 0: expected a positive number/],
    ] as const) {
      const run = await check(...args);
      expect(run.code).toBe(2);
      expect(run.stderr).toMatch(message);
    }
  });
});

describe('a check that cannot fail would be none', () => {
  /** a policy that gives every token the same numbers, but for what a test spoils */
  const stand = (branch: number, entropy = 1, together = branch, shared = -2) =>
    ({
      run: async (traces: readonly PackedTrace[]) =>
        traces.map(({ ids: sequence, promptLength, branches, shares }) => ({
          logprobs: new Float32Array(sequence.length - promptLength).fill(shares === undefined ? -2 : shared),
          entropies: new Float32Array(sequence.length - promptLength).fill(
            sequence.length === 30 ? entropy : 1,
          ),
          branches: scored(branches, together),
        })),
      branches: async (_: number, [branches]: readonly [readonly Branch[]]) => [
        { logprobs: new Float32Array(0), entropies: new Float32Array(0), branches: scored(branches, branch) },
      ],
      release: async () => {},
    }) as unknown as PolicySession;
  const scored = (branches: readonly Branch[], value: number) =>
    branches.map(({ ids, scoredFrom }) => new Float32Array(ids.length - scoredFrom).fill(value));
  const ids = new Int32Array(30);
  const largest = async (session: PolicySession) =>
    (await compareRuns(session, ids, new Int32Array(3))).map(({ nats }) => nats);

  test('branches that differ, a trunk that differs from shorter readings, and NaN are seen', async () => {
    expect(await largest(stand(-2))).toEqual([0, 0, 0, 0, 0, 0]);
    expect(await largest(stand(-2.5))).toEqual([0, 0, 0.5, 0.5, 0, 0]);
    expect(await largest(stand(-2, 3))).toEqual([0, 2, 0, 0, 0, 0]);
    expect(await largest(stand(-2, 1, -3))).toEqual([0, 0, 0, 0, 1, 0]);
    expect(await largest(stand(Number.NaN, 1, -2))).toEqual([0, 0, Number.NaN, Number.NaN, Number.NaN, 0]);
    expect(await largest(stand(-2, 1, -2, -4))).toEqual([0, 0, 0, 0, 0, 2]);
    const numbers = new Array<number>(29).fill(-2);
    const reference = { ids, logprobs: numbers, entropies: numbers, tolerance: undefined };
    const [logprob, entropy] = await compareReference(stand(-2, Number.NaN), reference);
    expect(logprob).toMatchObject({ nats: 0, count: 29 });
    expect(entropy).toMatchObject({ nats: Number.NaN, token: 1 });
  });
});

test.each(['build', 'info', 'check'])(
  'policy %s --help ends with an example and what the exit codes mean',
  async (command) => {
    const { code, stdout } = await rredcotHere(['policy', command, '--help']);
    expect(code).toBe(0);
    expect(stdout).toMatch(new RegExp(`Example:\\n {2}rredcot policy ${command} .*\\n\\nExit codes: `));
  },
);

describe('process reward models', () => {
  const [source, folder] = [join(scratch, 'prm-checkpoint'), join(scratch, 'prm')];

  test('build, info and check; flags and folders of the other kind are refused', async () => {
    writeCheckpoint(source, { ...QWEN, architectures: ['Qwen2ForProcessRewardModel'] });
    const refused = await rredcotHere(['policy', 'build', source, '-o', folder, '--exit-template', 'a']);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('--exit-template has no meaning: the head of');
    const other = await rredcotHere(['policy', 'build', checkpoint, '-o', folder, '--step-token', 'a']);
    expect(other.code).toBe(2);
    expect(other.stderr).toContain('--step-token is of process reward models');
    const made = await rredcotHere(['policy', 'build', source, '-o', folder, '--step-token', '<think>']);
    expect(made.code, made.stderr).toBe(0);
    expect(made.stderr).toContain(
      'labels 0 "LABEL_0", 1 "LABEL_1" (right)\n  at the step token "<think>" (256)',
    );
    const info = await rredcotHere(['policy', 'info', folder]);
    expect(info.stdout).toContain(`reward model  ${folder}\n`);
    expect(info.stdout).toContain('head of 2 layers and 2 labels');
    expect(info.stdout).toContain('steps         labels 0 "LABEL_0"');
    expect(info.stdout).not.toContain('exit template');
    const reference = join(scratch, 'prm-own.json');
    const { rewardShares } = await import('../oracle/prm.js');
    const ids = Array.from({ length: 30 }, (_, i) => (i * 37) % 259);
    const correct = rewardShares(loadFamily(source), ids, 1);
    writeFileSync(reference, JSON.stringify({ ids, correct }));
    const check = await rredcotHere(['policy', 'check', folder, '--reference', reference]);
    expect(check.code, check.stderr).toBe(0);
    expect(check.stdout).toMatch(
      /prefix − whole, P .*batch − alone, P .*model − reference, P .*all checks hold/s,
    );
    writeFileSync(reference, JSON.stringify({ ids, correct: correct.map((share) => 1 - share) }));
    const wrong = await rredcotHere(['policy', 'check', folder, '--reference', reference]);
    expect(wrong.code).toBe(65);
    expect(wrong.stderr).toContain('the reward model does not check: model − reference, P differ by');
  });
});

// the real libraries are not here: stand-ins give a uniform distribution, so that the file's form and sums are tested
describe('examples/make_reference.py', () => {
  const stand = join(scratch, 'python');
  const python = spawnSync('python3', ['--version']).status === 0;
  beforeAll(() => {
    mkdirSync(stand, { recursive: true });
    writeFileSync(
      join(stand, 'torch.py'),
      `import contextlib, math
float32 = 'float32'
no_grad = contextlib.nullcontext
class T:
    def __init__(self, v): self.v = v
    def __getitem__(self, key):
        if key == (0, slice(None, -1)): return T(self.v[0][:-1])
        if key == (slice(None), None): return T([[x] for x in self.v])
        if isinstance(key, tuple) and isinstance(key[1], int): return T([x[key[1]] for x in self.v])
        return T(self.v[key])
    def double(self): return self
    def exp(self): return T([[math.exp(x) for x in r] for r in self.v])
    def __mul__(self, o): return T([[x * y for x, y in zip(r, s)] for r, s in zip(self.v, o.v)])
    def __neg__(self): return T([-x for x in self.v] if not isinstance(self.v[0], list) else [[-x for x in r] for r in self.v])
    def sum(self, dim): return T([sum(r) for r in self.v])
    def gather(self, dim, index): return T([[r[i[0]]] for r, i in zip(self.v, index.v)])
    def tolist(self): return self.v
tensor = T
def log_softmax(z, dim): return T([[x - math.log(sum(math.exp(y) for y in r)) for x in r] for r in z.v])
`,
    );
    writeFileSync(
      join(stand, 'transformers.py'),
      `import math, torch
class Out: pass
class AutoConfig:
    @staticmethod
    def from_pretrained(path):
        c = Out(); c.max_position_embeddings = 32; c.vocab_size = 259
        if 'prm' in path: c.architectures = ['LlamaForTokenClassification']
        return c
class AutoTokenizer:
    @staticmethod
    def from_pretrained(path):
        if 'bare' in path: raise OSError('no tokenizer')
        return lambda text: {'input_ids': list(text.encode())}
class Model:
    def eval(self): return self
    def __call__(self, ids):
        o = Out(); o.logits = torch.T([[[0.0] * 259 for _ in ids.v[0]]]); return o
class Classifier(Model):
    def __call__(self, ids): return (torch.T([[[0.0, 0.0, math.log(2.0)] for _ in ids.v[0]]]),)
class AutoModelForTokenClassification:
    @staticmethod
    def from_pretrained(path, torch_dtype, attn_implementation): return Classifier()
class AutoModel: pass
class AutoModelForCausalLM:
    @staticmethod
    def from_pretrained(path, torch_dtype, attn_implementation):
        assert torch_dtype == 'float32' and attn_implementation == 'eager'
        return Model()
`,
    );
  });

  test.skipIf(!python)(
    'writes what policy check reads, cut to the context (skipped without python3)',
    async () => {
      for (const name of ['checkpoint', 'bare']) {
        const path = join(scratch, `${name}.json`);
        const run = spawnSync('python3', [join(ROOT, 'examples/make_reference.py'), name, path], {
          encoding: 'utf8',
          env: { ...process.env, PYTHONPATH: stand },
        });
        expect(run.status, run.stderr).toBe(0);
        expect(run.stderr).toContain('max context: 32 tokens');
        const made = JSON.parse(readFileSync(path, 'utf8')) as Record<string, number[]>;
        expect(made.ids).toHaveLength(32);
        for (const list of [made.logprobs, made.entropies]) expect(list).toHaveLength(31);
        for (const logprob of made.logprobs as number[]) expect(logprob).toBeCloseTo(-Math.log(259), 9);
        for (const entropy of made.entropies as number[]) expect(entropy).toBeCloseTo(Math.log(259), 9);
        const { readReference } = await import('../../dist/policy/run/check.js');
        expect((await readReference(path, 259)).ids).toHaveLength(32);
      }
    },
  );

  test.skipIf(!python)('of a head that classifies: the probability of a label at every token', async () => {
    const path = join(scratch, 'prm-reference.json');
    const run = spawnSync(
      'python3',
      [join(ROOT, 'examples/make_reference.py'), 'prm', path, '--label', '2'],
      {
        encoding: 'utf8',
        env: { ...process.env, PYTHONPATH: stand },
      },
    );
    expect(run.status, run.stderr).toBe(0);
    const { readPrmReference } = await import('../../dist/policy/run/check-prm.js');
    const { ids, correct } = await readPrmReference(path, 259);
    expect([ids.length, correct.length]).toEqual([32, 32]);
    for (const share of correct) expect(share).toBeCloseTo(0.5, 9);
    await expect(readPrmReference(path, 40)).rejects.toThrow(
      /has the id \d+, the model's vocabulary has 40 tokens/,
    );
  });
});
