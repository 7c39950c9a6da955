/** Random Qwen3.5 checkpoints of transformers: a trace, and branches at many exits, are to 1e-4 what transformers says in float64 of each text alone. */
import { spawnSync } from 'node:child_process';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
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
  ROOT,
  readScored,
  rredcot,
  type ScoredRow,
  temporaryFolder,
} from '../../support/program.js';
import { ONE_THREAD, pythonWith } from '../../support/python.js';
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

function run(args: readonly string[], input?: string): string {
  const script = join(ROOT, 'test/support/qwen35.py');
  const opts = { encoding: 'utf8', env: ONE_THREAD, maxBuffer: 2 ** 30, ...(input && { input }) } as const;
  const { status, stdout, stderr } = spawnSync(python as string, [script, ...args], opts);
  expect(status, stderr).toBe(0);
  return stdout;
}

function make(checkpoint: string, more: Json): string {
  run(['make', checkpoint, JSON.stringify({ ...BASE, ...more })]);
  for (const name of ['tokenizer.json', 'tokenizer_config.json'])
    copyFileSync(join(EMBEDDED, name), join(checkpoint, name));
  return checkpoint;
}

/** Numbers of a text's tokens from one on, as we have found them. */
interface Found {
  readonly ids: readonly number[];
  readonly from: number;
  readonly gap?: Branch['gap'];
  readonly logprobs: ArrayLike<number>;
  readonly entropies?: ArrayLike<number>;
  /** `logprobs` is the sum of them all */
  readonly isSum?: true;
}

/** The largest difference of any of them from what transformers says, and how near two experts were to each other's place. */
function compared(checkpoint: string, found: readonly Found[]) {
  const questions = found.map(({ ids, from, gap }) => ({ ids, from, ...(gap && { gap }) }));
  const said = JSON.parse(run(['ask', checkpoint], JSON.stringify(questions))) as (Found & {
    nearest: number;
  })[];
  const off = found.flatMap(({ logprobs, entropies, isSum }, i) => {
    const theirs = said[i] as Required<Found>;
    const each = Array.from(theirs.logprobs);
    const all = [differences(logprobs, isSum ? [each.reduce((a, b) => a + b)] : each).most];
    return entropies ? [...all, differences(entropies, theirs.entropies).most] : all;
  });
  return { off: Math.max(...off), nearest: Math.min(...said.map(({ nearest }) => nearest)) };
}

/** Nearer than this rounding decides which expert a token goes to, and a trace is drawn again. */
const TIE = 2e-6;

describe.skipIf(python === undefined)('Qwen3.5 beside transformers (skipped where no Python has it)', () => {
  test.each(SHAPES)('%s', async (_, more) => {
    const at = await temporaryFolder();
    const checkpoint = make(join(at, 'checkpoint'), more);
    const template = { close: '\u0001', open: '', closer: '\u0002' };
    const folder = await buildPolicyFolder(checkpoint, join(at, 'policy'), template);
    await using session = await ModelSession.open(folder);
    for (let seed = 5; ; seed++) {
      const { off, nearest } = compared(checkpoint, await answered(session, seed));
      if (nearest < TIE && seed < 9) continue;
      expect(nearest).toBeGreaterThan(TIE);
      expect(off).toBeLessThan(1e-4);
      break;
    }
  });

  /** What a session says of random traces, and of branches at their exits. */
  async function answered(session: ModelSession, seed: number): Promise<Found[]> {
    const random = seeded(seed);
    const randomIds = (length: number) => Int32Array.from({ length }, () => Math.floor(random() * VOCAB));
    const found: Found[] = [];
    for (const T of [3, 200, 3000]) {
      const ids = randomIds(T);
      for (const K of [1, 7, 40]) {
        const branches = Array.from({ length: K }, (_, k): Branch => {
          const exit = K === 1 ? Math.ceil(T / 2) : Math.round((k * T) / (K - 1));
          const gap = k === 3 ? { gap: { before: 1, tokens: 11 } } : {};
          return { exit, ids: randomIds(3 + ((k * 5) % 13)), scoredFrom: 1 + (k % 2), ...gap };
        });
        const [one] = (await session.run([{ ids, promptLength: 1, branches }], 0)) as [TraceScores];
        const [two] = (await session.branches(0, [branches])) as [TraceScores];
        await session.release(0);
        if (K === 40) found.push({ ids: [...ids], from: 1, ...one });
        for (const [b, { exit, ids: own, scoredFrom, gap }] of branches.entries()) {
          const logprobs = one.branches[b] as Float32Array;
          const free = gap && { gap: { ...gap, before: exit + gap.before } };
          found.push({
            ...{ ids: [...ids.subarray(0, exit), ...own], from: exit + scoredFrom },
            ...{ ...free, logprobs },
          });
          expect(differences(two.branches[b] as Float32Array, logprobs).most).toBeLessThan(2e-5);
        }
      }
    }
    return found;
  }

  test('policy build and score by the program, cut at lines and by entropies', async () => {
    const at = await temporaryFolder();
    const checkpoint = make(join(at, 'checkpoint'), { vocab_size: 263, sees: true });
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
        found.push({ ids: [...prompt, ...own], from: prompt.length, logprobs, entropies });
        const ends = row.segments.filter(({ kind }) => kind === 'thought').map(({ end }) => end as number);
        // behind the opening tag and its newline, and behind each thought
        for (const [k, end] of [2, ...ends].entries()) {
          const before = [...prompt, ...own.slice(0, end), ...tokenIds(exit.close), ...tokenIds(exit.open)];
          const ids = [...before, ...tokenIds(row.answer), ...tokenIds(exit.closer)];
          const sum = row.reference_logprobs[k] as number[];
          found.push({ ids, from: before.length, logprobs: sum, isSum: true });
        }
      }
      expect(found.length).toBeGreaterThan(20);
      expect(compared(checkpoint, found).off).toBeLessThan(1e-4);
    }
  });
});
