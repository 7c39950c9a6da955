// The siblings value against its formula, and its weights against the exact value of a language model small enough to sum.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { NO_FIT, NO_MATE } from '../../../dist/estimate/mateless.js';
import { siblingValues as valuesOf } from '../../../dist/estimate/siblings/sibling-values.js';
import { oracleSibling } from '../../oracle/siblings.js';
import { continuations, exactValue, randomToy, seeded, toyLogprobs } from '../../oracle/toy.js';
import { plainTokens } from '../../support/fake-policy.js';

/** A mate with the log-probabilities of its own tokens. */
interface ScoredMate {
  readonly mate: { readonly completionIds: Int32Array };
  readonly at: Int32Array;
  readonly reward: number;
  readonly logprobs: Float32Array | undefined;
}

const siblingValues = (
  prior: Parameters<typeof valuesOf>[0],
  result: Parameters<typeof valuesOf>[1],
  { reward, ...own }: Omit<Parameters<typeof valuesOf>[2], 'mates' | 'reward'> & { reward: number | null },
  mates: readonly ScoredMate[],
  opts: Parameters<typeof valuesOf>[4],
) =>
  valuesOf(
    prior,
    result,
    { ...own, reward: { reward }, mates },
    mates.map(({ logprobs }) => logprobs),
    opts,
  );

/** A trace with an exit before and after each of its K tokens, and values that stand for calibrated ones. */
function traceOf(K: number, prior: readonly number[]) {
  const exits = Int32Array.from({ length: K + 1 }, (_, k) => k);
  const ends = exits.slice(1);
  return {
    pieces: { tokens: plainTokens(K), thought: { start: 0, end: K, answered: false }, ends },
    segmentation: { exits, thoughtEnds: ends, tokens: K, answered: false },
    values: {
      values: Float32Array.from(prior),
      referenceLogprobs: exits.length > 0 ? Array.from(exits, () => Float32Array.of(0)) : [],
      referenceTokens: Int32Array.of(1),
    },
  };
}

const nats = fc.float({ min: -4, max: 0, noNaN: true });
const scene = fc.integer({ min: 1, max: 5 }).chain((K) =>
  fc.record({
    K: fc.constant(K),
    prior: fc.array(fc.float({ min: 0, max: 1, noNaN: true }), { minLength: K + 1, maxLength: K + 1 }),
    reward: fc.constantFrom(0, 0.5, 1),
    begunAlike: fc.array(
      fc.record({ tokens: fc.integer({ min: 0, max: 6 }), reward: fc.constantFrom(0, 0.5, 1) }),
      { maxLength: 4 },
    ),
    L: fc.integer({ min: 1, max: 4 }),
    mates: fc.array(
      fc.integer({ min: 0, max: 6 }).chain((T) =>
        fc.record({
          logprobs: fc.array(nats, { minLength: T, maxLength: T }),
          at: fc.array(fc.integer({ min: 0, max: T }), { minLength: K + 1, maxLength: K + 1 }),
          reward: fc.constantFrom(0, 1),
          here: fc.array(fc.array(nats, { minLength: 4, maxLength: 4 }), {
            minLength: K + 1,
            maxLength: K + 1,
          }),
        }),
      ),
      { maxLength: 3 },
    ),
  }),
);

describe('siblings', () => {
  it('is ¾ (R + Σ w r + ½ Σ r_b + ½ V) / (1½ + Σ w + ½ B) + ¼ V, and the prior where no mate fits', () => {
    fc.assert(
      fc.property(scene, ({ K, prior, reward, L, mates, begunAlike }) => {
        const { pieces, segmentation, values } = traceOf(K, prior);
        const lengthAt = ({ logprobs, at }: (typeof mates)[number], k: number) =>
          Math.min(L, logprobs.length - (at[k] as number));
        const tails = Array.from({ length: K + 1 }, (_, k) =>
          mates.flatMap((mate) => {
            const n = lengthAt(mate, k);
            return n === 0 ? [] : [Float32Array.from((mate.here[k] as number[]).slice(0, n))];
          }),
        );
        const scored: ScoredMate[] = mates.map(({ logprobs, at, reward: outcome }) => ({
          mate: { completionIds: new Int32Array(logprobs.length) },
          at: Int32Array.from(at),
          reward: outcome,
          logprobs: Float32Array.from(logprobs),
        }));
        const own = { pieces, reward, begunAlike };
        const found = siblingValues(values, { segmentation, tails }, own, scored, {
          mates: 3,
          mateTokens: L,
        });
        const sum = (x: readonly number[]) => x.reduce((a, b) => a + Math.fround(b), 0);
        const pairs = Array.from({ length: K + 1 }, (_, k) =>
          mates.flatMap((mate) => {
            const n = lengthAt(mate, k);
            const from = mate.at[k] as number;
            if (n === 0) return [];
            const own = sum(mate.logprobs.slice(from, from + n));
            return [{ here: sum((mate.here[k] as number[]).slice(0, n)), own, reward: mate.reward }];
          }),
        );
        const passed = (k: number) =>
          begunAlike.filter(({ tokens }) => tokens >= k).map(({ reward: outcome }) => outcome);
        const heaviest = Math.max(
          ...pairs
            .slice(1)
            .map((all, k) =>
              all.reduce(
                (w, { here, own }) => w + Math.exp(Math.min(3, here - own)),
                passed(k + 1).length / 2,
              ),
            ),
        );
        // on the brink either is right
        if (Math.abs(heaviest - 0.1) < 1e-6) return;
        const fits = mates.length > 0 && heaviest > 0.1;
        for (const [k, all] of pairs.entries())
          expect(found.values[k]).toBeCloseTo(
            fits
              ? oracleSibling(reward, Math.fround(prior[k] as number), all, passed(k))
              : Math.fround(prior[k] as number),
            6,
          );
        expect(found.status).toEqual(fits ? [] : [mates.length === 0 ? NO_MATE : NO_FIT]);
        expect(found.start).toBe(values.values[0]);
        expect(found.columns.value_prior).toEqual(values.values);
        for (const ess of found.columns.value_ess as Float32Array) {
          expect(ess).toBeGreaterThanOrEqual(0);
          expect(ess).toBeLessThanOrEqual(1 + mates.length + begunAlike.length + 1e-5);
        }
      }),
      { numRuns: 300 },
    );
  });

  it.each([1, 2, 3, 4])(
    'toy %i: a mate’s weighted outcome is the value of the trace’s state, on average over its tails',
    (seed) => {
      const model = randomToy(seeded(seed));
      const right = (y: string) => (y === '1' ? 1 : 0);
      const zeta = (_: string, { y }: { y: string }) => right(y);
      // two ways to the same number of steps left: any tail of the one can follow the other
      for (const [here, there] of [
        ['ab', 'ba'],
        ['abc', 'cba'],
        ['a', 'c'],
      ] as const) {
        const { pieces, segmentation, values } = traceOf(1, [0, 0]);
        let [expected, clipped] = [0, false];
        for (const { u, y } of continuations(there)) {
          const own = toyLogprobs(model, there, u + y);
          const tail = Float32Array.from(toyLogprobs(model, here, u + y));
          const mate = { completionIds: new Int32Array(own.length) };
          const scored = {
            mate,
            at: Int32Array.of(0, 0),
            reward: right(y),
            logprobs: Float32Array.from(own),
          };
          const found = siblingValues(
            values,
            { segmentation, tails: [[tail], [tail]] },
            { pieces, reward: null },
            [scored],
            { mates: 1, mateTokens: 100 },
          );
          const sum = (x: ArrayLike<number>) => Array.from(x).reduce((a, b) => a + b, 0);
          const ratio = sum(tail) - sum(own);
          clipped ||= ratio > 3;
          // one mate, no outcome of its own, a prior of 0: V = ¾ w·r / (w + ½); a mate below the threshold of fitting is left out
          const [, value = 0] = found.values;
          const weighted = found.status.includes(NO_FIT)
            ? Math.exp(ratio) * right(y)
            : (0.5 * value) / (0.75 - value);
          expected += Math.exp(sum(own)) * weighted;
        }
        if (!clipped) expect(expected).toBeCloseTo(exactValue(model, here, zeta), 4);
        else expect(expected).toBeLessThan(exactValue(model, here, zeta));
      }
    },
  );

  it('has no prior where no reference was scored', () => {
    const { pieces, segmentation, values } = traceOf(1, [0, 0]);
    const tails = [[Float32Array.of(-1)], [Float32Array.of(-1)]];
    const mate = { mate: { completionIds: new Int32Array(1) }, at: Int32Array.of(0, 0), reward: 0 };
    const found = siblingValues(
      { ...values, referenceTokens: new Int32Array(0) },
      { segmentation, tails },
      { pieces, reward: 1 },
      [{ ...mate, logprobs: Float32Array.of(-1) }],
      { mates: 1, mateTokens: 1 },
    );
    expect([...found.values]).toEqual([0.5, 0.5]);
  });

  it('leaves out what is not known: the own outcome, and a mate that the policy could not read', () => {
    const { pieces, segmentation, values } = traceOf(1, [0.5, 0.25]);
    const tails = [[Float32Array.of(-1)], [Float32Array.of(-1)]];
    const mate = { mate: { completionIds: new Int32Array(1) }, at: Int32Array.of(0, 0), reward: 1 };
    const opts = { mates: 1, mateTokens: 1 };
    const unknown = { pieces, reward: null };
    const read = { ...mate, logprobs: Float32Array.of(-1) };
    const found = siblingValues(values, { segmentation, tails }, unknown, [read], opts);
    expect([...found.values]).toEqual([0.75 * (1.25 / 1.5) + 0.125, 0.75 * 0.75 + 0.0625].map(Math.fround));
    expect([...(found.columns.value_ess as Float32Array)]).toEqual([1, 1]);
    const unread = { ...mate, logprobs: undefined };
    const none = siblingValues(values, { segmentation, tails }, { pieces, reward: 1 }, [unread], opts);
    expect([...none.values]).toEqual([0.5, 0.25]);
    expect(none.status).toEqual([NO_FIT]);
  });
});
