// Mixtures of experts beside transformers: random checkpoints as it saves them, built, and every number of traces and branches compared.
import { copyFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { buildPolicyFolder } from '../../../dist/model/onnx/build.js';
import type { PackedTrace } from '../../../dist/model/onnx/placed.js';
import { ModelSession } from '../../../dist/model/onnx/session.js';
import { differences } from '../../support/family-checks.js';
import { EMBEDDED, rredcot, temporaryFolder } from '../../support/program.js';
import { pythonThatStays, pythonWith } from '../../support/python.js';
import { IS_TORTURE } from '../../support/torture.js';
import { exportPython } from '../../support/trainer-venv.js';

const python = pythonWith('torch, transformers, safetensors') ?? exportPython();
const TEMPLATE = { close: '\u0001', open: '', closer: '\u0002' };
const scratch = await temporaryFolder();

type Json = Record<string, unknown>;
interface Reference {
  readonly ids: number[];
  readonly logprobs: number[];
  readonly entropies: number[];
  readonly branches: { exit: number; ids: number[]; logprobs: number[] }[];
  readonly nearest: number;
  readonly drawn: number;
}

interface Spec {
  readonly class: 'Qwen3Moe' | 'Qwen2Moe';
  readonly config: Json;
  readonly dtype?: 'float32' | 'bfloat16' | 'float16';
  /** all experts of a layer in one tensor */
  readonly joined?: boolean;
  readonly runs: readonly (readonly [tokens: number, exits: number])[];
}

const transformers = python === undefined ? undefined : pythonThatStays(python, ['mixture_reference.py']);
afterAll(() => transformers?.close());

let made = 0;
/** A checkpoint, with the embedded policy's tokenizer beside it, and what transformers says. */
async function reference(spec: Spec) {
  const folder = join(scratch, `checkpoint-${++made}`);
  const all = { dtype: 'float32', joined: false, seed: made, ...spec };
  const runs = (await transformers?.ask<Reference[]>({ folder, spec: all })) ?? [];
  for (const name of ['tokenizer.json', 'tokenizer_config.json'])
    copyFileSync(join(EMBEDDED, name), join(folder, name));
  return { folder, runs };
}

const traceOf = ({ ids, branches }: Reference): PackedTrace => ({
  ids: Int32Array.from(ids),
  promptLength: 1,
  branches: branches.map((own) => ({ exit: own.exit, ids: Int32Array.from(own.ids), scoredFrom: 1 })),
});

/** Largest differences of log p, entropy, and branches in one run and in two. */
async function compare(session: ModelSession, run: Reference) {
  const trace = traceOf(run);
  const [once] = await session.run([trace]);
  await session.run([{ ...trace, branches: [] }], 0);
  const [apart] = await session.branches(0, [trace.branches]);
  await session.release(0);
  const expected = run.branches.flatMap(({ logprobs }) => logprobs);
  const off = (found: readonly ArrayLike<number>[]) =>
    differences(
      found.flatMap((each) => Array.from(each)),
      expected,
    ).most;
  return {
    logprobs: differences(once?.logprobs ?? [], run.logprobs).most,
    entropies: differences(once?.entropies ?? [], run.entropies).most,
    branches: off(once?.branches ?? []),
    twoRuns: off(apart?.branches ?? []),
  };
}

const heads = { head_dim: 16 };
const LENGTHS = [3, 200, 3000] as const;
const EXITS = [1, 7, 40] as const;
const ALL = LENGTHS.flatMap((tokens) => EXITS.map((exits) => [tokens, exits] as const));
const DIAGONAL = [3, 200, IS_TORTURE ? 3000 : 700].map((tokens, i) => [tokens, EXITS[i] as number] as const);

const of = (experts: number, chosen: number, norm: boolean, layers: number, more: Json = {}): Json => ({
  ...{ num_experts: experts, num_experts_per_tok: chosen, norm_topk_prob: norm, num_hidden_layers: layers },
  ...{ moe_intermediate_size: 24, ...more },
});
const SPECS: Record<string, Spec> = {
  '8 experts, 2 each, a dense layer between': {
    class: 'Qwen3Moe',
    config: of(8, 2, true, 3, { ...heads, mlp_only_layers: [1] }),
    runs: ALL,
  },
  '4 experts, 1 each, not normalized, tied': {
    class: 'Qwen3Moe',
    config: of(4, 1, false, 2, { tie_word_embeddings: true, moe_intermediate_size: 64 }),
    runs: DIAGONAL,
  },
  '128 experts, 8 each': {
    class: 'Qwen3Moe',
    config: of(128, 8, true, 2, { ...heads, moe_intermediate_size: 16 }),
    runs: DIAGONAL,
  },
  '128 experts, 8 each, not normalized, in one tensor, bfloat16': {
    class: 'Qwen3Moe',
    config: of(128, 8, false, 2, { ...heads, moe_intermediate_size: 12 }),
    dtype: 'bfloat16',
    joined: true,
    runs: DIAGONAL,
  },
  '16 experts, 3 each, in every second layer, in one tensor, tied': {
    class: 'Qwen3Moe',
    config: of(16, 3, false, 4, { decoder_sparse_step: 2, tie_word_embeddings: true, head_dim: 20 }),
    joined: true,
    runs: DIAGONAL,
  },
  '5 experts, all of them each, float16': {
    class: 'Qwen3Moe',
    config: of(5, 5, true, 2, { num_key_value_heads: 1 }),
    dtype: 'float16',
    runs: DIAGONAL,
  },
  'a window in all layers': {
    class: 'Qwen3Moe',
    config: of(6, 2, true, 2, { ...heads, use_sliding_window: true, sliding_window: 50 }),
    runs: DIAGONAL,
  },
  'Qwen2-MoE: one expert for all tokens': {
    class: 'Qwen2Moe',
    config: of(6, 3, false, 3, { shared_expert_intermediate_size: 40, mlp_only_layers: [0] }),
    runs: DIAGONAL,
  },
  'Qwen2-MoE: windows, normalized, bfloat16': {
    class: 'Qwen2Moe',
    config: of(60, 4, true, 3, {
      ...{ shared_expert_intermediate_size: 20, use_sliding_window: true, sliding_window: 40 },
      max_window_layers: 2,
    }),
    dtype: 'bfloat16',
    runs: DIAGONAL,
  },
};

describe.skipIf(python === undefined)(
  'log p, entropies and branches as transformers has them in float64 (skipped without torch and transformers)',
  () => {
    test.each(Object.keys(SPECS))('%s: 1e-4, and 1e-5 in other company', async (name) => {
      const { folder, runs } = await reference(SPECS[name] as Spec);
      const policy = await buildPolicyFolder(folder, `${folder}-policy`, TEMPLATE);
      await using session = await ModelSession.open(policy);
      for (const run of runs) {
        const found = await compare(session, run);
        if (process.env.RREDCOT_SHOW_DIFFERENCES)
          console.log(name, run.ids.length, run.branches.length, run.nearest, run.drawn, found);
        for (const [what, most] of Object.entries(found))
          expect(most, `${what} of ${run.ids.length} tokens`).toBeLessThan(1e-4);
      }
      const [short, middle] = [runs[0], runs.find(({ ids }) => ids.length === 200)] as [Reference, Reference];
      const [alone] = await session.run([traceOf(middle)]);
      const [, among] = await session.run([short, middle, short].map(traceOf));
      const numbers = (of: typeof alone) =>
        [of?.logprobs, of?.entropies, ...(of?.branches ?? [])].flatMap((own) => Array.from(own ?? []));
      expect(differences(numbers(among), numbers(alone)).most).toBeLessThan(1e-5);
    });

    test('policy build and score on the command line', async () => {
      const { folder, runs } = await reference({
        ...(SPECS['128 experts, 8 each'] as Spec),
        runs: [[120, 3]],
      });
      const { ids, logprobs, entropies } = runs[0] as Reference;
      const template = join(scratch, 'exit.json');
      writeFileSync(template, JSON.stringify(TEMPLATE));
      const built = await rredcot([
        'policy',
        'build',
        folder,
        '-o',
        `${folder}-cli`,
        '--exit-template',
        template,
      ]);
      expect(built.code, built.stderr).toBe(0);
      const row = { id: 'a', prompt_ids: ids.slice(0, 20), completion_ids: ids.slice(20), answer: '7' };
      const args = ['score', '--policy', `${folder}-cli`, '--device', 'cpu', '-o', '-', '--format', 'jsonl'];
      const scored = await rredcot(args, { stdin: `${JSON.stringify({ ...row, reward: 1 })}\n` });
      expect(scored.code, scored.stderr).toBe(0);
      const found = JSON.parse(scored.stdout) as { logprobs: number[]; entropies: number[] };
      expect(differences(found.logprobs, logprobs.slice(19)).most).toBeLessThan(1e-4);
      expect(differences(found.entropies, entropies.slice(19)).most).toBeLessThan(1e-4);
    });
  },
);
