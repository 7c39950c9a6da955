/** Which traces of a window read their prompt once: pure, by the ids and the rows behind them alone. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  BATCH_ROWS,
  planWindow,
  shareOut,
  type TraceJob,
  withSamePrompt,
} from '../../dist/estimate/strategy.js';
import { jobOf } from '../support/fake-policy.js';

/** Traces with one of a few prompts, of which some begin others, in arrays that begin anywhere in memory. */
const anyTraces = fc.array(
  fc
    .record({
      prompt: fc.constantFrom([1], [1, 2], [1, 2, 3], [256, 0], [0, 256]),
      tokens: fc.nat(3),
      shift: fc.nat(2),
    })
    .map(({ prompt, tokens, shift }) => ({
      ids: Int32Array.of(...Array(shift).fill(9), ...prompt, ...Array(1 + tokens).fill(3)).subarray(shift),
      promptLength: prompt.length,
    })),
  { maxLength: 20 },
);

test('withSamePrompt: every trace once, together exactly where all prompt ids are the same, in input order', () => {
  fc.assert(
    fc.property(anyTraces, (traces) => {
      const groups = withSamePrompt(traces);
      const promptOf = (i: number | undefined) => {
        const { ids, promptLength } = traces[i as number] as (typeof traces)[number];
        return ids.subarray(0, promptLength).join();
      };
      expect(groups.flat().sort((a, b) => a - b)).toEqual([...traces.keys()]);
      for (const group of groups) {
        expect(new Set(group.map(promptOf)).size).toBe(1);
        expect(group).toEqual([...group].sort((a, b) => a - b));
      }
      expect(new Set(groups.map(([first]) => promptOf(first))).size).toBe(groups.length);
    }),
  );
});

describe('shareOut', () => {
  test('every trace once, in order; parts of several within the budget, and only where they save a quarter', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 3000 }),
        fc.array(fc.integer({ min: 1, max: 900 }), { minLength: 1, maxLength: 20 }),
        fc.integer({ min: 1, max: 3000 }),
        (prompt, rows, budget) => {
          const parts = shareOut(prompt, [...rows.keys()], (i) => rows[i] as number, budget);
          expect(parts.flat()).toEqual([...rows.keys()]);
          for (const part of parts.filter(({ length }) => length > 1)) {
            const behind = part.reduce((sum, i) => sum + (rows[i] as number), 0);
            expect(behind).toBeLessThanOrEqual(budget);
            expect((part.length - 1) * prompt).toBeGreaterThanOrEqual(behind / 4);
          }
        },
      ),
    );
  });

  test('eight rollouts of 244 rows behind 2,000 tokens are one part, behind 10 none; 4,096 rows a part', () => {
    const eight = [0, 1, 2, 3, 4, 5, 6, 7];
    expect(shareOut(2000, eight, () => 244)).toEqual([eight]);
    expect(shareOut(10, eight, () => 244)).toEqual(eight.map((i) => [i]));
    expect(shareOut(2000, eight, () => BATCH_ROWS / 4)).toEqual([eight.slice(0, 4), eight.slice(4)]);
  });
});

describe('planWindow', () => {
  const shape = {
    prompt: 400,
    tokens: 60,
    piece: 10,
    maxSegments: 6,
    continuations: [{ length: 5, scoredFrom: 2 }],
  };
  /** traces that begin as the first of them does */
  const alike = (count: number): TraceJob[] => {
    const jobs = Array.from({ length: count }, (_, name) => jobOf({ ...shape, name }));
    const prompt = jobs[0]?.ids.subarray(0, 400) as Int32Array;
    return jobs.map((job) => ({ ...job, ids: Int32Array.of(...prompt, ...job.ids.subarray(400)) }));
  };

  test('traces with one prompt are together and say so; others, and where all differ, do not', () => {
    const other = jobOf({ ...shape, name: 99 });
    const [own, ...rest] = alike(5) as [TraceJob, ...TraceJob[]];
    const batches = planWindow([own, other, ...rest], 'auto');
    expect(batches).toContainEqual({
      strategy: 'one-run',
      members: [0, 2, 3, 4, 5],
      shares: Array(5).fill(0),
    });
    expect(batches).toContainEqual({ strategy: 'one-run', members: [1], shares: [undefined] });
    const different = Array.from({ length: 6 }, (_, name) => jobOf({ ...shape, name }));
    const shares = planWindow(different, 'auto').flatMap((batch) => batch.shares);
    expect(shares).toEqual(Array(6).fill(undefined));
  });

  test('two prompts in one batch are two; traces of one are run in the same way', () => {
    const second = alike(3).map((job) => ({ ...job, ids: job.ids.map((id) => id + 1) }));
    const [batch, ...none] = planWindow([...alike(3), ...second], 'two-run');
    expect(none).toEqual([]);
    expect(batch).toEqual({ strategy: 'two-run', members: [0, 1, 2, 3, 4, 5], shares: [0, 0, 0, 1, 1, 1] });
  });
});
