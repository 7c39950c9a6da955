/** A teacher's columns of random policies of several families, as the program writes them, are to 1e-4 what transformers says in float64. */
import { afterAll, describe, expect, it } from 'vitest';
import { type Json, type TensorType, writeCheckpoint } from '../support/checkpoints.js';
import { FAMILIES } from '../support/family-checks.js';
import type { ScoredRow } from '../support/program.js';
import { pythonThatStays, pythonWith } from '../support/python.js';
import { fixtureRows, openScene } from '../support/scene.js';
import { exportPython } from '../support/trainer-venv.js';

const python = pythonWith('torch, transformers.models.qwen3_5') ?? exportPython();
const transformers = python === undefined ? undefined : pythonThatStays(python, ['taught.py']);
afterAll(() => transformers?.close());
const { at, done, rows, write } = await openScene();

type Taught = Record<'teacher_logprobs' | 'teacher_entropies' | 'kl' | 'token_advantage', number[]>;
type Kind = readonly [family: string, vocab: number, dtype: TensorType, more?: Json];

describe.skipIf(python === undefined)('a teacher', () => {
  it.each<readonly [Kind, Kind]>([
    // logits that are scaled, in blocks of the vocabulary, of which the teacher has more
    [
      ['Granite', 4500, 'F32'],
      ['Qwen3', 5003, 'BF16'],
    ],
    [
      ['Qwen3Moe', 259, 'F32'],
      ['Qwen3.5', 259, 'F32'],
    ],
    [
      ['Qwen3.5', 4500, 'F16'],
      ['Qwen2', 4500, 'F32'],
    ],
    [
      ['SmolLM3', 259, 'F32', { pad_token_id: null }],
      ['Qwen2Moe', 300, 'F32'],
    ],
  ])('%j taught by %j', async (student, teacher) => {
    await write('template.json', JSON.stringify({ close: '</think>', open: '', closer: '\n' }));
    for (const [seed, [family, vocab_size, dtype, more]] of [student, teacher].entries()) {
      const name = `${seed === 0 ? 'student' : 'teacher'}-${family}`;
      const config = { ...FAMILIES[family], ...{ vocab_size, max_position_embeddings: 4096, ...more } };
      writeCheckpoint(at(name), config, { dtype, seed: 3 + seed, shards: 1 + seed });
      await done(`policy build ${name} -o ${name}-built --exit-template template.json`);
    }
    const [own, its] = [`student-${student[0]}`, `teacher-${teacher[0]}`];
    const traces = (await fixtureRows(0, 20)).map((row, n) => {
      // of some a tool has written a part
      const completion_mask = row.completion_ids.map((_, t) => (n % 4 === 3 && t > 4 && t < 9 ? 0 : 1));
      return { ...row, ...(n % 4 === 3 && { completion_mask }) };
    });
    await write('traces.jsonl', traces);
    await done(
      `score traces.jsonl --policy ${own}-built --teacher ${its}-built --estimator distill -o out.jsonl --overwrite`,
    );
    const scored = await rows<ScoredRow & Taught>('out.jsonl');
    const expected =
      (await transformers?.ask<Record<'own' | 'logprobs' | 'entropies' | 'kl', number[]>[]>({
        ...{ policy: at(own), teacher: at(its), traces },
      })) ?? [];
    expect(scored).toHaveLength(traces.length);
    let largest = 0;
    for (const [n, row] of scored.entries()) {
      const { own, logprobs, entropies, kl } = expected[n] as (typeof expected)[number];
      const { completion_mask: mask } = traces[n] as (typeof traces)[number];
      for (const [t, ofToken] of kl.entries()) {
        const isOwn = mask?.[t] !== 0;
        largest = Math.max(largest, ofToken);
        const all = [
          [row.kl, ofToken],
          [row.teacher_logprobs, logprobs[t]],
          [row.teacher_entropies, entropies[t]],
          [row.token_advantage, (logprobs[t] as number) - (own[t] as number) + ofToken],
        ] as [number[], number][];
        for (const [c, [column, value]] of all.entries())
          expect(Math.abs((column[t] as number) - (isOwn ? value : 0)), `${n}, ${t}, ${c}`).toBeLessThan(
            1e-4 * Math.max(1, Math.abs(value)),
          );
      }
    }
    // they are far apart
    expect(largest).toBeGreaterThan(1);
  });
});
