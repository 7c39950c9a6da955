// Small random checkpoints of every family, weight type and rope type: built, run, and compared with the float64 pass.
import { describe, expect, test } from 'vitest';
import { buildPolicyFolder } from '../../dist/model/onnx/build.js';
import type { Branch } from '../../dist/model/onnx/placed.js';
import { ModelSession, type TraceScores } from '../../dist/model/onnx/session.js';
import { loadOracleModel, tokenStats } from '../oracle/llama.js';
import { seeded } from '../oracle/toy.js';
import { type Json, LLAMA, type TensorType, writeCheckpoint } from './checkpoints.js';
import { temporaryFolder } from './temporary-folder.js';

const NATS = 1e-4;
/** of ids that the smallest vocabulary has */
const TEMPLATE = { close: '\u0001', open: '', closer: '\u0002' };

/** Each family with sizes of its own: shared and single key heads, heads of 10, 16 and 32, tied and untied. */
export const FAMILIES: Record<string, Json> = {
  Llama: LLAMA,
  Mistral: {
    ...LLAMA,
    architectures: ['MistralForCausalLM'],
    num_attention_heads: 5,
    num_key_value_heads: 1,
    hidden_size: 40,
    head_dim: null,
    sliding_window: null,
  },
  Qwen2: {
    ...LLAMA,
    architectures: ['Qwen2ForCausalLM'],
    hidden_size: 84,
    num_attention_heads: 7,
    num_key_value_heads: 7,
    head_dim: undefined,
    tie_word_embeddings: true,
    sliding_window: 8,
    use_sliding_window: false,
  },
  Qwen3: {
    ...LLAMA,
    architectures: ['Qwen3ForCausalLM'],
    num_attention_heads: 3,
    num_key_value_heads: 1,
    head_dim: 16,
    attention_bias: false,
  },
};

/** Contexts short enough that 50 tokens lie in every part of a scaling's ramp. */
export const ROPES: Record<string, Json> = {
  default: {},
  linear: { rope_scaling: { type: 'linear', factor: 2.5 } },
  llama3: {
    rope_scaling: {
      rope_type: 'llama3',
      factor: 4,
      low_freq_factor: 1,
      high_freq_factor: 4,
      original_max_position_embeddings: 64,
    },
  },
  yarn: {
    rope_scaling: {
      rope_type: 'yarn',
      factor: 4,
      original_max_position_embeddings: 64,
      beta_fast: 4,
      beta_slow: 1,
    },
  },
};

const TYPES: TensorType[] = ['F32', 'F16', 'BF16'];
const random = seeded(7);
const randomIds = (length: number) => Int32Array.from({ length }, () => Math.floor(random() * 131));

function worst(found: ArrayLike<number>, expected: ArrayLike<number>): number {
  expect(found.length).toBe(expected.length);
  let most = 0;
  for (let i = 0; i < found.length; i++)
    most = Math.max(most, Math.abs((found[i] as number) - (expected[i] as number)));
  expect(most).not.toBeNaN();
  return most;
}

interface Differences {
  prefix: number;
  branchesNaive: number;
  branchesOracle: number;
  /** of completions and branches behind a prompt that is read once */
  shared: number;
  /** of the prefix's log-probabilities from oracles whose config is changed, the least: a part left out must show */
  changed?: number;
}

/** A random checkpoint, built and opened, beside the float64 model of it. */
export async function openFamily(config: Json, opts: Parameters<typeof writeCheckpoint>[2] = {}) {
  const at = await temporaryFolder();
  writeCheckpoint(`${at}/checkpoint`, config, opts);
  const folder = await buildPolicyFolder(`${at}/checkpoint`, `${at}/policy`, TEMPLATE);
  const session = await ModelSession.open(folder);
  const model = loadOracleModel(`${at}/checkpoint`);
  return { folder, session, model, [Symbol.asyncDispose]: () => session.close() };
}

/** Builds and runs a checkpoint: 50 tokens, 7 branches. */
export async function differences(
  config: Json,
  opts: Parameters<typeof writeCheckpoint>[2],
  ...changes: readonly (Json | undefined)[]
) {
  await using opened = await openFamily(config, opts);
  const { session, model } = opened;
  const ids = randomIds(50);
  const [{ logprobs, entropies }] = (await session.run([{ ids, promptLength: 1, branches: [] }], 0)) as [
    TraceScores,
  ];
  const expected = tokenStats(model, [...ids]);
  const prefix = Math.max(
    worst(logprobs, expected.logprobs.slice(1)),
    worst(entropies, expected.entropies.slice(1)),
  );
  const branches = [1, 1, 7, 23, 24, 49, 50].map(
    (exit, i): Branch => ({ exit, ids: randomIds(2 + ((i * 5) % 13)), scoredFrom: 1 + (i % 2) }),
  );
  const [{ branches: scores }] = (await session.branches(0, [branches])) as [TraceScores];
  const [together] = (await session.run([{ ids, promptLength: 1, branches }])) as [TraceScores];
  for (const [i, score] of scores.entries())
    expect(worst(together.branches[i] as Float32Array, score)).toBeLessThan(NATS);
  let [branchesNaive, branchesOracle] = [0, 0];
  for (const [i, branch] of branches.entries()) {
    const whole = Int32Array.of(...ids.subarray(0, branch.exit), ...branch.ids);
    const from = branch.exit + branch.scoredFrom;
    const [naive] = (await session.run([{ ids: whole, promptLength: from, branches: [] }])) as [TraceScores];
    branchesNaive = Math.max(branchesNaive, worst(scores[i] as Float32Array, naive.logprobs));
    const oracle = tokenStats(model, [...whole]).logprobs.slice(from);
    branchesOracle = Math.max(branchesOracle, worst(scores[i] as Float32Array, oracle));
  }
  let shared = 0;
  const promptLength = 23;
  const traces = [ids, Int32Array.of(...ids.subarray(0, promptLength), ...randomIds(9))].map((own) => ({
    ...{ ids: own, promptLength, shares: 0 },
    branches: [promptLength - 1, promptLength, promptLength + 5, own.length].map(
      (exit): Branch => ({ exit, ids: randomIds(6), scoredFrom: 1 }),
    ),
  }));
  const once = await session.run(traces);
  const twice = await session.run(
    traces.map((trace) => ({ ...trace, branches: [] })),
    1,
  );
  const after = await session.branches(
    1,
    traces.map((trace) => trace.branches),
  );
  for (const [n, { ids: own, branches: asked }] of traces.entries()) {
    const { logprobs: whole, entropies: spread } = tokenStats(model, [...own]);
    for (const found of [once[n], twice[n]] as TraceScores[])
      shared = Math.max(
        shared,
        worst(found.logprobs, whole.slice(promptLength)),
        worst(found.entropies, spread.slice(promptLength)),
      );
    for (const [i, { exit, ids: suffix, scoredFrom }] of asked.entries()) {
      const sequence = tokenStats(model, [...own.subarray(0, exit), ...suffix]).logprobs;
      for (const found of [once[n], after[n]] as TraceScores[])
        shared = Math.max(
          shared,
          worst(found.branches[i] as Float32Array, sequence.slice(exit + scoredFrom)),
        );
    }
  }
  const result: Differences = { prefix, branchesNaive, branchesOracle, shared };
  const others = changes.flatMap((change) => {
    if (change === undefined) return [];
    const other = tokenStats({ ...model, config: { ...model.config, ...change } }, [...ids]);
    return [worst(logprobs, other.logprobs.slice(1))];
  });
  return others.length === 0 ? result : { ...result, changed: Math.min(...others) };
}

export function expectSame(found: Differences): void {
  expect(found.prefix).toBeLessThan(NATS);
  expect(found.branchesNaive).toBeLessThan(NATS);
  expect(found.branchesOracle).toBeLessThan(NATS);
  expect(found.shared).toBeLessThan(NATS);
  if (found.changed !== undefined) expect(found.changed).toBeGreaterThan(0.01);
}

/** Cases in which every two of family, weight type and rope type meet once. */
const CASES = Object.keys(FAMILIES).flatMap((family, f) =>
  Object.keys(ROPES).map((rope, r) => [family, TYPES[(f + r) % TYPES.length] as TensorType, rope] as const),
);

export function describeFamilies(): void {
  describe('family × weights × rope type, every pair: the numbers of the float64 pass, in prefix and branches', () => {
    test.each(CASES)('%s, %s, %s', async (family, dtype, rope) => {
      // odd combinations in three shards; scaling in the spelling of transformers 5 every other time
      const turn = TYPES.indexOf(dtype) + Object.keys(ROPES).indexOf(rope);
      const { rope_theta, ...rest } = FAMILIES[family] as Json;
      const scaling = (ROPES[rope] as Json).rope_scaling as Json | undefined;
      const modern = turn % 2 === 1;
      const spelled = modern
        ? { rope_parameters: { rope_type: rope, rope_theta, ...scaling, type: undefined } }
        : { rope_theta, rope_scaling: scaling ?? null };
      const unscaled = modern ? { rope_parameters: { rope_theta } } : { rope_scaling: null };
      expectSame(
        await differences(
          { ...rest, ...spelled },
          { dtype, shards: turn % 2 === 0 ? 1 : 3, seed: turn + 1 },
          scaling && unscaled,
        ),
      );
    });
  });
}
