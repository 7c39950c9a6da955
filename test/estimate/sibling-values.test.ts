// The siblings value against its formula, and its weights against the exact value of a language model small enough to sum.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { NO_FIT, NO_PEER, siblingValues as valuesOf } from '../../dist/estimate/siblings.js';
import { oracleSibling } from '../oracle/siblings.js';
import { continuations, exactValue, randomToy, seeded, toyLogprobs } from '../oracle/toy.js';
import { plainTokens } from '../support/fake-policy.js';

/** A peer with the log-probabilities of its own tokens. */
interface ScoredPeer {
  readonly length: number;
  readonly at: Int32Array;
  readonly reward: number;
  readonly draws?: number;
  readonly logprobs: Float32Array | undefined;
}

type Args = Parameters<typeof valuesOf>;
interface Own {
  readonly pieces: Pick<Args[2]['pieces'], 'tokens' | 'thought' | 'ends'>;
  readonly reward: number | null;
  readonly draws?: number;
  readonly begunAlike?: readonly { readonly tokens: number; readonly reward: number }[];
}

/** All tokens of a trace are 0; one that begins as it does goes on with others. */
function siblingValues(
  prior: Args[0],
  result: Omit<Args[1], 'logprobs' | 'entropies' | 'branches'> & { readonly logprobs?: Float32Array },
  { pieces, reward, draws = 1, begunAlike = [] }: Own,
  scored: readonly ScoredPeer[],
  peerTokens: number,
) {
  const peer = (ids: Int32Array, outcome: number, more: object) => ({
    ...{ trace: {}, completionIds: ids, reward: { reward: outcome }, pieces: { tokens: {} } },
    ...more,
  });
  const asked = scored.map(({ length, at, reward: outcome, draws: times = 1 }) =>
    peer(new Int32Array(length), outcome, { at, draws: times }),
  );
  const alike = begunAlike.map(({ tokens, reward: outcome }) =>
    peer(Int32Array.of(...new Int32Array(tokens), 9), outcome, { draws: 1 }),
  );
  const job = {
    completionIds: new Int32Array(99),
    pieces,
    reward: { reward },
    draws,
    peers: [...asked, ...alike],
  };
  return valuesOf(
    prior,
    { ...NONE, ...result, peers: scored.map(({ logprobs }) => logprobs) },
    job as unknown as Args[2],
    asked as unknown as Args[3],
    { peers: 3, peerTokens },
  );
}
const NONE = { logprobs: new Float32Array(0), entropies: new Float32Array(0), branches: [] };

/** A trace with an exit before and after each of its K tokens, and values that stand for calibrated ones. */
function traceOf(K: number, prior: readonly number[]) {
  const exits = Int32Array.from({ length: K + 1 }, (_, k) => k);
  const ends = exits.slice(1);
  return {
    pieces: { tokens: plainTokens(K), thought: { start: 0, end: K, answered: false }, ends },
    segmentation: { exits, thoughtEnds: ends, tokens: K, answered: false },
    values: { values: Float32Array.from(prior), isMade: true },
  };
}

/** As how many draws each of some completions counts: the rare ones once, the others by how often the rare ones are there. */
function oracleTimes(
  all: readonly { readonly draws: number; readonly logprobs: readonly number[] }[],
): number[] {
  const isRare = all.map(
    ({ logprobs }) => logprobs.reduce((p, lp) => p * Math.exp(Math.fround(lp)), 1) < 1e-4,
  );
  const rare = all.flatMap(({ draws }, n) => (isRare[n] ? [draws] : []));
  const each = rare.length === 0 ? 1 : Math.min(...rare);
  return all.map(({ draws }, n) => (isRare[n] ? 1 : Math.max(1, draws / each)));
}

// with some that make a completion one that nobody draws twice
const nats = fc.oneof(
  { weight: 5, arbitrary: fc.float({ min: -4, max: 0, noNaN: true }) },
  { weight: 1, arbitrary: fc.float({ min: -12, max: -6, noNaN: true }) },
);
const draws = fc.integer({ min: 1, max: 5 });
const scene = fc.integer({ min: 1, max: 5 }).chain((K) =>
  fc.record({
    K: fc.constant(K),
    prior: fc.array(fc.float({ min: 0, max: 1, noNaN: true }), { minLength: K + 1, maxLength: K + 1 }),
    reward: fc.constantFrom(null, 0, 0.5, 1),
    hasPrior: fc.boolean(),
    draws,
    logprobs: fc.array(nats, { minLength: K, maxLength: K }),
    begunAlike: fc.array(
      fc.record({ tokens: fc.integer({ min: 0, max: 6 }), reward: fc.constantFrom(0, 0.5, 1) }),
      { maxLength: 4 },
    ),
    L: fc.integer({ min: 1, max: 4 }),
    peers: fc.array(
      fc.integer({ min: 0, max: 6 }).chain((T) =>
        fc.record({
          logprobs: fc.array(nats, { minLength: T, maxLength: T }),
          at: fc.array(fc.integer({ min: 0, max: T }), { minLength: K + 1, maxLength: K + 1 }),
          reward: fc.constantFrom(0, 1),
          draws,
          isUnread: fc.boolean(),
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
  it('is ¾ (n R + Σ n w r + ½ Σ r_b + ½ V) / (n + Σ n w + ½ B + ½) + ¼ V, and the prior where no peer fits', () => {
    fc.assert(
      fc.property(scene, (drawn) => {
        const { K, prior, reward, hasPrior, draws, logprobs: ownLogprobs, L, peers, begunAlike } = drawn;
        const known = peers.map(({ isUnread, ...peer }) => (isUnread ? { ...peer, logprobs: [] } : peer));
        const [times = 1, ...peerTimes] = oracleTimes([{ draws, logprobs: ownLogprobs }, ...known]);
        const { pieces, segmentation, values: made } = traceOf(K, prior);
        const values = { ...made, isMade: hasPrior };
        const lengthAt = ({ logprobs, at }: (typeof peers)[number], k: number) =>
          Math.min(L, logprobs.length - (at[k] as number));
        const tails = Array.from({ length: K + 1 }, (_, k) =>
          peers.flatMap((peer) => {
            const n = lengthAt(peer, k);
            return n === 0 ? [] : [Float32Array.from((peer.here[k] as number[]).slice(0, n))];
          }),
        );
        const scored: ScoredPeer[] = peers.map(({ logprobs, at, draws, reward: outcome, isUnread }) => ({
          draws,
          length: logprobs.length,
          at: Int32Array.from(at),
          reward: outcome,
          logprobs: isUnread ? undefined : Float32Array.from(logprobs),
        }));
        const own = { pieces, reward, draws, begunAlike };
        const result = { segmentation, tails, logprobs: Float32Array.from(ownLogprobs) };
        const found = siblingValues(values, result, own, scored, L);
        const sum = (x: readonly number[]) => x.reduce((a, b) => a + Math.fround(b), 0);
        const pairs = Array.from({ length: K + 1 }, (_, k) =>
          peers.flatMap((peer, j) => {
            const n = lengthAt(peer, k);
            const from = peer.at[k] as number;
            if (n === 0 || peer.isUnread) return [];
            const own = sum(peer.logprobs.slice(from, from + n));
            return [
              {
                here: sum((peer.here[k] as number[]).slice(0, n)),
                own,
                reward: peer.reward,
                draws: peerTimes[j] as number,
              },
            ];
          }),
        );
        const passed = (k: number) =>
          begunAlike.filter(({ tokens }) => tokens >= k).map(({ reward: outcome }) => outcome);
        const heaviest = Math.max(
          ...pairs
            .slice(1)
            .map((all, k) =>
              all.reduce(
                (w, { here, own, draws }) => w + draws * Math.exp(Math.min(3, here - own)),
                passed(k + 1).length / 2,
              ),
            ),
        );
        // on the brink either is right
        if (Math.abs(heaviest - 0.1) < 1e-6) return;
        const fits = peers.length > 0 && heaviest > 0.1;
        for (const [k, all] of pairs.entries())
          expect(found.values[k]).toBeCloseTo(
            fits
              ? oracleSibling(reward, Math.fround(prior[k] as number), all, passed(k), times, hasPrior)
              : Math.fround(prior[k] as number),
            6,
          );
        expect(found.status).toEqual(fits ? [] : [peers.length === 0 ? NO_PEER : NO_FIT]);
        expect(found.columns.value_prior).toEqual(values.values);
        for (const [k, all] of pairs.entries()) {
          // outcomes and their weights: its own, those that began alike, those of peers
          const weighted = [
            { n: reward === null ? 0 : times, w: 1 },
            { n: passed(k).length, w: 0.5 },
            ...all.map(({ here, own, draws: n }) => ({ n, w: Math.exp(Math.min(3, here - own)) })),
          ];
          const [w, ww] = [1, 2].map((power) => weighted.reduce((s, { n, w }) => s + n * w ** power, 0));
          const ess = (found.columns.value_ess as Float32Array)[k] as number;
          expect(ess).toBeCloseTo(fits && ww !== 0 ? (w as number) ** 2 / (ww as number) : 0, 4);
        }
      }),
      { numRuns: 300 },
    );
  });

  it.each([1, 2, 3, 4])('toy %i: a peer’s weighted outcome is on average the value of the state', (seed) => {
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
        const scored = {
          length: own.length,
          at: Int32Array.of(0, 0),
          reward: right(y),
          logprobs: Float32Array.from(own),
        };
        const found = siblingValues(
          values,
          { segmentation, tails: [[tail], [tail]] },
          { pieces, reward: null },
          [scored],
          100,
        );
        const sum = (x: ArrayLike<number>) => Array.from(x).reduce((a, b) => a + b, 0);
        const ratio = sum(tail) - sum(own);
        clipped ||= ratio > 3;
        // one peer, no outcome of its own, a prior of 0: V = ¾ w·r / (w + ½); a peer below the threshold of fitting is left out
        const [, value = 0] = found.values;
        const weighted = found.status.includes(NO_FIT)
          ? Math.exp(ratio) * right(y)
          : (0.5 * value) / (0.75 - value);
        expected += Math.exp(sum(own)) * weighted;
      }
      if (!clipped) expect(expected).toBeCloseTo(exactValue(model, here, zeta), 4);
      else expect(expected).toBeLessThan(exactValue(model, here, zeta));
    }
  });
});
