/** Random checkpoints of every family, weight type and rope type, built and run, against the float64 pass. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { parseArchitecture } from '../dist/policy/architecture.js';
import { windowOf } from '../dist/policy/families.js';
import { buildPolicyFolder } from '../dist/policy/folder.js';
import type { Branch } from '../dist/policy/pack.js';
import { PolicySession, type TraceScores } from '../dist/policy/session.js';
import { type Json, LLAMA, type TensorType, writeCheckpoint } from './checkpoints.js';
import { familyScores, loadFamily } from './oracle/families.js';
import { seeded } from './oracle/toy.js';

const NATS = 1e-4;
const TEMPLATE = { close: '\n\n', open: 'answer: ', closer: '.' };
const scratch = mkdtempSync(join(tmpdir(), 'rredcot-families-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

/** Each family with sizes of its own: shared and single key heads, heads of 10, 16 and 32, tied and untied. */
const FAMILIES: Record<string, Json> = {
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
const ROPES: Record<string, Json> = {
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
  trunk: number;
  branchesNaive: number;
  branchesOracle: number;
  /** of the trunk's log-probabilities from an oracle whose config is changed: a part left out must show */
  changed?: number;
}

let built = 0;
/** Builds and runs a checkpoint: 50 tokens, 7 branches. */
async function differences(config: Json, opts: Parameters<typeof writeCheckpoint>[2], change?: Json) {
  const at = join(scratch, String(built++));
  writeCheckpoint(`${at}/checkpoint`, config, opts);
  const session = await PolicySession.open(
    await buildPolicyFolder(`${at}/checkpoint`, `${at}/policy`, TEMPLATE),
  );
  try {
    const model = loadFamily(`${at}/checkpoint`);
    const ids = randomIds(50);
    const [{ logprobs, entropies }] = (await session.run([{ ids, promptLength: 1, branches: [] }], 0)) as [
      TraceScores,
    ];
    const expected = familyScores(model, [...ids]);
    const trunk = Math.max(
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
      const [naive] = (await session.run([{ ids: whole, promptLength: from, branches: [] }])) as [
        TraceScores,
      ];
      branchesNaive = Math.max(branchesNaive, worst(scores[i] as Float32Array, naive.logprobs));
      const oracle = familyScores(model, [...whole]).logprobs.slice(from);
      branchesOracle = Math.max(branchesOracle, worst(scores[i] as Float32Array, oracle));
    }
    const result: Differences = { trunk, branchesNaive, branchesOracle };
    if (change === undefined) return result;
    const other = familyScores({ ...model, config: { ...model.config, ...change } }, [...ids]);
    return { ...result, changed: worst(logprobs, other.logprobs.slice(1)) };
  } finally {
    await session.close();
    rmSync(at, { recursive: true });
  }
}

function expectSame(found: Differences): void {
  expect(found.trunk).toBeLessThan(NATS);
  expect(found.branchesNaive).toBeLessThan(NATS);
  expect(found.branchesOracle).toBeLessThan(NATS);
  if (found.changed !== undefined) expect(found.changed).toBeGreaterThan(0.01);
  if (process.env.RREDCOT_SHOW_DIFFERENCES) console.log(expect.getState().currentTestName, found);
}

describe('family × weights × rope type: the numbers of the float64 pass, in trunk and branches', () => {
  const cases = Object.keys(FAMILIES).flatMap((family) =>
    TYPES.flatMap((dtype) => Object.keys(ROPES).map((rope) => [family, dtype, rope] as const)),
  );
  test.each(cases)('%s, %s, %s', async (family, dtype, rope) => {
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

describe('what one family or scaling has for itself', () => {
  test.each<[string, Json, Json | undefined]>([
    ['yarn with an attention factor given', { attention_factor: 1.3 }, { attention_factor: 1 }],
    ['yarn with two mscales', { mscale: 1.5, mscale_all_dim: 0.5 }, { mscale: 1, mscale_all_dim: 1 }],
    ['yarn whose ramp is not truncated', { truncate: false }, { truncate: true }],
    ['yarn with the published betas', { beta_fast: 32, beta_slow: 1 }, undefined],
    ['yarn whose ramp is one dimension', { beta_fast: 1, beta_slow: 1, truncate: false }, undefined],
  ])('%s', async (_, more, less) => {
    const scaling = (ROPES.yarn as { rope_scaling: Json }).rope_scaling;
    const config = { ...LLAMA, rope_scaling: { ...scaling, ...more } };
    const change = less && { rope_scaling: { ...scaling, ...less } };
    expectSame(await differences(config, {}, change));
  });

  test.each<[string, string, Json]>([
    ['Mistral: every layer', 'Mistral', { sliding_window: 9 }],
    ['Mistral: one key only', 'Mistral', { sliding_window: 1 }],
    ['Qwen2: from a layer on', 'Qwen2', { use_sliding_window: true, max_window_layers: 1 }],
    [
      'Qwen3: the layers of a list',
      'Qwen3',
      {
        use_sliding_window: true,
        sliding_window: 5,
        layer_types: ['sliding_attention', 'full_attention'],
      },
    ],
  ])('a sliding window that binds, %s', async (_, family, more) => {
    const config = { ...(FAMILIES[family] as Json), ...more };
    const unbound = family === 'Mistral' ? { sliding_window: null } : { use_sliding_window: false };
    expectSame(await differences(config, { dtype: 'BF16', shards: 2 }, unbound));
    // off by one key is not the same
    const longer = { sliding_window: (config.sliding_window as number) + 1 };
    expectSame(await differences(config, {}, longer));
  });

  test('heads of 32 and of 64, one layer, tied, as small models have them', async () => {
    for (const head_dim of [32, 64])
      expectSame(
        await differences({ ...LLAMA, head_dim, num_hidden_layers: 1, tie_word_embeddings: true }, {}),
      );
  });

  test('norm weights in float32 beside matrices in bfloat16', async () => {
    const { randomTensors } = await import('./checkpoints.js');
    const [wide, narrow] = [randomTensors(LLAMA, 'F32'), randomTensors(LLAMA, 'BF16')];
    const tensors = new Map([...narrow].map(([n, t]) => [n, n.includes('norm') ? (wide.get(n) ?? t) : t]));
    expectSame(await differences(LLAMA, { tensors }));
  });

  test('windowOf names a layer its window, or none', () => {
    const arch = { slidingWindow: { tokens: 4, layers: [1, 2] } };
    expect([0, 1, 2, 3].map((layer) => windowOf(arch, layer))).toEqual([undefined, 4, 4, undefined]);
    expect(windowOf({}, 0)).toBeUndefined();
  });
});

describe('configurations as published', () => {
  const common = { hidden_act: 'silu', bos_token_id: 1, torch_dtype: 'bfloat16', use_cache: true };
  const of = (
    family: string,
    layers: number,
    heads: number,
    kv: number,
    hidden: number,
    more: Json,
  ): Json => ({
    ...common,
    architectures: [family],
    num_hidden_layers: layers,
    num_attention_heads: heads,
    num_key_value_heads: kv,
    hidden_size: hidden,
    intermediate_size: 11_008,
    vocab_size: 32_000,
    rms_norm_eps: 1e-5,
    ...more,
  });
  test.each<[string, Json, Json]>([
    [
      'Llama 3.1 8B',
      of('LlamaForCausalLM', 32, 32, 8, 4096, {
        max_position_embeddings: 131_072,
        rope_theta: 500_000,
        rope_scaling: {
          factor: 8,
          low_freq_factor: 1,
          high_freq_factor: 4,
          original_max_position_embeddings: 8192,
          rope_type: 'llama3',
        },
      }),
      {
        headDim: 128,
        maxTokens: 131_072,
        ropeScaling: {
          type: 'llama3',
          factor: 8,
          lowFreqFactor: 1,
          highFreqFactor: 4,
          originalMaxTokens: 8192,
        },
      },
    ],
    [
      'Mistral 7B v0.1: the window binds',
      of('MistralForCausalLM', 3, 32, 8, 4096, { max_position_embeddings: 32_768, sliding_window: 4096 }),
      { slidingWindow: { tokens: 4096, layers: [0, 1, 2] } },
    ],
    [
      'Mistral, the window left out: the default of its class',
      of('MistralForCausalLM', 1, 32, 8, 4096, { max_position_embeddings: 32_768 }),
      { slidingWindow: { tokens: 4096, layers: [0] }, ropeTheta: 10_000 },
    ],
    [
      'Mistral, a window as long as the context',
      of('MistralForCausalLM', 1, 32, 8, 4096, { max_position_embeddings: 4096, sliding_window: 4096 }),
      { slidingWindow: undefined },
    ],
    [
      'Qwen2.5 7B with the yarn of its model card',
      of('Qwen2ForCausalLM', 28, 28, 4, 3584, {
        max_position_embeddings: 32_768,
        rope_theta: 1_000_000,
        sliding_window: 131_072,
        use_sliding_window: false,
        max_window_layers: 28,
        rope_scaling: { factor: 4, original_max_position_embeddings: 32_768, type: 'yarn' },
      }),
      {
        headDim: 128,
        maxTokens: 131_072,
        slidingWindow: undefined,
        ropeScaling: {
          type: 'yarn',
          factor: 4,
          originalMaxTokens: 32_768,
          attentionFactor: 1 + 0.1 * Math.log(4),
          betaFast: 32,
          betaSlow: 1,
          truncate: true,
        },
      },
    ],
    [
      'Qwen3 0.6B as transformers 5 saves it, head_dim left out',
      of('Qwen3ForCausalLM', 2, 16, 8, 1024, {
        max_position_embeddings: 40_960,
        rope_parameters: { rope_theta: 1_000_000, rope_type: 'default' },
        layer_types: ['full_attention', 'full_attention'],
        sliding_window: null,
        tie_word_embeddings: true,
      }),
      {
        headDim: 128,
        ropeTheta: 1_000_000,
        tiedHead: true,
        ropeScaling: undefined,
        slidingWindow: undefined,
      },
    ],
  ])('%s', (_, config, expected) => {
    const found = parseArchitecture(config, 'config.json');
    for (const [key, value] of Object.entries(expected))
      expect(found[key as keyof typeof found], key).toEqual(value);
  });
});
