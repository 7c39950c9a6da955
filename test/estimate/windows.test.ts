/** Batches, windows, strategies and scarce memory over a fake policy: nothing lost, nothing mixed, order kept. */
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { RredcotError, TraceRejected } from '../../dist/errors.js';
import { runBatch } from '../../dist/estimate/run-batch.js';
import {
  BATCH_ROWS,
  chooseStrategy,
  type Load,
  planBatches,
  planWindow,
  STRATEGIES,
  type TraceJob,
} from '../../dist/estimate/strategy.js';
import { inOrder, type PassJob, scoreWindows as scoreCut, windowsOf } from '../../dist/estimate/windows.js';
import { windowOf } from '../../dist/io/files/chunks.js';
import type { Branch, PackedTrace } from '../../dist/model/onnx/placed.js';
import type { PolicyRuns, TraceScores } from '../../dist/model/onnx/session.js';
import { type BadRow, isBad } from '../../dist/rows.js';
import { seeded } from '../oracle/toy.js';
import { expectedResult, FakePolicy, type JobShape, jobOf } from '../support/fake-policy.js';
import { collect, traceAt } from '../support/streams.js';

/** The event loop goes round once: what microtasks can do is done. */
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Holds all calls until `count` of them are at work, and one turn longer: a call too many would have begun by then. */
function together(count: number): () => Promise<void> {
  let atWork = 0;
  let open = (): void => {};
  const all = new Promise<void>((resolve) => {
    open = resolve;
  });
  return async () => {
    if (++atWork === count) open();
    await all;
    await turn();
  };
}

const unhandled: unknown[] = [];
const note = (reason: unknown) => unhandled.push(reason);
beforeEach(() => {
  unhandled.length = 0;
  process.on('unhandledRejection', note);
});
afterEach(async () => {
  await turn(); // Node reports them after the microtasks
  process.off('unhandledRejection', note);
  expect(unhandled).toEqual([]);
});

/** A job's shape but for its name, by which fake runs call it. */
const anyShape = fc.record({
  prompt: fc.integer({ min: 1, max: 6 }),
  tokens: fc.integer({ min: 1, max: 70 }),
  hidden: fc.integer({ min: 0, max: 3 }),
  piece: fc.integer({ min: 1, max: 9 }),
  maxSegments: fc.integer({ min: 1, max: 9 }),
  continuations: fc.array(
    fc
      .record({ length: fc.integer({ min: 1, max: 9 }), from: fc.nat(), also: fc.option(fc.nat(249)) })
      .map(({ length, from, also }) => ({
        ...{ length, scoredFrom: from % length },
        ...(also !== null && { also }),
      })),
    { maxLength: 3 },
  ),
});
const anyShapes = (maxLength: number) =>
  fc
    .array(anyShape, { minLength: 1, maxLength })
    .map((shapes) =>
      shapes.map(
        (shape, name): JobShape => ({ ...shape, name, hidden: Math.min(shape.hidden, shape.tokens) }),
      ),
    );

const SHAPE: JobShape = {
  name: 0,
  prompt: 10,
  tokens: 90,
  piece: 10,
  maxSegments: 9,
  continuations: [{ length: 5, scoredFrom: 2 }],
};

// ------ batches

describe('planBatches', () => {
  const anyLoads = fc.array(
    fc
      .record({
        tokens: fc.integer({ min: 1, max: 900 }),
        branches: fc.nat(20),
        longestBranch: fc.integer({ min: 1, max: 300 }),
      })
      .map(({ branches, ...load }): Load => ({ ...load, branchRows: branches * load.longestBranch })),
    { maxLength: 60 },
  );
  const rowsOf = (loads: readonly Load[], batch: readonly number[]) => {
    const own = batch.map((i) => loads[i] as Load);
    const longest = Math.max(...own.map(({ tokens }) => tokens));
    const busiest = Math.max(...own.map(({ branchRows }) => branchRows));
    // groups are as wide as the widest branch, and 64 rows or what there is otherwise
    const R = Math.max(...own.map((load) => load.longestBranch), Math.min(64, busiest));
    return own.reduce((sum, { branchRows }) => sum + longest + R * Math.ceil(branchRows / R), 0);
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
        for (const [n, batch] of batches.entries()) {
          if (batch.length > 1) expect(rowsOf(loads, batch)).toBeLessThanOrEqual(budget);
          const first = loads[batch[0] as number] as Load;
          for (const i of batch) expect(alike(first, loads[i] as Load)).toBe(true);
          const next = batches[n + 1]?.[0];
          if (next !== undefined && alike(first, loads[next] as Load))
            expect(rowsOf(loads, [...batch, next])).toBeGreaterThan(budget);
        }
      }),
    );
  });

  test('items of like length go together: padding is at most the budget × ln(longest / shortest)', () => {
    fc.assert(
      fc.property(anyLoads, fc.integer({ min: 1, max: 3000 }), (loads, budget) => {
        const lengths = planBatches(loads, budget).map((batch) =>
          batch.map((i) => loads[i]?.tokens as number),
        );
        let padding = 0;
        let shortest = Number.POSITIVE_INFINITY;
        for (const batch of lengths) {
          expect(Math.max(...batch)).toBeLessThanOrEqual(shortest);
          shortest = Math.min(...batch);
          padding += batch.reduce((sum, tokens) => sum + Math.max(...batch) - tokens, 0);
        }
        const all = lengths.flat();
        if (all.length > 0)
          expect(padding).toBeLessThanOrEqual(budget * Math.log(Math.max(...all) / Math.min(...all)) + 1e-6);
      }),
    );
  });

  test('by default 4,096 rows; equal items keep their order', () => {
    expect(BATCH_ROWS).toBe(4096);
    const equal = Array.from({ length: 9 }, () => ({ tokens: 896, branchRows: 124, longestBranch: 62 }));
    expect(planBatches(equal)).toEqual([[0, 1, 2, 3], [4, 5, 6, 7], [8]]);
    expect(planBatches([])).toEqual([]);
    const pair = [1, 2].map(() => ({ tokens: 7, branchRows: 3, longestBranch: 3 }));
    expect([19, 20].map((budget) => planBatches(pair, budget).length)).toEqual([2, 1]);
    const [short, long] = [
      { tokens: 10, branchRows: 5, longestBranch: 5 },
      { tokens: 5000, branchRows: 0, longestBranch: 0 },
    ];
    expect(planBatches([short, long, short])).toEqual([[1], [0, 2]]);
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
  const gpu = { name: 'cuda', deviceId: 0 } as const;
  // 64 + 0.7 rows a token: 134 of 100 tokens; one piece of 9 is merged
  const job = (length: number) =>
    jobOf({ ...SHAPE, maxSegments: 8, continuations: [{ length, scoredFrom: 1 }] });
  expect([134, 135].map((rows) => chooseStrategy([job(rows)], gpu))).toEqual(['one-run', 'two-run']);
  expect([134, 135].map((rows) => chooseStrategy([job(rows)]))).toEqual(['two-run', 'two-run']);
  // nothing is wasted: no length makes two runs of it
  const long = jobOf({ ...SHAPE, tokens: 20_000, piece: 20_000 });
  expect([chooseStrategy([long], gpu), chooseStrategy([long])]).toEqual(['one-run', 'two-run']);
  expect(planWindow([long], 'auto', gpu)).toEqual([
    { strategy: 'one-run', members: [0], shares: [undefined] },
  ]);
});

describe('planWindow', () => {
  test('every trace once, run as its strategy says; batches within the budget', () => {
    fc.assert(
      fc.property(anyShapes(40), fc.constantFrom(...STRATEGIES), (shapes, strategy) => {
        const jobs = shapes.map(jobOf);
        const batches = planWindow(jobs, strategy);
        expect(batches.flatMap(({ members }) => members).sort((a, b) => a - b)).toEqual([...jobs.keys()]);
        for (const { strategy: kind, members } of batches) {
          let branchRows = 0;
          for (const i of members) {
            const job = jobs[i] as TraceJob;
            expect(kind).toBe(strategy === 'auto' ? chooseStrategy([job]) : strategy);
            const { ends, segments } = job.pieces;
            const perExit = job.continuations.reduce(
              (sum, { ids, scoredFrom }) => sum + ids.length + Number(scoredFrom === 0),
              0,
            );
            branchRows += (1 + (kind === 'one-run' ? ends.length : segments)) * perExit;
          }
          const longest = Math.max(...members.map((i) => jobs[i]?.ids.length as number));
          if (members.length > 1)
            expect(members.length * longest + branchRows).toBeLessThanOrEqual(BATCH_ROWS);
        }
      }),
    );
  });
});

test('planWindow counts exit 0 among the exits: 100 tokens and 10 exits of 5 rows, 27 traces a batch', () => {
  const jobs = Array.from({ length: 28 }, () => jobOf(SHAPE));
  for (const strategy of ['one-run', 'two-run'] as const)
    expect(planWindow(jobs, strategy).map(({ members }) => members.length)).toEqual([27, 1]);
});

// ------ runs of a batch

describe('runBatch', () => {
  const BOTH = ['one-run', 'two-run'] as const;

  test('out of memory: the halves are tried by themselves, and order is kept', async () => {
    const shapes = Array.from({ length: 7 }, (_, name): JobShape => ({ ...SHAPE, name }));
    const jobs = shapes.map(jobOf);
    const policy = new FakePolicy(2 * 150); // 100 tokens and 10 exits of 5 rows each
    const results = await runBatch(policy, jobs, 'one-run');
    expect(results).toEqual(shapes.map((shape, i) => expectedResult(shape, jobs[i] as TraceJob)));
    const tried = policy.runs.map(({ traces, fits }) => `${fits ? '' : 'not '}${traces.join(' ')}`);
    expect(tried).toEqual(['not 0 1 2 3 4 5 6', 'not 0 1 2 3', '0 1', '2 3', 'not 4 5 6', '4 5', '6']);
  });

  test('a trace too large for one run is read in two before it is given up', async () => {
    const job = jobOf(SHAPE);
    const enough = new FakePolicy(149); // 150 rows at once, but 100 for the trunk… and the branches with it kept
    const [rejected] = await runBatch(enough, [job], 'one-run');
    expect(enough.runs.map(({ kind, fits }) => [kind, fits])).toEqual([
      ['both', false],
      ['trunk', true],
      ['branches', false],
    ]);
    expect(rejected).toBeInstanceOf(TraceRejected);

    // fewer exits are scored when the entropies have chosen them: 100 tokens and 3 exits of 5 rows
    const merged: JobShape = { ...SHAPE, maxSegments: 2 };
    const policy = new FakePolicy(115);
    expect(await runBatch(policy, [jobOf(merged)], 'one-run')).toEqual([
      expectedResult(merged, jobOf(merged)),
    ]);
    expect(policy.runs.map(({ kind, rows }) => [kind, rows])).toEqual([
      ['both', 150],
      ['trunk', 100],
      ['branches', 115],
    ]);
    expect(policy.kept.size).toBe(0);
  });

  test('any batch, any memory: in order, a trace is scored as ever, or rejected where no way has room for it', async () => {
    await fc.assert(
      fc.asyncProperty(
        anyShapes(9),
        fc.constantFrom(...BOTH),
        fc.integer({ min: 1, max: 500 }),
        async (shapes, strategy, limit) => {
          const jobs = shapes.map(jobOf);
          const policy = new FakePolicy(limit);
          const results = await runBatch(policy, jobs, strategy);
          expect(results).toHaveLength(jobs.length);
          expect(policy.kept.size).toBe(0);
          for (const [i, job] of jobs.entries()) {
            const expected = expectedResult(shapes[i] as JobShape, job);
            const perExit = job.continuations.reduce(
              (sum, { ids, scoredFrom }) => sum + ids.length + Number(scoredFrom === 0),
              0,
            );
            const rows = (exits: number) => job.ids.length + exits * perExit;
            const fits =
              rows(expected.segmentation.exits.length) <= limit ||
              (strategy === 'one-run' && rows(1 + job.pieces.ends.length) <= limit);
            if (fits) expect(results[i]).toEqual(expected);
            else
              expect(results[i]).toMatchObject({
                ...{ name: 'TraceRejected', code: 'out_of_memory' },
                reason: expect.stringContaining(`${job.ids.length} tokens`),
              });
          }
        },
      ),
    );
  });

  test('any other failure is passed on at once, and nothing stays kept', async () => {
    const policy = new FakePolicy();
    policy.branches = () => Promise.reject(new Error('a bug'));
    await expect(runBatch(policy, [jobOf(SHAPE), jobOf(SHAPE)], 'two-run')).rejects.toThrow('a bug');
    expect(policy.runs).toHaveLength(1);
    expect(policy.kept.size).toBe(0);
  });
});

// ------ windows

/** Puts a number into what is said of one trace, which its first token names. */
class LyingPolicy extends FakePolicy {
  readonly device = { name: 'cuda', deviceId: 1 } as const;
  readonly vocab = 259;

  constructor(
    readonly name: number,
    readonly where: 'entropies' | 'logprobs' | 'branches',
    readonly number: number,
  ) {
    super();
  }

  override async run(traces: readonly PackedTrace[], keep?: number): Promise<TraceScores[]> {
    return this.lie(await super.run(traces, keep), traces);
  }

  override async branches(kept: number, branches: readonly (readonly Branch[])[]): Promise<TraceScores[]> {
    return this.lie(await super.branches(kept, branches), this.kept.get(kept) ?? []);
  }

  private lie(scores: TraceScores[], traces: readonly PackedTrace[]): TraceScores[] {
    for (const [b, { ids }] of traces.entries()) {
      if (ids[0] !== this.name) continue;
      const { branches, ...own } = scores[b] as TraceScores;
      if (this.where !== 'branches' && own[this.where].length > 3) own[this.where][3] = this.number;
      if (this.where === 'branches' && branches.length > 1) (branches[1] as Float32Array)[0] = this.number;
    }
    return scores;
  }
}

/** What comes of jobs that are cut into windows and scored. */
const scored = (
  shapes: readonly JobShape[],
  policy: PolicyRuns,
  strategy: (typeof STRATEGIES)[number],
  rowOf = (i: number) => i,
) => collect(scoreCut(windowsOf(stream(shapes, rowOf), everyRow), policy, { strategy }));

const everyRow = (ordinal: number) => windowOf(ordinal, 512);

/** A stream of jobs as scoreWindows takes them, each from an input row. */
async function* stream(
  shapes: readonly JobShape[],
  rowOf: (i: number) => number,
): AsyncGenerator<PassJob & { readonly name: number }> {
  for (const [i, shape] of shapes.entries()) {
    const { ids, promptLength, pieces, continuations } = jobOf(shape);
    yield {
      name: shape.name,
      trace: traceAt(rowOf(i), { id: `${i}`, reward: null }),
      promptIds: ids.subarray(0, promptLength),
      completionIds: ids.subarray(promptLength),
      pieces,
      continuations,
    };
  }
}

/** Short and equal: a run holds as many as are in a window. */
const small = (n: number): JobShape[] =>
  Array.from({ length: n }, (_, name) => ({
    ...SHAPE,
    name,
    prompt: 1,
    tokens: 4,
    continuations: [{ length: 2, scoredFrom: 1 }],
  }));

/** The same where nothing may have been set aside. */
async function allScored(...how: Parameters<typeof scored>) {
  const found = await scored(...how);
  expect(found.filter(isBad)).toEqual([]);
  return found as Exclude<(typeof found)[number], BadRow>[];
}

describe('scoreWindows', () => {
  test('any mix of lengths, strategies, gaps and lack of memory: the order of the input, every result its own', async () => {
    await fc.assert(
      fc.asyncProperty(
        anyShapes(60),
        fc.constantFrom(...STRATEGIES),
        fc.array(fc.integer({ min: 0, max: 40 }), { minLength: 60, maxLength: 60 }),
        fc.option(fc.integer({ min: 20, max: 300 })),
        fc.integer(),
        async (shapes, strategy, gaps, limit, seed) => {
          const random = seeded(seed);
          const pause = async () => {
            for (let n = Math.floor(random() * 4); n > 0; n--) await Promise.resolve();
          };
          const policy = new FakePolicy(limit ?? undefined, pause);
          const rows = gaps.map((_, i) => gaps.slice(0, i + 1).reduce((a, b) => a + b, 0));
          const all = await scored(shapes, policy, strategy, (i) => rows[i] as number);
          expect(all.map((item) => (isBad(item) ? item.id : item.trace.id))).toEqual(
            shapes.map((_, i) => `${i}`),
          );
          for (const [i, item] of all.entries()) {
            const shape = shapes[i] as JobShape;
            if (isBad(item))
              expect([item.rejection.code, limit]).toEqual(['out_of_memory', expect.any(Number)]);
            else
              expect([item.job.name, item.result]).toEqual([shape.name, expectedResult(shape, jobOf(shape))]);
          }
          expect(policy.kept.size).toBe(0);
        },
      ),
      { numRuns: 60 },
    );
  });

  test('a window is 64 input rows: rows that are missing move no other into another window', async () => {
    const together = async (rows: readonly number[]) => {
      const policy = new FakePolicy();
      await scored(small(rows.length), policy, 'one-run', (i) => rows[i] as number);
      return policy.runs.map(({ traces }) => traces.map((i) => rows[i]));
    };
    const rows = Array.from({ length: 200 }, (_, row) => row);
    const windows = [rows.slice(0, 64), rows.slice(64, 128), rows.slice(128, 192), rows.slice(192)];
    expect(await together(rows)).toEqual(windows);
    const kept = (row: number) => row % 5 !== 0 && row !== 63;
    expect(await together(rows.filter(kept))).toEqual(windows.map((window) => window.filter(kept)));
    expect(await together(rows.slice(100))).toEqual([rows.slice(100, 128), ...windows.slice(2)]);
  });

  test('rows that explode into many traces: they stay together, up to 256 a window', async () => {
    const policy = new FakePolicy();
    const rowOf = (i: number) => (i < 300 ? 0 : 1 + Math.floor((i - 300) / 5));
    const all = await allScored(small(700), policy, 'one-run', rowOf);
    expect(all.map(({ job }) => job.name)).toEqual([...Array(700).keys()]);
    // rows 0..63 are traces 0..614, rows 64..80 the rest
    expect(policy.runs.map(({ traces }) => [traces[0], traces.length])).toEqual([
      [0, 256],
      [256, 256],
      [512, 103],
      [615, 85],
    ]);
  });

  test('at most three batches are at work, and three where there are so many', async () => {
    const policy = new FakePolicy(undefined, together(3));
    await allScored(small(1000), policy, 'one-run');
    expect(policy.runs).toHaveLength(16);
    expect(policy.mostAtWork).toBe(3);
  });

  test('a failure ends the stream after the windows before it, once, and closes the source', async () => {
    const policy = new FakePolicy();
    const run = policy.run.bind(policy);
    policy.run = (traces) =>
      (traces[0]?.ids[0] as number) < 64 ? run(traces) : Promise.reject(new Error('gone'));
    let closed = false;
    async function* source() {
      try {
        yield* stream(small(500), (i) => i);
      } finally {
        closed = true;
      }
    }
    const all = scoreCut(windowsOf(source(), everyRow), policy as PolicyRuns, { strategy: 'one-run' });
    const names: number[] = [];
    const read = async () => {
      for await (const item of all) if (!isBad(item)) names.push(item.job.name);
    };
    await expect(read()).rejects.toThrow('gone');
    expect(names).toEqual([...Array(64).keys()]);
    expect(closed).toBe(true);
    expect(await all.next()).toEqual({ done: true, value: undefined });
  });

  test.each([
    ['an entropy that is no number', 'entropies', Number.NaN, /entropy NaN at completion token 3/],
    ['an entropy below 0', 'entropies', -0.01, /entropy -0\.0\d+ at completion token 3/],
    ['an entropy above ln V', 'entropies', 5.5607, /entropy 5\.5\d+ .*expected 0 to 5\.56 \(ln V\)/],
    ['log p that is no number', 'logprobs', Number.NaN, /log p NaN of completion token 3/],
    ['log p above 0', 'logprobs', 0.01, /log p 0\.0\d+ of completion token 3/],
    ['log p of −∞', 'logprobs', Number.NEGATIVE_INFINITY, /log p -Infinity of completion token 3/],
    ['log p of a reference above 0', 'branches', 1, /log p 1 in a reference/],
  ] as const)('%s ends the run with 65, and names trace and device', async (_, where, number, text) => {
    for (const strategy of ['one-run', 'two-run'] as const) {
      const policy = new LyingPolicy(5, where, number);
      const shapes = Array.from({ length: 9 }, (_, name): JobShape => ({ ...SHAPE, name }));
      const error = await scored(shapes, policy, strategy, (i) => 10 + i).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(RredcotError);
      const { message, exitCode, hint } = error as RredcotError;
      expect(exitCode).toBe(65);
      expect(message).toMatch(/^in:15 \(id "5"\): the policy on cuda:1 gave /);
      expect(message).toMatch(text);
      expect(hint).toContain('rredcot doctor --device cuda:1');
    }
  });

  test('numbers at the edge of what can be are taken', async () => {
    for (const [where, number] of [
      ['entropies', Math.log(259)],
      ['entropies', 0],
      ['logprobs', 0],
      ['branches', 0],
    ] as const) {
      const shapes = Array.from({ length: 9 }, (_, name): JobShape => ({ ...SHAPE, name }));
      const policy = new LyingPolicy(5, where, number);
      expect(await scored(shapes, policy, 'auto')).toHaveLength(9);
    }
  });
});

// ------ inOrder

describe('inOrder', () => {
  async function* numbers(n: number, onEnd = () => {}) {
    try {
      for (let i = 0; i < n; i++) yield i;
    } finally {
      onEnd();
    }
  }

  test('order is kept and at most `width` calls are at work, whichever ends first', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat(6), { maxLength: 25 }),
        fc.integer({ min: 1, max: 6 }),
        async (waits, width) => {
          let [atWork, most] = [0, 0];
          const results = await collect(
            inOrder(numbers(waits.length), width, async (i) => {
              most = Math.max(most, ++atWork);
              for (let n = waits[i] as number; n > 0; n--) await Promise.resolve();
              atWork--;
              return i * i;
            }),
          );
          expect(results).toEqual(waits.map((_, i) => i * i));
          expect(most).toBeLessThanOrEqual(width);
        },
      ),
    );
  });

  test('`width` calls are at work where there are so many', async () => {
    let [atWork, most] = [0, 0];
    const four = together(4);
    const work = async () => {
      most = Math.max(most, ++atWork);
      await four();
      atWork--;
    };
    await collect(inOrder(numbers(20), 4, work));
    expect(most).toBe(4);
  });

  test('an error surfaces in its turn, once; others behind it are nobody’s unhandled rejection', async () => {
    let ended = 0;
    let laterOnesFail = (): void => {};
    const laterFailures = new Promise<void>((resolve) => {
      laterOnesFail = resolve;
    });
    const done = inOrder(
      numbers(20, () => ended++),
      4,
      async (i) => {
        // the failures of 6 and 7 are there before that of 5, whose turn is first
        if (i === 5) await laterFailures.then(turn);
        if (i === 7) laterOnesFail();
        if (i >= 5) throw new Error(`no ${i}`);
        return i;
      },
    );
    const found: number[] = [];
    const read = async () => {
      for await (const item of done) found.push(item);
    };
    await expect(read()).rejects.toThrow('no 5');
    expect(found).toEqual([0, 1, 2, 3, 4]);
    expect(await done.next()).toEqual({ done: true, value: undefined });
    expect(ended).toBe(1);
  });

  test('a reader that stops early ends the source', async () => {
    let ended = 0;
    const source = numbers(100, () => ended++);
    for await (const item of inOrder(source, 3, async (i) => i)) if (item === 2) break;
    expect(ended).toBe(1);
  });
});
