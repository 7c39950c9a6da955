/** `rredcot policy build`, `info` and `check` as a user runs them: what they print, and their exit codes. */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { compareReference, compareRuns } from '../../dist/model/onnx/check.js';
import type { Branch, PackedTrace } from '../../dist/model/onnx/placed.js';
import type { ModelSession } from '../../dist/model/onnx/session.js';
import { familyScores, loadFamily } from '../oracle/families.js';
import { type Json, LLAMA, writeCheckpoint } from '../support/checkpoints.js';
import { ROOT } from '../support/program.js';
import { openScene } from '../support/scene.js';

const { at, done, fails, folder: scratch, run, write } = await openScene();

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
const checkpoint = at('checkpoint');
let built: string;

beforeAll(async () => {
  writeCheckpoint(checkpoint, QWEN, { dtype: 'BF16', shards: 2 });
  await write('textless.json', '{"close": "", "open": ""}');
  await write('other.json', '{"name": "x"}');
  const { stdout, stderr } = await done('policy build checkpoint -o policy');
  expect(stdout).toBe('');
  built = stderr;
});

describe('policy build', () => {
  test('prints the exit template it took, and the tokens of a branch', () => {
    const letters = (text: string) => [...text].map((letter) => JSON.stringify(letter)).join(' ');
    expect(built).toBe(
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
        'policy folder written to policy',
        '',
      ].join('\n'),
    );
  });

  test('a part that the file gives wins over the checkpoint', async () => {
    const template = async (given: string) => {
      await write('template.json', given);
      const { stderr } = await done('policy build checkpoint -o given --exit-template template.json');
      const { exitTemplate } = JSON.parse(readFileSync(at('given/policy.json'), 'utf8')) as Json;
      return [exitTemplate, /exit template, (.*):/.exec(stderr)?.[1]];
    };
    expect(built).toContain('from the checkpoint');
    expect(await template('{"close": "a", "open": "b", "closer": "c"}')).toEqual([
      { close: 'a', open: 'b', closer: 'c' },
      'given',
    ]);
    expect(await template('{"closer": ""}')).toEqual([
      { close: '\n</think>\n\n', open: '**Final Answer**\n\\boxed{', closer: '' },
      'given in part',
    ]);
  });

  test.each([
    ['nowhere', /nowhere: no such folder, expected a checkpoint\n {2}try: /],
    ['nowhere --step-token x', /no such folder/],
    ['other.json', /other\.json: is a file, expected a checkpoint/],
    ['Qwen/Qwen2.5-0.5B', /try: hf download Qwen\/Qwen2\.5-0\.5B /],
    ['checkpoint --exit-template other.json', /other\.json/],
    ['checkpoint --exit-template textless.json', /empty/],
  ])('refused: %s', async (flags, why) => {
    const { said } = await fails(`policy build ${flags} -o out`, 2, why);
    expect(said).not.toContain('this is a bug');
  });

  test('refused: no output', async () => {
    await fails('policy build checkpoint', 2, /required option '-o/);
  });
});

describe('policy info', () => {
  test('shows architecture, parameters, dtype, vocabulary, limits, template and files', async () => {
    const { stdout } = await done('policy info policy');
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
      expect(stdout).toContain(part);
    for (const name of ['policy.onnx', 'tokenizer.json']) {
      const sha256 = createHash('sha256')
        .update(readFileSync(at(`policy/${name}`)))
        .digest('hex');
      expect(stdout).toMatch(new RegExp(`(^|  )${sha256.slice(0, 12)}…  +[\\d,]+ bytes  ${name}$`, 'm'));
    }
  });

  test('a folder that is no policy', async () => {
    await fails('policy info checkpoint', 2, /not a policy folder.*\n {2}try: build one/s);
  });
});

describe('policy check', () => {
  const ids = Array.from({ length: 60 }, (_, i) => (i * 101 + 7) % 259);
  const reference = (change: (file: Record<string, unknown>) => void = () => {}) => {
    const { logprobs, entropies } = familyScores(loadFamily(checkpoint), ids);
    const file = { ids, logprobs: [...logprobs.slice(1)], entropies: [...entropies.slice(1)] };
    change(file);
    writeFileSync(at('reference.json'), JSON.stringify(file));
    return '--reference reference.json';
  };
  const check = (flags: string) => `policy check policy ${flags}`;

  test('trunk, branches and naive re-encoding agree on the built-in text and on a given one', async () => {
    await write('text.txt', 'So 3 × 4 = 12.\nWait, no: 13.\n');
    for (const flags of ['', '--text text.txt']) {
      const { stdout } = await done(check(`${flags} --tolerance 1e-4`));
      expect(stdout).toMatch(
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
        expect(stdout).toContain(pair);
      expect(stdout).toMatch(/all checks hold\n$/);
    }
  });

  test('a reference that agrees: exit 0, with the largest differences; either set of names', async () => {
    const renamed = (file: Record<string, unknown>) => {
      file.token_logprobs = file.logprobs;
      file.token_entropies_nats = file.entropies;
      file.logprobs = file.entropies = undefined;
    };
    for (const change of [undefined, renamed]) {
      const { stdout } = await done(check(`${reference(change)} --tolerance 1e-4`));
      expect(stdout).toMatch(/trunk − reference, log p +\d\.\de-[567] at token \d+ \(59 compared\)/);
      expect(stdout).toMatch(/trunk − reference, entropy +\d\.\de-[567] at token/);
    }
  });

  test('a reference that differs: exit 65, naming the number and the token; its tolerance, or the flag, decides', async () => {
    const off = (tolerance?: number) =>
      reference((file) => {
        (file.logprobs as number[])[10] = ((file.logprobs as number[])[10] as number) + 0.01;
        file.tolerance = tolerance;
      });
    const { stdout } = await fails(
      check(off()),
      65,
      /does not check: trunk − reference, log p differ by 1\.0e-2 nats at token 11\n {2}try: /,
    );
    expect(stdout).toContain('trunk − reference, log p    1.0e-2 at token 11');
    await done(check(off(0.02)));
    expect((await run(check(`${off(0.02)} --tolerance 0.001`))).code).toBe(65);
  });

  test('weights, or graphs that write or attribute, that are no longer those of the build: exit 65', async () => {
    writeCheckpoint(at('other'), { ...QWEN, rms_norm_eps: 1e-2 }, { dtype: 'BF16', shards: 2 });
    await done('policy build other -o changed');
    // what scores has another ε than what writes
    copyFileSync(at('policy/policy.onnx'), at('changed/policy.onnx'));
    copyFileSync(at('changed/policy.gradient.onnx'), at('changed/policy.attention.onnx'));
    const path = at('changed/model-00002-of-00002.safetensors');
    const bytes = readFileSync(path);
    bytes[bytes.length - 1] = (bytes[bytes.length - 1] as number) ^ 1;
    writeFileSync(path, bytes);
    const { stderr } = await fails(
      'policy check changed',
      65,
      /policy\.onnx, policy\.attention\.onnx, model-00002-of-00002\.safetensors changed since the build/,
    );
    expect(stderr).toMatch(
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
    const given = reference((file) => {
      file.ids = [...ids];
      change(file);
    });
    const { stderr } = await fails(check(given), 2, message);
    expect(stderr).toMatch(/try: make one with/);
  });

  test('refused: texts of too few tokens, files that are not there, a tolerance that is no number', async () => {
    await write('short.txt', 'abc');
    for (const [flags, why] of [
      ['--text short.txt', /has 3 tokens, expected at least 4/],
      ['--text nowhere.txt', /nowhere\.txt: cannot be read/],
      ['--reference nowhere.json', /nowhere\.json: cannot be read as JSON/],
      ['--tolerance x', /--tolerance x: expected a positive number/],
      ['--tolerance 0', /--tolerance 0: expected a positive number/],
    ] as const)
      await fails(check(flags), 2, why);
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
    }) as unknown as ModelSession;
  const scored = (branches: readonly Branch[], value: number) =>
    branches.map(({ ids, scoredFrom }) => new Float32Array(ids.length - scoredFrom).fill(value));
  const ids = new Int32Array(30);
  const largest = async (session: ModelSession) =>
    (await compareRuns(session, ids, new Int32Array(3))).map(({ off }) => off);

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
    expect(logprob).toMatchObject({ off: 0, count: 29 });
    expect(entropy).toMatchObject({ off: Number.NaN, place: 'token 1' });
  });
});

describe('process reward models', () => {
  test('build, info and check; flags and folders of the other kind are refused', async () => {
    writeCheckpoint(at('judge'), { ...QWEN, architectures: ['Qwen2ForProcessRewardModel'] });
    await fails(
      'policy build judge -o prm --exit-template a',
      2,
      '--exit-template has no meaning: the head of',
    );
    await fails(
      'policy build checkpoint -o prm --step-token a',
      2,
      '--step-token is of process reward models',
    );
    const { stderr } = await done("policy build judge -o prm --step-token '<think>'");
    expect(stderr).toContain('labels 0 "LABEL_0", 1 "LABEL_1" (right)\n  at the step token "<think>" (256)');
    const info = (await done('policy info prm')).stdout;
    for (const part of [
      'reward model  prm\n',
      'head of 2 layers and 2 labels',
      'steps         labels 0 "LABEL_0"',
    ])
      expect(info).toContain(part);
    expect(info).not.toContain('exit template');
    const { rewardShares } = await import('../oracle/prm.js');
    const ids = Array.from({ length: 30 }, (_, i) => (i * 37) % 259);
    const correct = rewardShares(loadFamily(at('judge')), ids, 1);
    await write('own.json', JSON.stringify({ ids, correct }));
    expect((await done('policy check prm --reference own.json')).stdout).toMatch(
      /prefix − whole, P .*batch − alone, P .*model − reference, P .*all checks hold/s,
    );
    await write('own.json', JSON.stringify({ ids, correct: correct.map((share) => 1 - share) }));
    const why = 'the reward model does not check: model − reference, P differ by';
    await fails('policy check prm --reference own.json', 65, why);
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

  const made = (name: string, ...flags: string[]) => {
    const path = at(`${name}.json`);
    const python3 = spawnSync('python3', [join(ROOT, 'examples/make_reference.py'), name, path, ...flags], {
      encoding: 'utf8',
      env: { ...process.env, PYTHONPATH: stand },
    });
    expect(python3.status, python3.stderr).toBe(0);
    return { path, said: python3.stderr };
  };

  test.skipIf(!python)(
    'writes what policy check reads, cut to the context (skipped without python3)',
    async () => {
      for (const name of ['checkpoint', 'bare']) {
        const { path, said } = made(name);
        expect(said).toContain('max context: 32 tokens');
        const file = JSON.parse(readFileSync(path, 'utf8')) as Record<string, number[]>;
        expect(file.ids).toHaveLength(32);
        for (const list of [file.logprobs, file.entropies]) expect(list).toHaveLength(31);
        for (const logprob of file.logprobs as number[]) expect(logprob).toBeCloseTo(-Math.log(259), 9);
        for (const entropy of file.entropies as number[]) expect(entropy).toBeCloseTo(Math.log(259), 9);
        const { readReference } = await import('../../dist/model/onnx/check.js');
        expect((await readReference(path, 259)).ids).toHaveLength(32);
      }
    },
  );

  test.skipIf(!python)('of a head that classifies: the probability of a label at every token', async () => {
    const { path } = made('prm', '--label', '2');
    const { readPrmReference } = await import('../../dist/model/onnx/check.js');
    const { ids, correct } = await readPrmReference(path, 259);
    expect([ids.length, correct.length]).toEqual([32, 32]);
    for (const share of correct) expect(share).toBeCloseTo(0.5, 9);
    await expect(readPrmReference(path, 40)).rejects.toThrow(
      /has the id \d+, the model's vocabulary has 40 tokens/,
    );
  });
});
