// `python -m rredcot.export`: random checkpoints of families of transformers become policy folders, whose numbers are those of its plain passes; what
// does not fit is refused by name before anything is written. An export takes half a minute: CI has one of each mechanism.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cp, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { fromFloat16 } from '../../dist/model/onnx/float16.js';
import { openPolicyFolder } from '../../dist/model/onnx/folder.js';
import type { Branch, TraceScores } from '../../dist/model/onnx/placed.js';
import { ModelSession } from '../../dist/model/onnx/session.js';
import { differences } from '../support/family-checks.js';
import { ROOT } from '../support/program.js';
import { ONE_THREAD } from '../support/python.js';
import { fixtureRows, openScene } from '../support/scene.js';
import { inPart } from '../support/torture.js';
import { exportPython } from '../support/trainer-venv.js';

/** Of mechanisms: caps and windows; what also sees. */
const FEW = ['Gemma2', 'Gemma3'];
const FIT = inPart(
  [...FEW, 'SmolLM3', 'Olmo2', 'Olmo3', 'Gemma3Text', 'Phi3', 'Granite', 'Glm4', 'Cohere2', 'GPTNeoX'],
  (name) => FEW.includes(name),
);
/** Of these `policy build` writes the graph of what reads; they also see. */
const OWN = ['Qwen2_5_VL', 'Qwen3VL', 'Mistral3'];
/** Families that do not fit, and why in a word or two. */
const NOT: Record<string, RegExp> = {
  Mamba2: /Mamba2ForCausalLM: branches of a trace cannot be kept apart.* nats off/,
  Qwen3_5Text: /Qwen3_5ForCausalLM: branches of a trace cannot be kept apart.* nats off/,
  Lfm2: /Lfm2ForCausalLM: branches of a trace cannot be kept apart.* nats off/,
  Llama4Text: /Llama4ForCausalLM: branches of a trace cannot be kept apart/,
  Bloom: /BloomForCausalLM: branches of a trace cannot be kept apart/,
  'Phi3 longrope': /Phi3ForCausalLM: rope type longrope turns/,
  'Olmo2 in part':
    /1 of its tensors are missing or of another shape, such as model\.layers\.1\.mlp\.up_proj\.weight/,
  T5: /transformers does not load it as a language model: .*T5Config/,
  GptOss: /torch\.onnx\.export makes no graph of GptOssForCausalLM/,
};
// which is seen before the export, but for GPT-OSS
const REFUSED = inPart(Object.entries(NOT), ([family]) => family !== 'GptOss');
/** States are kept in half precision: 11 bits. */
const HALF = 2 ** -11;
const NATS = 1e-4;

interface Truth {
  readonly ids: number[];
  readonly entropies: number[];
  readonly logprobs: number[];
  readonly branches: readonly (Omit<Branch, 'ids'> & {
    readonly ids: number[];
    readonly logprobs: number[];
  })[];
  /** of every layer and exit */
  readonly states: { readonly exits: number[]; readonly layers: number[][][] };
}

const python = exportPython();
const { at, done, fails, folder, write } = await openScene();
let found: Record<string, [code: number, said: string, files: string[]]>;

describe.skipIf(python === undefined)('rredcot.export (skipped where pip cannot install torch)', () => {
  beforeAll(() => {
    const script = join(ROOT, 'test/support/export_families.py');
    const env = {
      ...ONE_THREAD,
      RREDCOT_THREADS: '1',
      PYTHONPATH: join(ROOT, 'python/src'),
      HF_HUB_OFFLINE: '1',
    };
    const families = [...FIT, ...OWN, ...REFUSED.map(([family]) => family)];
    const { stdout, stderr } = spawnSync(python as string, [script, folder, ...families], {
      env,
      encoding: 'utf8',
    });
    expect(stdout, stderr).not.toBe('');
    found = JSON.parse(stdout);
  }, 1_200_000);

  it.each([...FIT, ...OWN])(
    '%s: log p, entropies, branches and states are those of plain passes',
    async (family) => {
      const [code, said] = found[family] as [number, string, string[]];
      expect(code, said).toBe(0);
      const own = `policy build ${family}/checkpoint -o ${family}/policy`;
      if (OWN.includes(family)) await done(`${own} --exit-template ${family}/checkpoint/exit_template.json`);
      const policy = await openPolicyFolder(at(`${family}/policy`));
      await using session = await ModelSession.open(policy);
      expect(session.proof?.findings.every(({ off }) => off < NATS)).toBe(true);
      const all: Truth[] = JSON.parse(readFileSync(at(`${family}/truth.json`), 'utf8'));
      const traces = all.map(({ ids, branches, states }) => ({
        ids: Int32Array.from(ids),
        promptLength: 1,
        branches: branches.map(({ logprobs: _, ...branch }) => ({
          ...branch,
          ids: Int32Array.from(branch.ids),
        })),
        states: states.exits,
      }));
      // all in one run, and in two
      const whole = await session.run(traces);
      const read = await session.run(
        traces.map((trace) => ({ ...trace, branches: [] })),
        7,
      );
      const behind = await session.branches(
        7,
        traces.map(({ branches }) => branches),
      );
      await session.release(7);
      for (const [n, { entropies, logprobs, branches, states }] of all.entries()) {
        const split = { ...read[n], branches: behind[n]?.branches } as TraceScores;
        for (const scores of [whole[n] as TraceScores, split]) {
          expect(differences(scores.entropies, entropies).most).toBeLessThan(NATS);
          expect(differences(scores.logprobs, logprobs).most).toBeLessThan(NATS);
          for (const [b, branch] of branches.entries())
            expect(differences(scores.branches[b] ?? [], branch.logprobs).most).toBeLessThan(NATS);
          const kept = new Float32Array(scores.states?.length ?? 0);
          fromFloat16(scores.states as Uint16Array, kept);
          const layers = (policy.stateLayers ?? []).map((layer) => states.layers[layer] as number[][]);
          const expected = states.exits.flatMap((_, k) => layers.flatMap((rows) => rows[k] as number[]));
          expect(kept.length).toBe(expected.length);
          for (const [i, each] of expected.entries())
            expect(Math.abs((kept[i] as number) - each)).toBeLessThan(2e-4 + HALF * Math.abs(each));
        }
      }
    },
  );

  it.each(REFUSED)('%s is refused by name, and nothing is written', (family, why) => {
    const [code, said, files] = found[family] as [number, string, string[]];
    expect(said).toMatch(why);
    expect(said).toContain('--tokenizer-only');
    expect(code).toBe(2);
    expect(files.filter((name) => name !== 'truth.json')).toEqual(['checkpoint']);
  });

  it('the program scores by such a folder as by any other, by every strategy', async () => {
    await write('t.jsonl', await fixtureRows(0, 6));
    for (const flags of ['', '--segmenter hybrid', '--estimator probe', '--estimator loo']) {
      const { said } = await done(
        `score t.jsonl --policy Gemma2/policy ${flags} -o scored.jsonl --overwrite`,
      );
      expect(said).not.toMatch(/rejected|no hidden states/);
    }
    const { stdout } = await done('policy info Gemma2/policy');
    expect(stdout).toMatch(/float32, for the CPU: Gemma2ForCausalLM, exported by transformers 5/);
    await done('score t.jsonl --policy Gemma2/policy --estimator progress --prover Gemma3/policy -o r.jsonl');
    const taught = 'score t.jsonl --policy Gemma2/policy --teacher Gemma3/policy -o r.jsonl';
    await fails(taught, 2, /Gemma2\/policy was exported \(Gemma2ForCausalLM\), and its graph gives no/);
  });

  it('rows with pictures are rejected by name, as messages and as tokens', async () => {
    const [{ completion, reward } = {}] = await fixtureRows(0, 1);
    const row = { completion, reward, reference: '7' };
    const content = [
      { type: 'image', image: 'a.png' },
      { type: 'text', text: 'What is it?' },
    ];
    await write('p.jsonl', [
      { ...row, prompt: 'What is it?' },
      { ...row, prompt: [{ role: 'user', content }] },
      { ...row, prompt: '', prompt_ids: [65, 7, 66] },
    ]);
    for (const family of ['Qwen3VL', 'Mistral3', 'Gemma3'])
      await done(`score p.jsonl --policy ${family}/policy --max-rejects 2 -o ${family}.jsonl`);
    for (const family of ['Qwen3VL', 'Mistral3', 'Gemma3']) {
      const rejects = await readFile(at(`${family}.jsonl.rejects.jsonl`), 'utf8');
      expect(rejects).toMatch(/expected text or a list of text parts/);
      expect(rejects).toMatch(/token 7 stands for a picture/);
    }
  });

  it('is refused on CUDA by name, and with numbers that are not those of its canary', async () => {
    await write('t.jsonl', await fixtureRows(0, 1));
    const policy = await openPolicyFolder(at('Gemma2/policy'));
    const device = { name: 'cuda', deviceId: 0 } as const;
    await expect(ModelSession.open(policy, device)).rejects.toThrow(/exported, and runs on the CPU alone/);
    // the graph of one family under the canary of another
    await cp(at('Gemma2/policy'), at('other'), { recursive: true });
    const of = async (family: string) => JSON.parse(await readFile(at(`${family}/policy.json`), 'utf8'));
    const [manifest, { canary }] = [await of('Gemma2/policy'), await of('Gemma3/policy')];
    await cp(at('Gemma3/policy/canary.json'), at('other/canary.json'));
    await writeFile(at('other/policy.json'), JSON.stringify({ ...manifest, canary }));
    await fails('score t.jsonl --policy other -o n.jsonl', 69, 'does not give the numbers of its canary');
    const hidden = { ...manifest, architecture: { ...manifest.architecture, hidden: 32 } };
    await cp(at('Gemma2/policy/canary.json'), at('other/canary.json'));
    await writeFile(at('other/policy.json'), JSON.stringify(hidden));
    await fails(
      'score t.jsonl --policy other --estimator probe -o n.jsonl',
      2,
      /numbers of \d+ hidden states/,
    );
  });
});
