// How a window's traces are put to the policy: batches, one run or two, and prompts that are read once; by ids and rows alone.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  BATCH_ROWS,
  chooseStrategy,
  type Load,
  planBatches,
  planWindow,
  type TraceJob,
} from '../../../dist/model/onnx/plan.js';
import { jobOf, SHAPE } from '../../support/fake-policy.js';

/** Batches of a window, by positions in it. */
const planned = (jobs: readonly TraceJob[], reader?: Parameters<typeof planWindow>[1]) =>
  planWindow(jobs, reader).map(({ strategy, jobs: batch }) => ({
    strategy,
    members: batch.map(({ ids }) => jobs.findIndex((job) => job.ids === ids)),
    shares: batch.map(({ shares }) => shares),
  }));

const GPU = { device: { name: 'cuda', deviceId: 0 } } as const;

describe('planBatches', () => {
  const anyLoads = fc.array(
    fc
      .record({
        tokens: fc.integer({ min: 1, max: 900 }),
        branches: fc.nat(20),
        longestBranch: fc.integer({ min: 1, max: 300 }),
      })
      .map(({ branches, ...load }): Load => ({ ...load, behind: [branches * load.longestBranch] })),
    { maxLength: 60 },
  );
  const rowsOf = (own: readonly Load[]) => {
    const longest = Math.max(...own.map(({ tokens }) => tokens));
    const busiest = Math.max(...own.flatMap(({ behind }) => behind));
    // groups are as wide as the widest branch, and 64 rows or what there is otherwise
    const R = Math.max(...own.map((load) => load.longestBranch), Math.min(64, busiest));
    return own.reduce((sum, { behind }) => sum + longest + R * Math.ceil(Number(behind) / R), 0);
  };
  /** one is not much longer or wider than the other: by 64 rows, or by half */
  const alike = (a: Load, b: Load) =>
    (['tokens', 'longestBranch'] as const).every((key) => {
      const [more, less] = [Math.max(a[key], b[key]), Math.min(a[key], b[key])];
      return more - less <= 64 || more - less <= more / 2;
    });

  test('rows stay within the budget, padding included, but for an item alone; the next item had no room or was unlike', () => {
    fc.assert(
      fc.property(anyLoads, fc.integer({ min: 1, max: 3000 }), (loads, budget) => {
        const batches = planBatches(loads, budget);
        expect(new Set(batches.flat())).toEqual(new Set(loads));
        for (const [n, batch] of batches.entries()) {
          if (batch.length > 1) expect(rowsOf(batch)).toBeLessThanOrEqual(budget);
          const first = batch[0] as Load;
          for (const load of batch) expect(alike(first, load)).toBe(true);
          const next = batches[n + 1]?.[0];
          if (next !== undefined && alike(first, next))
            expect(rowsOf([...batch, next])).toBeGreaterThan(budget);
        }
      }),
    );
  });

  test('by default 4,096 rows; equal items keep their order', () => {
    const load = (tokens: number, rows: number, longestBranch: number, at = 0) => ({
      ...{ tokens, behind: [rows], longestBranch, at },
    });
    const batched = (loads: Parameters<typeof load>[], budget?: number) =>
      planBatches(
        loads.map((each, at) => load(each[0], each[1], each[2], at)),
        budget,
      ).map((batch) => batch.map(({ at }) => at));
    expect(BATCH_ROWS.cpu).toBe(4096);
    expect(batched(Array(9).fill([896, 124, 62]))).toEqual([[0, 1, 2, 3], [4, 5, 6, 7], [8]]);
    expect(batched([])).toEqual([]);
    expect([19, 20].map((budget) => batched(Array(2).fill([7, 3, 3]), budget).length)).toEqual([2, 1]);
    expect(
      batched([
        [10, 5, 5],
        [5000, 0, 0],
        [10, 5, 5],
      ]),
    ).toEqual([[1], [0, 2]]);
  });
});

describe('chooseStrategy', () => {
  test('one run where no piece is merged, however many there are', () => {
    const many = jobOf({ ...SHAPE, tokens: 5000, piece: 1, maxSegments: 5000 });
    expect(many.pieces.ends).toHaveLength(5000);
    expect(chooseStrategy([many])).toBe('one-run');
  });

  test.each([
    // 100 tokens: a second run is worth 64 + 3 rows; one piece of 9 is merged
    ['67 rows thrown away', { length: 67, scoredFrom: 1 }, 'one-run'],
    ['68 rows thrown away', { length: 68, scoredFrom: 1 }, 'two-run'],
    ['67 rows and the token before the first, which is scored', { length: 67, scoredFrom: 0 }, 'two-run'],
  ] as const)('%s', (_, continuation, expected) => {
    const job = jobOf({ ...SHAPE, maxSegments: 8, continuations: [continuation] });
    expect([job.ids.length, job.pieces.ends.length, job.pieces.segments]).toEqual([100, 9, 8]);
    expect(chooseStrategy([job])).toBe(expected);
  });

  test('two runs where pieces are many; every reference counts; a longer trace bears more', () => {
    const pieces = { ...SHAPE, piece: 1, maxSegments: 4 };
    expect(chooseStrategy([jobOf(pieces)])).toBe('two-run');
    const wasteful = (tokens: number, references: number) =>
      chooseStrategy([
        jobOf({
          ...SHAPE,
          tokens,
          piece: tokens / 5,
          maxSegments: 4,
          continuations: Array.from({ length: references }, () => ({ length: 30, scoredFrom: 1 })),
        }),
      ]);
    expect([wasteful(90, 2), wasteful(90, 3), wasteful(990, 3)]).toEqual(['one-run', 'two-run', 'one-run']);
  });
});

test('chooseStrategy reads very long traces in two runs', () => {
  // the prompt's tokens count
  const long = (tokens: number) => chooseStrategy([jobOf({ ...SHAPE, tokens, piece: tokens })]);
  const prompt = jobOf(SHAPE).promptLength;
  expect([long(12_288 - prompt), long(12_289 - prompt)]).toEqual(['one-run', 'two-run']);
});

test('chooseStrategy on a GPU: keys and values that go to the host and back cost more than most branches', () => {
  // 64 + 0.7 rows a token: 134 of 100 tokens; one piece of 9 is merged
  const job = (length: number) =>
    jobOf({ ...SHAPE, maxSegments: 8, continuations: [{ length, scoredFrom: 1 }] });
  expect([134, 135].map((rows) => chooseStrategy([job(rows)], GPU))).toEqual(['one-run', 'two-run']);
  expect([134, 135].map((rows) => chooseStrategy([job(rows)]))).toEqual(['two-run', 'two-run']);
  // nothing is wasted: no length makes two runs of it
  const long = jobOf({ ...SHAPE, tokens: 20_000, piece: 20_000 });
  expect([chooseStrategy([long], GPU), chooseStrategy([long])]).toEqual(['one-run', 'two-run']);
  expect(planned([long], GPU)).toEqual([{ strategy: 'one-run', members: [0], shares: [undefined] }]);
});

test.each([
  ['delta nets are walked again', { delta: {} }, 64 + 45],
  ['a graph that was exported reads the trace again', { exported: 'olmo2' }, 64 + 100],
])('chooseStrategy where %s', (_, architecture, most) => {
  const job = (length: number) =>
    jobOf({ ...SHAPE, maxSegments: 8, continuations: [{ length, scoredFrom: 1 }] });
  const chosen = (length: number) => chooseStrategy([job(length)], { folder: { architecture } });
  expect([chosen(most), chosen(most + 1)]).toEqual(['one-run', 'two-run']);
  const long = jobOf({ ...SHAPE, tokens: 20_000, piece: 20_000 });
  expect(chooseStrategy([long], { folder: { architecture } })).toBe('one-run');
});

test('planWindow counts exit 0 among the exits: 100 tokens and 10 exits of 5 rows, 27 traces a batch', () => {
  const jobs = Array.from({ length: 28 }, () => jobOf(SHAPE));
  expect(planned(jobs).map(({ members }) => members.length)).toEqual([27, 1]);
});

test('planWindow on a GPU puts as many together as 32,768 rows are: lanes are no wider than they must be', () => {
  // 100 tokens and 10 exits of 5 rows
  const jobs = Array.from({ length: 219 }, () => jobOf(SHAPE));
  expect(planned(jobs, GPU).map(({ members }) => members.length)).toEqual([218, 1]);
});

describe('planWindow, of traces with one prompt', () => {
  const shape = {
    prompt: 400,
    tokens: 60,
    piece: 10,
    maxSegments: 6,
    continuations: [{ length: 5, scoredFrom: 2 }],
  };
  /** traces that begin as the first of them does */
  const alike = (count: number, own: Partial<typeof shape> = {}): TraceJob[] => {
    const jobs = Array.from({ length: count }, (_, name) => jobOf({ ...shape, ...own, name }));
    return jobs.map((job) => {
      const prompt = jobs[0]?.ids.subarray(0, job.promptLength) as Int32Array;
      return { ...job, ids: Int32Array.of(...prompt, ...job.ids.subarray(job.promptLength)) };
    });
  };

  test('traces with one prompt are together and say so; others, and where all differ, do not', () => {
    const other = jobOf({ ...shape, name: 99 });
    const [own, ...rest] = alike(5) as [TraceJob, ...TraceJob[]];
    const batches = planned([own, other, ...rest]);
    expect(batches).toContainEqual({
      strategy: 'one-run',
      members: [0, 2, 3, 4, 5],
      shares: Array(5).fill(0),
    });
    expect(batches).toContainEqual({ strategy: 'one-run', members: [1], shares: [undefined] });
    const different = Array.from({ length: 6 }, (_, name) => jobOf({ ...shape, name }));
    const shares = planned(different).flatMap((batch) => batch.shares);
    expect(shares).toEqual(Array(6).fill(undefined));
  });

  test('they are together where that saves a quarter of what stands behind, in parts that a batch has room for', () => {
    // 60 tokens and 7 exits of 5 rows: 95 rows a trace, 380 of 4; 3 are not read again
    const sharedBehind = (prompt: number) => planned(alike(4, { prompt })).flatMap(({ shares }) => shares);
    expect(sharedBehind(32)).toEqual([0, 0, 0, 0]);
    expect(sharedBehind(31)).toEqual(Array(4).fill(undefined));
    // on a GPU where it saves more, the more keys there are: of 96 and 97 a share of .288 and .289, 110 rows
    const onGpu = (prompt: number) => planned(alike(4, { prompt }), GPU).flatMap(({ shares }) => shares);
    expect([36, 37].map(onGpu)).toEqual([Array(4).fill(undefined), [0, 0, 0, 0]]);
    const many = planned(alike(50)).map(({ members }) => members);
    expect(many.flat().sort((a, b) => a - b)).toEqual([...Array(50).keys()]);
    expect(many.map(({ length }) => length)).toEqual([43, 7]);
  });

  test('two prompts in one batch are two; traces of one are run in the same way', () => {
    const second = alike(3).map((job) => ({ ...job, ids: job.ids.map((id) => id + 1) }));
    const [batch, ...none] = planned([...alike(3), ...second]);
    expect(none).toEqual([]);
    expect(batch).toEqual({ strategy: 'one-run', members: [0, 1, 2, 3, 4, 5], shares: [0, 0, 0, 1, 1, 1] });
  });
});
