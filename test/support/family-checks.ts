// Small random checkpoints of every family, weight type and rope type: built, run, and compared with the float64 pass.
import { describe, expect, test } from 'vitest';
import { buildPolicyFolder } from '../../dist/model/onnx/build.js';
import type { Branch, TraceScores } from '../../dist/model/onnx/placed.js';
import { ModelSession } from '../../dist/model/onnx/session.js';
import { loadOracleModel, type OracleModel, tokenStats } from '../oracle/llama.js';
import { seeded } from '../oracle/toy.js';
import { type Json, LLAMA, type TensorType, writeCheckpoint } from './checkpoints.js';
import { DELTA } from './random-policy.js';
import { temporaryFolder } from './temporary-folder.js';
import { inPart } from './torture.js';

const NATS = 1e-4;
/** of ids that the smallest vocabulary has */
const TEMPLATE = { close: '\u0001', open: '', closer: '\u0002' };

/** Each family with sizes of its own: shared and single key heads, heads of 10, 16 and 32, tied and untied. */
export const FAMILIES: Record<string, Json> = {
  Llama: LLAMA,
  Mistral: {
    ...{ ...LLAMA, architectures: ['MistralForCausalLM'], num_attention_heads: 5, num_key_value_heads: 1 },
    ...{ hidden_size: 40, head_dim: null, sliding_window: null },
  },
  Qwen2: {
    ...{ ...LLAMA, architectures: ['Qwen2ForCausalLM'], num_attention_heads: 7, num_key_value_heads: 7 },
    ...{ hidden_size: 84, head_dim: undefined, tie_word_embeddings: true },
    ...{ sliding_window: 8, use_sliding_window: false },
  },
  Qwen3: {
    ...{ ...LLAMA, architectures: ['Qwen3ForCausalLM'], num_attention_heads: 3, num_key_value_heads: 1 },
    ...{ head_dim: 16, attention_bias: false },
  },
  SmolLM3: {
    ...{ ...LLAMA, architectures: ['SmolLM3ForCausalLM'], num_attention_heads: 4, num_key_value_heads: 2 },
    ...{ hidden_size: 64, head_dim: undefined, tie_word_embeddings: undefined, no_rope_layer_interval: 2 },
  },
  Olmo2: {
    ...{ ...LLAMA, architectures: ['Olmo2ForCausalLM'], num_attention_heads: 3, num_key_value_heads: 3 },
    ...{ hidden_size: 48, head_dim: undefined },
  },
  Phi3: {
    ...{ ...LLAMA, architectures: ['Phi3ForCausalLM'], num_attention_heads: 4, num_key_value_heads: 2 },
    ...{ hidden_size: 64, head_dim: undefined, sliding_window: null, partial_rotary_factor: 1 },
  },
  Qwen3Moe: {
    ...{ ...LLAMA, architectures: ['Qwen3MoeForCausalLM'], num_attention_heads: 3, num_key_value_heads: 1 },
    ...{ head_dim: 16, num_experts: 7, num_experts_per_tok: 3, moe_intermediate_size: 13 },
    ...{ norm_topk_prob: true, num_hidden_layers: 3, mlp_only_layers: [1] },
  },
  Qwen2Moe: {
    ...{ ...LLAMA, architectures: ['Qwen2MoeForCausalLM'], num_attention_heads: 4, num_key_value_heads: 2 },
    ...{ hidden_size: 40, head_dim: undefined, num_experts: 5, num_experts_per_tok: 2 },
    ...{ moe_intermediate_size: 24, shared_expert_intermediate_size: 17, norm_topk_prob: false },
    ...{ sliding_window: 0, use_sliding_window: false },
  },
  Granite: {
    ...{ ...LLAMA, architectures: ['GraniteForCausalLM'], num_attention_heads: 4, num_key_value_heads: 2 },
    ...{
      hidden_size: 40,
      head_dim: undefined,
      embedding_multiplier: 3,
      attention_multiplier: 0.2,
      residual_multiplier: 0.4,
    },
    logits_scaling: 1.5,
  },
  'Qwen3.5': {
    ...{ ...LLAMA, num_attention_heads: 3, num_key_value_heads: 1 },
    ...{ ...DELTA, head_dim: 24, num_hidden_layers: 3, linear_conv_kernel_dim: 3 },
  },
};

const scaled = (rope_type: string, more: Json) => ({
  rope_scaling: { rope_type, factor: 4, original_max_position_embeddings: 64, ...more },
});
/** Contexts short enough that 50 tokens lie in every part of a scaling's ramp. */
export const ROPES: Record<string, Json> = {
  default: {},
  linear: { rope_scaling: { type: 'linear', factor: 2.5 } },
  llama3: scaled('llama3', { low_freq_factor: 1, high_freq_factor: 4 }),
  yarn: scaled('yarn', { beta_fast: 4, beta_slow: 1 }),
};

const TYPES: TensorType[] = ['F32', 'F16', 'BF16'];
const random = seeded(7);
const randomIds = (length: number, vocab = 131) =>
  Int32Array.from({ length }, () => Math.floor(random() * vocab));

/** Largest and mean difference. */
export function differences(found: ArrayLike<number>, expected: ArrayLike<number>) {
  expect(found.length).toBe(expected.length);
  const all = Array.from(found, (value, i) => Math.abs(value - (expected[i] as number)));
  const most = Math.max(...all);
  expect(most).not.toBeNaN();
  return { most, mean: all.reduce((sum, d) => sum + d, 0) / all.length };
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

/**
 * Of 50 tokens and 7 branches, in one run and in two, against the float64 pass and against reading all again; `changed` from oracles whose
 * config is another: a part left out must show.
 */
export async function runDifferences(
  session: ModelSession,
  model: OracleModel,
  changes: readonly Json[],
  vocab?: number,
) {
  const ids = randomIds(50, vocab);
  const branches = [1, 1, 7, 23, 24, 49, 50].map(
    (exit, i): Branch => ({ exit, ids: randomIds(2 + ((i * 5) % 13), vocab), scoredFrom: 1 + (i % 2) }),
  );
  const [packed] = (await session.run([{ ids, promptLength: 1, branches }], 0)) as [TraceScores];
  const [apart] = (await session.branches(0, [branches])) as [TraceScores];
  const expected = tokenStats(model, [...ids]);
  const [naive, oracle]: [number[], number[]] = [[], []];
  for (const { exit, ids: suffix, scoredFrom } of branches) {
    const whole = Int32Array.of(...ids.subarray(0, exit), ...suffix);
    const from = exit + scoredFrom;
    const [own] = (await session.run([{ ids: whole, promptLength: from, branches: [] }])) as [TraceScores];
    naive.push(...own.logprobs);
    oracle.push(...tokenStats(model, [...whole]).logprobs.slice(from));
  }
  const [inOne, inTwo] = [packed, apart].map((scores) => scores.branches.flatMap((own) => [...own]));
  return {
    entropies: differences(packed.entropies, expected.entropies.slice(1)),
    logprobs: differences(packed.logprobs, expected.logprobs.slice(1)),
    branchesNaive: differences(inOne as number[], naive),
    branchesOracle: differences(inOne as number[], oracle),
    twoRuns: differences(inTwo as number[], inOne as number[]),
    changed: changes.map((change) => {
      const other = tokenStats({ ...model, config: { ...model.config, ...change } }, [...ids]);
      return differences(packed.logprobs, other.logprobs.slice(1));
    }),
  };
}

/** Of completions and branches behind a prompt that is read once. */
async function sharedDifferences(session: ModelSession, model: OracleModel) {
  const promptLength = 23;
  const prompt = randomIds(promptLength);
  const traces = [27, 9].map((length) => ({
    ...{ ids: Int32Array.of(...prompt, ...randomIds(length)), promptLength, shares: 0 },
    branches: [promptLength - 1, promptLength, promptLength + 5, promptLength + length].map(
      (exit): Branch => ({ exit, ids: randomIds(6), scoredFrom: 1 }),
    ),
  }));
  const once = await session.run(traces);
  const bare = traces.map((trace) => ({ ...trace, branches: [] }));
  const twice = await session.run(bare, 1);
  const asked = traces.map(({ branches }) => branches);
  const after = await session.branches(1, asked);
  const [found, expected]: [number[], number[]] = [[], []];
  for (const [n, { ids, branches }] of traces.entries()) {
    const { logprobs, entropies } = tokenStats(model, [...ids]);
    for (const own of [once[n], twice[n]] as TraceScores[]) {
      found.push(...own.logprobs, ...own.entropies);
      expected.push(...logprobs.slice(promptLength), ...entropies.slice(promptLength));
    }
    for (const [i, { exit, ids: suffix, scoredFrom }] of branches.entries()) {
      const sequence = tokenStats(model, [...ids.subarray(0, exit), ...suffix]).logprobs;
      for (const own of [once[n], after[n]] as TraceScores[]) {
        found.push(...(own.branches[i] as Float32Array));
        expected.push(...sequence.slice(exit + scoredFrom));
      }
    }
  }
  return differences(found, expected);
}

/** Builds and runs a checkpoint: the numbers are those of the float64 pass, and none of a config that is changed. */
export async function expectSame(
  config: Json,
  opts: Parameters<typeof writeCheckpoint>[2],
  ...changes: readonly Json[]
): Promise<void> {
  await using opened = await openFamily(config, opts);
  const { changed, ...same } = await runDifferences(opened.session, opened.model, changes);
  const shared = await sharedDifferences(opened.session, opened.model);
  // a delta net brings keys to unit length, whatever length these had: in float64, too, weights that are off by float32's
  // rounding move a number by up to 2.3e-4 (40 draws; half of them by less than 1e-5)
  const bound = 'linear_num_key_heads' in config ? 10 * NATS : NATS;
  for (const [what, { most }] of Object.entries({ ...same, shared })) expect(most, what).toBeLessThan(bound);
  for (const { most } of changed) expect(most).toBeGreaterThan(0.01);
}

/** Cases in which every two of family, weight type and rope type meet once; in CI every family meets one of the four rope types. */
const CASES = inPart(
  Object.keys(FAMILIES).flatMap((family, f) =>
    Object.keys(ROPES).map((rope, r) => [family, TYPES[(f + r) % TYPES.length] as TensorType, rope] as const),
  ),
  (_, n) => Math.floor(n / 4) % 4 === n % 4,
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
      const opts = { dtype, shards: turn % 2 === 0 ? 1 : 3, seed: turn + 1 };
      await expectSame({ ...rest, ...spelled }, opts, ...(scaling === undefined ? [] : [unscaled]));
    });
  });
}
