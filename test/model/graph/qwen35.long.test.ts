/** Random Qwen3.5 checkpoints of transformers: a trace, and branches at many exits, are to 1e-4 what transformers says in float64 of each text alone. */
import { spawnSync } from 'node:child_process';
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { buildPolicyFolder } from '../../../dist/model/onnx/build.js';
import type { Branch, TraceScores } from '../../../dist/model/onnx/placed.js';
import { ModelSession } from '../../../dist/model/onnx/session.js';
import { seeded } from '../../oracle/toy.js';
import type { Json } from '../../support/checkpoints.js';
import { differences } from '../../support/family-checks.js';
import { EMBEDDED, ROOT, temporaryFolder } from '../../support/program.js';
import { ONE_THREAD, pythonWith } from '../../support/python.js';

const python = pythonWith('torch, transformers.models.qwen3_5.modeling_qwen3_5');
const VOCAB = 131;

const BASE: Json = {
  ...{ vocab_size: VOCAB, hidden_size: 48, intermediate_size: 64, num_hidden_layers: 4 },
  ...{ num_attention_heads: 4, num_key_value_heads: 2, head_dim: 64, max_position_embeddings: 4096 },
  ...{ linear_num_key_heads: 2, linear_num_value_heads: 4, linear_key_head_dim: 16 },
  ...{ linear_value_head_dim: 24, linear_conv_kernel_dim: 4 },
};
const [delta, full] = ['linear_attention', 'full_attention'];
const rope = { rope_type: 'default', rope_theta: 1000 };

const SHAPES: [string, Json][] = [
  ['three to one, two value heads a key head', {}],
  [
    'as many value heads, of 64, convolution over 2, tied, a delta net last',
    {
      ...{ linear_num_key_heads: 3, linear_num_value_heads: 3, linear_key_head_dim: 64 },
      ...{ linear_value_head_dim: 64, linear_conv_kernel_dim: 2, tie_word_embeddings: true },
      ...{ num_hidden_layers: 3, layer_types: [full, delta, delta] },
    },
  ],
  [
    'a model that also sees, in bfloat16, heads of 24 of which a half is rotated, convolution over 6',
    {
      ...{ sees: true, stored: 'bfloat16', num_attention_heads: 3, num_key_value_heads: 1, head_dim: 24 },
      ...{ linear_conv_kernel_dim: 6, linear_num_key_heads: 1, linear_num_value_heads: 5 },
      rope_parameters: { ...rope, partial_rotary_factor: 0.5, mrope_section: [2, 2, 2] },
    },
  ],
  [
    'one that also sees, tied, every second layer, positions by YaRN',
    {
      ...{ sees: true, tie_word_embeddings: true, num_hidden_layers: 2, layer_types: [delta, full] },
      rope_parameters: {
        ...{ ...rope, rope_type: 'yarn', factor: 4, original_max_position_embeddings: 1024 },
        ...{ partial_rotary_factor: 0.25, mrope_section: [3, 3, 2], mrope_interleaved: true },
      },
    },
  ],
];

function run(args: readonly string[], input?: string): string {
  const script = join(ROOT, 'test/support/qwen35.py');
  const opts = { encoding: 'utf8', env: ONE_THREAD, maxBuffer: 2 ** 30, ...(input && { input }) } as const;
  const { status, stdout, stderr } = spawnSync(python as string, [script, ...args], opts);
  expect(status, stderr).toBe(0);
  return stdout;
}

describe.skipIf(python === undefined)('Qwen3.5 beside transformers (skipped where no Python has it)', () => {
  test.each(SHAPES)('%s', async (_, more) => {
    const at = await temporaryFolder();
    const checkpoint = join(at, 'checkpoint');
    run(['make', checkpoint, JSON.stringify({ ...BASE, ...more })]);
    for (const name of ['tokenizer.json', 'tokenizer_config.json'])
      copyFileSync(join(EMBEDDED, name), join(checkpoint, name));
    const template = { close: '\u0001', open: '', closer: '\u0002' };
    await using session = await ModelSession.open(
      await buildPolicyFolder(checkpoint, join(at, 'policy'), template),
    );
    const random = seeded(5);
    const randomIds = (length: number) => Int32Array.from({ length }, () => Math.floor(random() * VOCAB));
    const found: ArrayLike<number>[] = [];
    const questions: { ids: number[]; from: number; gap?: Branch['gap']; entropies?: true }[] = [];
    for (const T of [3, 200, 3000]) {
      const ids = randomIds(T);
      for (const K of [1, 7, 40]) {
        const branches = Array.from({ length: K }, (_, k): Branch => {
          const exit = K === 1 ? Math.ceil(T / 2) : Math.round((k * T) / (K - 1));
          const gap = k === 3 ? { gap: { before: 1, tokens: 11 } } : {};
          const scoredFrom = exit === 0 || k % 2 === 0 ? 1 : 2;
          return { exit, ids: randomIds(3 + ((k * 5) % 13)), scoredFrom, ...gap };
        });
        const [one] = (await session.run([{ ids, promptLength: 1, branches }], 0)) as [TraceScores];
        const [two] = (await session.branches(0, [branches])) as [TraceScores];
        await session.release(0);
        if (K === 40) {
          found.push(one.logprobs, one.entropies);
          for (const entropies of [{}, { entropies: true } as const])
            questions.push({ ids: [...ids], from: 1, ...entropies });
        }
        for (const [b, { exit, ids: own, scoredFrom, gap }] of branches.entries()) {
          const scores = one.branches[b] as Float32Array;
          found.push(scores);
          const away = gap && { gap: { ...gap, before: exit + gap.before } };
          questions.push({ ids: [...ids.subarray(0, exit), ...own], from: exit + scoredFrom, ...away });
          expect(differences(two.branches[b] as Float32Array, scores).most).toBeLessThan(1e-5);
        }
      }
    }
    const said = JSON.parse(run(['ask', checkpoint], JSON.stringify(questions)));
    let most = 0;
    for (const [i, { entropies }] of questions.entries()) {
      const expected = entropies ? said[i].entropies : said[i].logprobs;
      most = Math.max(most, differences(found[i] as ArrayLike<number>, expected).most);
    }
    expect(most).toBeLessThan(1e-4);
    console.log(_, most);
  });
});
