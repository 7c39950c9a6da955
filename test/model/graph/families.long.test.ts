/** Random checkpoints of every family, weight type and rope type, built and run, against the float64 pass. */
import { describe, expect, test } from 'vitest';
import { parseArchitecture } from '../../../dist/model/graph/architecture.js';
import type { TraceScores } from '../../../dist/model/onnx/placed.js';
import { tokenStats } from '../../oracle/llama.js';
import { seeded } from '../../oracle/toy.js';
import { type Json, LLAMA, randomTensors } from '../../support/checkpoints.js';
import {
  describeFamilies,
  differences,
  expectSame,
  FAMILIES,
  openFamily,
  ROPES,
} from '../../support/family-checks.js';

describeFamilies();

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
    await expectSame(config, {}, ...(change === undefined ? [] : [change]));
  });

  test.each<[string, string, Json, Json]>([
    [
      'SmolLM3: positions in all layers but one',
      'SmolLM3',
      { no_rope_layers: [0, 1] },
      { no_rope_layers: [1, 1] },
    ],
    [
      'SmolLM3: heads that the kernel does not rotate',
      'SmolLM3',
      { hidden_size: 40, no_rope_layers: [1, 0] },
      { no_rope_layers: [1, 1] },
    ],
    [
      'SmolLM3: windows where there are no positions',
      'SmolLM3',
      { use_sliding_window: true, sliding_window: 6 },
      { sliding_window: 7 },
    ],
    ['Phi3: a window', 'Phi3', { sliding_window: 9 }, { sliding_window: 10 }],
    ['Granite: embeddings', 'Granite', {}, { embedding_multiplier: 1 }],
    ['Granite: scores', 'Granite', {}, { attention_multiplier: 0.25 }],
    ['Granite: what layers add', 'Granite', {}, { residual_multiplier: 1 }],
    ['Granite: logits', 'Granite', {}, { logits_scaling: 1 }],
    ['Qwen3.5: the share of a head that is rotated', 'Qwen3.5', {}, { partial_rotary_factor: 1 }],
    ...['convolution', 'unit', 'decay', 'rate', 'net gate', 'output gate', 'one'].map(
      (without): [string, string, Json, Json] => [`Qwen3.5: ${without}`, 'Qwen3.5', {}, { without }],
    ),
    [
      'Qwen3.5: heads that the kernel rotates, all of it',
      'Qwen3.5',
      { head_dim: 32, partial_rotary_factor: 1, linear_conv_kernel_dim: 5 },
      { partial_rotary_factor: 0.5 },
    ],
    ['Qwen3.5: heads that it rotates, a part', 'Qwen3.5', { head_dim: 32 }, { partial_rotary_factor: 0.25 }],
  ])('%s', async (_, family, more, less) => {
    await expectSame({ ...(FAMILIES[family] as Json), ...more }, {}, less);
  });

  const layer_types = ['sliding_attention', 'full_attention'];
  test.each<[string, string, Json]>([
    ['Mistral: every layer', 'Mistral', { sliding_window: 9 }],
    ['Mistral: one key only', 'Mistral', { sliding_window: 1 }],
    ['Qwen2: from a layer on', 'Qwen2', { use_sliding_window: true, max_window_layers: 1 }],
    ['Qwen3: the layers of a list', 'Qwen3', { use_sliding_window: true, sliding_window: 5, layer_types }],
  ])('a sliding window that binds, %s', async (_, family, more) => {
    const config = { ...(FAMILIES[family] as Json), ...more };
    const unbound = family === 'Mistral' ? { sliding_window: null } : { use_sliding_window: false };
    // off by one key is not the same
    const longer = { sliding_window: (config.sliding_window as number) + 1 };
    await expectSame(config, { dtype: 'BF16', shards: 2 }, unbound, longer);
  });

  const architectures = ['MistralForCausalLM'];
  test.each<[string, Json]>([
    ['heads of 16', LLAMA],
    ['heads that are padded', FAMILIES.Mistral as Json],
    ['a window shorter than a block', { ...LLAMA, architectures, sliding_window: 30 }],
    ['a window longer than one', { ...LLAMA, architectures, sliding_window: 170 }],
  ])('a trace that attention takes in three blocks, alone and beside another, %s', async (_, config) => {
    await using opened = await openFamily({ ...config, max_position_embeddings: 400 });
    const { session, model } = opened;
    const random = seeded(3);
    const traces = [300, 290].map((length) => ({
      ids: Int32Array.from({ length }, () => Math.floor(random() * 131)),
      promptLength: 1,
      branches: [],
    }));
    const both = await session.run(traces);
    for (const [n, trace] of traces.entries()) {
      const expected = tokenStats(model, [...trace.ids]).logprobs.slice(1);
      for (const { logprobs } of [...(await session.run([trace])), both[n] as TraceScores])
        expect(differences(logprobs, expected).most).toBeLessThan(1e-4);
    }
  });

  test('heads of 32 and of 64, one layer, tied, as small models have them', async () => {
    for (const head_dim of [32, 64])
      await expectSame({ ...LLAMA, head_dim, num_hidden_layers: 1, tie_word_embeddings: true }, {});
  });

  test('norm weights in float32 beside matrices in bfloat16', async () => {
    const [wide, narrow] = [randomTensors(LLAMA, 'F32'), randomTensors(LLAMA, 'BF16')];
    const tensors = new Map([...narrow].map(([n, t]) => [n, n.includes('norm') ? (wide.get(n) ?? t) : t]));
    await expectSame(LLAMA, { tensors });
  });
});

const common = { hidden_act: 'silu', bos_token_id: 1, torch_dtype: 'bfloat16', use_cache: true };
const of = (family: string, layers: number, heads: number, kv: number, hidden: number, more: Json): Json => ({
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
])('configurations as published: %s', (_, config, expected) => {
  const found = parseArchitecture(config, 'config.json');
  for (const [key, value] of Object.entries(expected))
    expect(found[key as keyof typeof found], key).toEqual(value);
});
