/** Random Qwen3.5 checkpoints of transformers: a trace, and branches at many exits, are to 1e-4 what transformers says in float64 of each text alone. */
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { buildPolicyFolder } from '../../../dist/model/onnx/build.js';
import type { Branch, TraceScores } from '../../../dist/model/onnx/placed.js';
import { ModelSession } from '../../../dist/model/onnx/session.js';
import { seeded } from '../../oracle/toy.js';
import type { Json } from '../../support/checkpoints.js';
import { differences } from '../../support/family-checks.js';
import { tokenIds } from '../../support/oracle-comparison.js';
import {
  EMBEDDED,
  FIXTURES,
  type FixtureRow,
  readScored,
  rredcot,
  type ScoredRow,
  temporaryFolder,
} from '../../support/program.js';
import { pythonThatStays, pythonWith } from '../../support/python.js';
import { IS_TORTURE } from '../../support/torture.js';
import { exportPython } from '../../support/trainer-venv.js';

const python = pythonWith('torch, transformers.models.qwen3_5_moe.modeling_qwen3_5_moe') ?? exportPython();
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
  [
    'experts, of which one is for all tokens, in a model that also sees, tied',
    {
      ...{ sees: true, tie_word_embeddings: true, num_experts: 6, num_experts_per_tok: 2 },
      ...{ moe_intermediate_size: 24, shared_expert_intermediate_size: 40, num_hidden_layers: 3 },
      layer_types: [delta, full, delta],
    },
  ],
  [
    'experts of which one is taken, in bfloat16',
    {
      ...{ stored: 'bfloat16', num_experts: 4, num_experts_per_tok: 1, num_hidden_layers: 2 },
      ...{ moe_intermediate_size: 32, shared_expert_intermediate_size: 16, layer_types: [delta, full] },
    },
  ],
];

const transformers = python === undefined ? undefined : pythonThatStays(python, ['qwen35.py']);
afterAll(() => transformers?.close());

async function make(folder: string, more: Json): Promise<string> {
  await transformers?.ask({ make: { folder, config: { ...BASE, ...more } } });
  for (const name of ['tokenizer.json', 'tokenizer_config.json'])
    copyFileSync(join(EMBEDDED, name), join(folder, name));
  return folder;
}

/** Numbers of a trace and its branches, as we have found them. */
interface Found {
  readonly ids: readonly number[];
  readonly logprobs: ArrayLike<number>;
  readonly entropies: ArrayLike<number>;
  readonly branches: readonly FoundBranch[];
}
interface FoundBranch extends Omit<Branch, 'ids'> {
  readonly ids: readonly number[];
  readonly logprobs: ArrayLike<number>;
  /** `logprobs` is the sum of them all */
  readonly isSum?: true;
}
type Said = Record<'logprobs' | 'entropies', number[]> & { branches: number[][]; nearest: number };

/** The largest difference of any of them from what transformers says, and how near two experts were to each other's place. */
async function compared(folder: string, found: readonly Found[]) {
  const traces = found.map(({ ids, branches }) => ({
    ids,
    branches: branches.map(({ logprobs: _, isSum: __, ...branch }) => branch),
  }));
  const said = (await transformers?.ask<Said[]>({ ask: { folder, traces } })) ?? [];
  const off = found.flatMap(({ logprobs, entropies, branches }, i) => {
    const theirs = said[i] as Said;
    // a completion's numbers are the last ones
    const last = (all: readonly number[]) => all.slice(-logprobs.length);
    return [
      differences(logprobs, last(theirs.logprobs)).most,
      differences(entropies, last(theirs.entropies)).most,
      ...branches.map((own, b) => {
        const each = theirs.branches[b] as number[];
        return differences(own.logprobs, own.isSum ? [each.reduce((a, b) => a + b)] : each).most;
      }),
    ];
  });
  return { off: Math.max(...off), nearest: Math.min(...said.map(({ nearest }) => nearest)) };
}

/** Nearer than this rounding decides which expert a token goes to, and a trace is drawn again. */
const TIE = 2e-6;

describe.skipIf(python === undefined)('Qwen3.5 beside transformers (skipped where no Python has it)', () => {
  test.each(SHAPES)('%s', async (_, more) => {
    const at = await temporaryFolder();
    const checkpoint = await make(join(at, 'checkpoint'), more);
    const template = { close: '\u0001', open: '', closer: '\u0002' };
    const folder = await buildPolicyFolder(checkpoint, join(at, 'policy'), template);
    await using session = await ModelSession.open(folder);
    for (let seed = 5; ; seed++) {
      const { off, nearest } = await compared(
        checkpoint,
        await answered(session, seed, IS_TORTURE || more === SHAPES[0]?.[1] ? 3000 : 500),
      );
      if (nearest < TIE && seed < 9) continue;
      expect(nearest).toBeGreaterThan(TIE);
      expect(off).toBeLessThan(1e-4);
      break;
    }
  });

  /** What a session says of random traces, and of branches at their exits. */
  async function answered(session: ModelSession, seed: number, longest: number): Promise<Found[]> {
    const random = seeded(seed);
    const randomIds = (length: number) => Int32Array.from({ length }, () => Math.floor(random() * VOCAB));
    const found: Found[] = [];
    for (const T of [3, 200, longest]) {
      const ids = randomIds(T);
      const asked: FoundBranch[] = [];
      let trace: TraceScores | undefined;
      for (const K of [1, 7, 40]) {
        const branches = Array.from({ length: K }, (_, k): Branch => {
          const exit = K === 1 ? Math.ceil(T / 2) : Math.round((k * T) / (K - 1));
          const gap = k === 3 ? { gap: { before: 1, tokens: 11 } } : {};
          return { exit, ids: randomIds(3 + ((k * 5) % 13)), scoredFrom: 1 + (k % 2), ...gap };
        });
        const [one] = (await session.run([{ ids, promptLength: 1, branches }], 0)) as [TraceScores];
        const [two] = (await session.branches(0, [branches])) as [TraceScores];
        await session.release(0);
        trace = one;
        for (const [b, branch] of branches.entries()) {
          const logprobs = one.branches[b] as Float32Array;
          asked.push({ ...branch, ids: [...branch.ids], logprobs });
          expect(differences(two.branches[b] as Float32Array, logprobs).most).toBeLessThan(2e-5);
        }
      }
      const { logprobs, entropies } = trace as TraceScores;
      found.push({ ids: [...ids], logprobs, entropies, branches: asked });
    }
    return found;
  }

  test('policy build and score by the program, cut at lines and by entropies', async () => {
    const at = await temporaryFolder();
    const checkpoint = await make(join(at, 'checkpoint'), { vocab_size: 263, sees: true });
    const lines = readFileSync(FIXTURES, 'utf8').split('\n').slice(0, 4);
    writeFileSync(join(at, 'in.jsonl'), `${lines.join('\n')}\n`);
    const ran = async (...args: string[]) => {
      const { code, stderr } = await rredcot(args, { cwd: at });
      expect(code, stderr).toBe(0);
    };
    const template = join(EMBEDDED, 'exit_template.json');
    const exit = JSON.parse(readFileSync(template, 'utf8'));
    await ran('policy', 'build', 'checkpoint', '-o', 'policy', '--exit-template', template);
    // a picture would be scored as if it were a word
    const [line = ''] = lines;
    const { prompt_ids, ...row } = JSON.parse(line);
    writeFileSync(
      join(at, 'seen.jsonl'),
      JSON.stringify({ ...row, prompt: undefined, prompt_ids: [...prompt_ids, 260] }),
    );
    const seen = await rredcot(['score', 'seen.jsonl', '-o', 'seen.parquet', '--policy', 'policy'], {
      cwd: at,
    });
    expect(seen.stderr).toMatch(/token 260 stands for a picture/);
    for (const segmenter of ['newline', 'hybrid']) {
      await ran(
        'score',
        'in.jsonl',
        '-o',
        `${segmenter}.parquet`,
        '--policy',
        'policy',
        '--segmenter',
        segmenter,
      );
      const found: Found[] = [];
      for (const row of (await readScored(join(at, `${segmenter}.parquet`))) as (ScoredRow & FixtureRow)[]) {
        const { prompt_ids: prompt, completion_ids: own, logprobs, entropies } = row;
        const ends = row.segments.filter(({ kind }) => kind === 'thought').map(({ end }) => end as number);
        const before = [...tokenIds(exit.close), ...tokenIds(exit.open)];
        // behind the opening tag and its newline, and behind each thought
        const branches = [2, ...ends].map(
          (end, k): FoundBranch => ({
            ...{ exit: prompt.length + end, scoredFrom: before.length, isSum: true },
            ids: [...before, ...tokenIds(row.answer), ...tokenIds(exit.closer)],
            logprobs: row.reference_logprobs[k] as number[],
          }),
        );
        found.push({ ids: [...prompt, ...own], logprobs, entropies, branches });
      }
      expect(found.flatMap(({ branches }) => branches).length).toBeGreaterThan(16);
      expect((await compared(checkpoint, found)).off).toBeLessThan(1e-4);
    }
  });
});
