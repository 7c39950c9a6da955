// The prover's pass: it answers where the policy has cut, in runs of one window, and what either has turned down goes by. The best of K of its answers, against all sequences of K of a toy language model.

import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { TraceRejected } from '../../dist/errors.js';
import { rightNow } from '../../dist/estimate/one-pass.js';
import { progress } from '../../dist/estimate/progress.js';
import { provedValues, tokenCheck } from '../../dist/estimate/prover.js';
import { traceValues } from '../../dist/estimate/value.js';
import { type PassJob, scoreWindows, windowsOf } from '../../dist/estimate/windows.js';
import type { PackedTrace } from '../../dist/model/onnx/placed.js';
import type { TraceScores } from '../../dist/model/onnx/session.js';
import { type BadRow, isBad, rejectTrace } from '../../dist/rows.js';
import { answerNowValue, bestOfValue, randomToy, seeded, toyLogprobs } from '../oracle/toy.js';
import { expectedResult, FakePolicy, fakeStats, type JobShape, jobOf } from '../support/fake-policy.js';
import { collect, streamOf, traceAt } from '../support/streams.js';

/** Another policy: it finds every token another one. */
class OtherPolicy extends FakePolicy {
  override run(traces: readonly PackedTrace[], keep?: number): Promise<TraceScores[]> {
    return super.run(
      traces.map((trace) => ({ ...trace, ids: others(trace.ids) })),
      keep,
    );
  }
}
const others = (ids: Int32Array): Int32Array => ids.map((id) => id + 300);

function proved(row: number, shape: JobShape): PassJob {
  const { ids, promptLength, pieces, continuations } = jobOf(shape);
  return {
    trace: traceAt(row),
    promptIds: ids.subarray(0, promptLength),
    completionIds: ids.subarray(promptLength),
    pieces,
    continuations: [],
    again: { continuations },
  };
}

const shapes = fc.array(
  fc.record({
    name: fc.integer({ min: 1, max: 250 }),
    prompt: fc.integer({ min: 1, max: 4 }),
    tokens: fc.integer({ min: 1, max: 30 }),
    piece: fc.integer({ min: 1, max: 9 }),
    maxSegments: fc.integer({ min: 1, max: 5 }),
    continuations: fc.array(
      fc.record({ length: fc.constant(4), scoredFrom: fc.integer({ min: 1, max: 3 }) }),
      {
        minLength: 1,
        maxLength: 3,
      },
    ),
  }),
  { minLength: 1, maxLength: 12 },
);

const SHAPE: JobShape = {
  ...{ name: 3, prompt: 2, tokens: 8, piece: 2, maxSegments: 9 },
  continuations: [{ length: 2, scoredFrom: 1 }],
};

/** its facts where the best of K answers counts */
const bestOf = (K: number, proverEstimator = 'pr') =>
  progress.withFlags?.({ proverEstimator, bestOf: `${K}` }) ?? progress;

/** Both passes over some jobs, three rows a window. */
async function values(jobs: readonly (PassJob | BadRow)[], prover: FakePolicy, K = 1) {
  const window = (row: number): number => Math.floor(row / 3);
  const scored = scoreWindows(windowsOf(streamOf(jobs), window), new FakePolicy());
  const how = { session: prover, window, nature: bestOf(K) };
  return collect(provedValues(scored, how));
}

describe('provedValues', () => {
  it('values the states where the policy has cut, by what another policy answers there', () =>
    fc.assert(
      fc.asyncProperty(shapes, fc.constantFrom(1, 3), async (all, K) => {
        const found = await values(
          all.map((shape, row) => proved(row, shape)),
          new OtherPolicy(),
          K,
        );
        for (const [n, shape] of all.entries()) {
          const item = found[n];
          if (item === undefined || isBad(item)) throw new Error('nothing was found');
          const job = jobOf(shape);
          const own = expectedResult(shape, job);
          // entropies and cuts are the policy's
          expect(item.result.entropies).toEqual(own.entropies);
          expect(item.result.logprobs).toEqual(own.logprobs);
          expect(item.result.segmentation).toEqual(own.segmentation);
          const branches = Array.from(own.segmentation.exits, (exit) =>
            job.continuations.map(({ ids, scoredFrom }) => {
              const prefix = others(job.ids).subarray(0, job.promptLength + exit);
              return fakeStats([...prefix, ...ids], prefix.length + scoredFrom).logprobs;
            }),
          );
          const utilities = new Float32Array(job.continuations.length).fill(1);
          expect(item.values).toEqual(traceValues(branches, utilities, bestOf(K)));
        }
      }),
      { numRuns: 20 },
    ));

  it('never runs traces of different windows together', async () => {
    const prover = new FakePolicy();
    await values(
      Array.from({ length: 9 }, (_, row) => proved(row, { ...SHAPE, name: row + 1 })),
      prover,
    );
    const windows = prover.runs.map(
      ({ traces }) => new Set(traces.map((name) => Math.floor((name - 1) / 3))),
    );
    expect(windows.map(({ size }) => size)).toEqual([1, 1, 1]);
  });

  it('lets pass what is set aside, before it or by it, in its place', async () => {
    const [first, second, third] = [0, 1, 2].map((row) => proved(row, SHAPE)) as [PassJob, PassJob, PassJob];
    const bad = rejectTrace(second.trace, { code: 'reward', reason: 'none' });
    const early = await values([first, bad, third], new OtherPolicy());
    expect(early.map((item) => (isBad(item) ? item.rejection.code : item.trace.id))).toEqual([
      '0',
      'reward',
      '2',
    ]);
    // no room for any trace
    const late = await values([first, bad, third], new OtherPolicy(1));
    expect(late.map((item) => isBad(item) && item.rejection.code)).toEqual([
      'out_of_memory',
      'reward',
      'out_of_memory',
    ]);
  });

  it('tells of the prover where its numbers cannot be', async () => {
    class Broken extends FakePolicy {
      override async run(traces: readonly PackedTrace[], keep?: number): Promise<TraceScores[]> {
        const [first, ...rest] = await super.run(traces, keep);
        return [{ ...(first as TraceScores), branches: [Float32Array.of(Number.NaN)] }, ...rest];
      }
    }
    await expect(values([proved(0, SHAPE)], new Broken())).rejects.toThrow(
      /in:0 \(id "0"\): the prover on cpu gave log p NaN in a reference/,
    );
  });
});

describe('tokenCheck', () => {
  const spelling = (change: Readonly<Record<number, string>> = {}) => ({
    bytes: (id: number) => Buffer.from(change[id] ?? String.fromCharCode(id)),
  });
  const read = (prompt: number[], completion: number[]) => ({
    promptIds: Int32Array.from(prompt),
    completionIds: Int32Array.from(completion),
  });
  const suffix = { ids: new Int32Array(3), scoredFrom: 1, utility: 1 };
  const rejection = (check: () => void) => {
    try {
      check();
    } catch (error) {
      if (error instanceof TraceRejected) return `${error.code}: ${error.reason}`;
    }
    return undefined;
  };

  it('takes a prover that reads the same tokens, whatever the rest of its vocabulary', () => {
    const check = tokenCheck(spelling(), spelling({ 99: 'other' }), 128, 9);
    expect(rejection(() => check(read([65, 66], [67, 68, 69, 70]), [suffix]))).toBe(undefined);
  });

  it.each([
    [
      'another text',
      { 67: 'c' },
      128,
      99,
      'prover_tokens: completion_ids[1] is 67, which is "C" for the policy and "c" for the prover',
    ],
    [
      'no text',
      { 66: '' },
      128,
      99,
      'prover_tokens: prompt_ids[1] is 66, which is "B" for the policy and "" for the prover',
    ],
    [
      'no such token',
      {},
      67,
      99,
      "prover_tokens: completion_ids[1] is 67, the prover's vocabulary has 67 tokens",
    ],
    [
      'no room',
      {},
      128,
      6,
      'prover_too_long: prompt and completion have 4 tokens, the prover takes 3 with the reference',
    ],
  ] as const)('turns down a trace: %s', (_, change, vocab, most, expected) => {
    const check = tokenCheck(spelling(), spelling(change), vocab, most);
    const turned = () => rejection(() => check(read([65, 66], [65, 67]), [suffix]));
    expect(turned()).toContain(expected);
    // and again: what was found once is not taken for known
    expect(turned()).toContain(expected);
  });

  it('shows bytes that are no text by their numbers', () => {
    const check = tokenCheck(
      { bytes: () => Uint8Array.of(0xff) },
      { bytes: () => Uint8Array.of(0xfe) },
      9,
      9,
    );
    expect(rejection(() => check(read([1], [2]), []))).toContain(
      '<ff> for the policy and <fe> for the prover',
    );
  });
});

const STATES = ['', 'a', 'ab', 'abc', 'abca'];
const right = (y: string) => (y === '1' ? 1 : 0);
const ROUNDING = 1e-6;

describe.each([1, 2, 3, 4, 5, 6])('toy prover %i', (seed) => {
  const prover = randomToy(seeded(seed));

  it.each([1, 2, 3, 6])('values a trace as its best of %i answers at each state', (K) => {
    const branches = STATES.map((s) => [Float32Array.from(toyLogprobs(prover, `${s}|`, '1'))]);
    const { values } = traceValues(branches, Float32Array.of(1), bestOf(K));
    for (const [k, s] of STATES.entries()) {
      expect(Math.abs((values[k] as number) - bestOfValue(prover, s, K, right))).toBeLessThan(ROUNDING);
      if (K === 1)
        expect(Math.abs((values[k] as number) - answerNowValue(prover, s, right))).toBeLessThan(ROUNDING);
    }
  });
});

describe('the best of K', () => {
  const logprobs = fc.float32Array({ minLength: 1, maxLength: 3, min: -20, max: -1.25, noNaN: true });
  it('is the value itself for K = 1, never less for more, and never above 1', () => {
    fc.assert(
      fc.property(logprobs, fc.integer({ min: 2, max: 50 }), (lp, K) => {
        const [tokens, utilities] = [new Int32Array(lp.length).fill(2), new Float32Array(lp.length).fill(1)];
        const value = (k: number) => bestOf(k).fromStored?.({ logprobs: lp, tokens, utilities }) as number;
        expect(value(1)).toBe(rightNow({ logprobs: lp, tokens, utilities }));
        expect(value(K)).toBeGreaterThanOrEqual(value(K - 1));
        expect(value(K)).toBeLessThanOrEqual(1);
      }),
    );
  });

  it('takes a probability that rounding has put above 1 for 1', () => {
    const bank = { logprobs: Float32Array.of(1e-4), tokens: Int32Array.of(1), utilities: Float32Array.of(1) };
    for (const K of [2, 3]) expect(bestOf(K).fromStored?.(bank)).toBe(1);
  });

  it('has a meaning for probabilities alone', () => {
    for (const name of ['pr', 'snis']) expect(bestOf(2, name).config).toMatchObject({ bestOf: 2 });
    for (const name of ['pr-mean', 'pr-geo']) expect(() => bestOf(2, name)).toThrow('are no probabilities');
  });
});
