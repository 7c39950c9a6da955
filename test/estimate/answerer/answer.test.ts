// Who answers, over a fake policy: nothing lost, nothing mixed, order kept, whatever runs together and whatever memory holds.
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { OutOfMemoryError, RredcotError } from '../../../dist/errors.js';
import { answerCut, runBatch } from '../../../dist/estimate/answerer/batch.js';
import { answererOf, windowsOf } from '../../../dist/estimate/answerer/windows.js';
import { windowOf } from '../../../dist/io/files/run-folder.js';
import type { Branch, PackedTrace, TraceScores } from '../../../dist/model/onnx/placed.js';
import type { TraceJob } from '../../../dist/model/onnx/plan.js';
import type { PolicyRuns } from '../../../dist/model/onnx/session.js';
import type { AskedJob, TraceQuestions, Windows } from '../../../dist/question.js';
import { type BadRow, isBad, rejectTrace } from '../../../dist/rows.js';
import { seeded } from '../../oracle/toy.js';
import {
  anyShapes,
  expectedResult,
  FakePolicy,
  type JobShape,
  jobOf,
  SHAPE,
} from '../../support/fake-policy.js';
import { collect, streamOf, traceAt } from '../../support/streams.js';

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
            const perExit = job.asked.atExits.reduce(
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
const scored = (shapes: readonly JobShape[], policy: PolicyRuns, rowOf = (i: number) => i) =>
  collect(readBy(policy, windowsOf(stream(shapes, rowOf), everyRow)));

/** What is said of windows by a policy alone. */
const readBy = <T extends AskedJob>(policy: PolicyRuns, windows: Windows<T>) =>
  answererOf(policy as never, undefined, everyRow)(windows);

const everyRow = (ordinal: number) => windowOf(ordinal, 512);

/** A stream of jobs as scoreWindows takes them, each from an input row. */
async function* stream(
  shapes: readonly JobShape[],
  rowOf: (i: number) => number,
): AsyncGenerator<AskedJob & { readonly name: number }> {
  for (const [i, shape] of shapes.entries()) {
    const { ids, promptLength, pieces, asked } = jobOf(shape);
    yield {
      name: shape.name,
      trace: traceAt(rowOf(i), { id: `${i}`, reward: null }),
      promptIds: ids.subarray(0, promptLength),
      completionIds: ids.subarray(promptLength),
      pieces,
      asked,
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
        fc.array(fc.integer({ min: 0, max: 40 }), { minLength: 60, maxLength: 60 }),
        fc.option(fc.integer({ min: 20, max: 300 })),
        fc.integer(),
        async (shapes, gaps, limit, seed) => {
          const random = seeded(seed);
          const pause = async () => {
            for (let n = Math.floor(random() * 4); n > 0; n--) await Promise.resolve();
          };
          const policy = new FakePolicy(limit ?? undefined, pause);
          const rows = gaps.map((_, i) => gaps.slice(0, i + 1).reduce((a, b) => a + b, 0));
          const all = await scored(shapes, policy, (i) => rows[i] as number);
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
      await scored(small(rows.length), policy, (i) => rows[i] as number);
      return policy.runs.map(({ traces }) => traces.map((i) => rows[i]));
    };
    const rows = Array.from({ length: 200 }, (_, row) => row);
    const windows = [rows.slice(0, 64), rows.slice(64, 128), rows.slice(128, 192), rows.slice(192)];
    expect(await together(rows)).toEqual(windows);
    const kept = (row: number) => row % 5 !== 0 && row !== 63;
    expect(await together(rows.filter(kept))).toEqual(windows.map((window) => window.filter(kept)));
    expect(await together(rows.slice(100))).toEqual([rows.slice(100, 128), ...windows.slice(2)]);
  });

  test('at most three batches are at work, and three where there are so many', async () => {
    const policy = new FakePolicy(undefined, together(3));
    await allScored(small(1000), policy);
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
    const all = readBy(policy, windowsOf(source(), everyRow));
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
    // in one run, and in two, where most exits are merged away
    for (const more of [{}, { piece: 1, maxSegments: 4 }]) {
      const policy = new LyingPolicy(5, where, number);
      const shapes = Array.from({ length: 9 }, (_, name): JobShape => ({ ...SHAPE, ...more, name }));
      const error = await scored(shapes, policy, (i) => 10 + i).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(RredcotError);
      const { message, exitCode, hint } = error as RredcotError;
      expect(exitCode).toBe(65);
      expect(message).toMatch(/^in:15 \(id "5"\): the policy on cuda:1 gave /);
      expect(message).toMatch(text);
      expect(hint).toContain('rredcot doctor --device cuda:1');
    }
  });
});

/** An answerer over fake policies, three rows a window. */
function answers(jobs: readonly (AskedJob | BadRow)[], policy: FakePolicy, second?: FakePolicy) {
  const window = (row: number): number => Math.floor(row / 3);
  const answerer = answererOf(policy as never, second, window);
  return collect(answerer(windowsOf(streamOf(jobs), window)));
}

function jobAt(row: number, shape: JobShape, asked: Partial<TraceQuestions> = {}): AskedJob {
  const { ids, promptLength, pieces } = jobOf(shape);
  const [promptIds, completionIds] = [ids.subarray(0, promptLength), ids.subarray(promptLength)];
  return { trace: traceAt(row), promptIds, completionIds, pieces, asked: { atExits: [], ...asked } };
}

describe('a second reading', () => {
  test('never has traces of different windows in a run, and lets pass in its place what is set aside', async () => {
    const second = new FakePolicy();
    const job = (row: number) => jobAt(row, { ...SHAPE, name: row + 1 }, { second: {} });
    const bad = rejectTrace(traceAt(4), { code: 'reward', reason: 'none' });
    const jobs = Array.from({ length: 9 }, (_, row) => (row === 4 ? bad : job(row)));
    const found = await answers(jobs, new FakePolicy(), second);
    expect(found.map((item) => (isBad(item) ? item.rejection.code : item.trace.id))).toEqual([
      ...'0123',
      'reward',
      ...'5678',
    ]);
    const windows = second.runs.map(
      ({ traces }) => new Set(traces.map((name) => Math.floor((name - 1) / 3))),
    );
    expect(windows.map(({ size }) => size)).toEqual([1, 1, 1]);
    // no room for any trace
    const late = await answers([job(0), bad], new FakePolicy(), new FakePolicy(1));
    expect(late.map((item) => isBad(item) && item.rejection.code)).toEqual(['out_of_memory', 'reward']);
  });
});

test('questions once a trace is cut that memory does not hold reject their trace alone, and what was kept is freed', async () => {
  const freed: number[] = [];
  const session = {
    keepPrefixes: async () => {},
    branches: () => Promise.reject(new OutOfMemoryError('full')),
    release: async (kept: number) => void freed.push(kept),
  };
  const job = { trace: traceAt(0), promptIds: Int32Array.of(1), completionIds: new Int32Array(30) };
  const questions = [{ after: 2, ids: Int32Array.of(1, 2, 3), scoredFrom: 1 }];
  await expect(answerCut(session, job, Int32Array.of(2, 24), questions)).rejects.toMatchObject({
    code: 'out_of_memory',
    message: expect.stringContaining('its 25 tokens again'),
  });
  expect(freed).toHaveLength(1);
});
