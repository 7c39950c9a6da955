// KL of two readers over a trace's tokens, from rows of which distributions are told a block at a time; and those that are not the pass's.
import { describe, expect, test } from 'vitest';
import { divergences, type HasRead } from '../../../dist/estimate/answerer/divergence.js';
import type { TokenizedTrace } from '../../../dist/question.js';
import { seeded } from '../../oracle/toy.js';

const random = seeded(3);
const T = 9;
const ids = Int32Array.from({ length: T }, (_, t) => t % 5);
const trace = { id: 'a', source: { file: 'f', row: 3 } } as TokenizedTrace['trace'];
const job = (own?: Uint8Array) =>
  ({ trace, promptIds: ids, completionIds: ids, pieces: { tokens: { own } } }) as unknown as TokenizedTrace;

/** (T) distributions over a vocabulary, as logarithms */
function distributionsOf(vocab: number): number[][] {
  return Array.from({ length: T }, () => {
    const row = Array.from({ length: vocab }, () => Math.exp(8 * (random() - 0.5)));
    const total = row.reduce((sum, each) => sum + each, 0);
    return row.map((each) => Math.log(each / total));
  });
}

/** Σ p (log p − log q) */
const klOf = (p: ArrayLike<number>, q: readonly number[]) =>
  Array.from(p).reduce((sum, logp, v) => sum + Math.exp(logp) * (logp - (q[v] as number)), 0);

/** One whose rows of the last layer are one number each, the token's place. @param told what its head says of a place, where that is not what the pass said */
function reader(all: readonly number[][], told = (t: number) => all[t] as number[], vocab = all[0]?.length) {
  const asked: number[] = [];
  const session = {
    ...{ vocab, precision: 'f32', folder: { path: 'toy' } },
    async distributions(...[rows, policy]: Parameters<HasRead['session']['distributions']>) {
      asked.push(rows.length);
      const own = [...rows].map(told);
      if (policy === undefined) return { logp: Float32Array.from(own.flat()) };
      const { logp: others, targets } = policy;
      const O = others.length / rows.length;
      const kl = Float32Array.from(own, (q, n) => klOf(others.subarray(n * O, (n + 1) * O), q));
      return { kl, logprobs: Float32Array.from(own, (q, n) => q[targets[n] as number] as number) };
    },
  } as unknown as HasRead['session'];
  const logprobs = Float32Array.from(ids, (id, t) => all[t]?.[id] as number);
  return { session, last: Float32Array.from({ length: T }, (_, t) => t), logprobs, asked };
}

describe('divergences', () => {
  const [p, q] = [distributionsOf(6), distributionsOf(7)];

  test('of every token, but for those that are not its own', async () => {
    const own = Uint8Array.from(ids, (_, t) => (t === 4 ? 0 : 1));
    const found = await divergences(reader(p), reader(q), job(own));
    for (let t = 0; t < T; t++)
      expect(found.kl[t]).toBeCloseTo(t === 4 ? 0 : klOf(p[t] as number[], q[t] as number[]), 5);
    // what rounding has taken below 0 is 0
    const same = await divergences(reader(p), reader(p), job());
    expect(Math.min(...same.kl)).toBe(0);
    expect(Math.max(...same.kl)).toBeLessThan(1e-6);
  });

  test('a large vocabulary is asked for in blocks of rows, and the last one is whole', async () => {
    const [policy, teacher] = [reader(p), reader(q, undefined, 2 ** 20)];
    const found = await divergences(policy, teacher, job());
    expect([policy.asked, teacher.asked]).toEqual([
      [4, 4, 1],
      [4, 4, 1],
    ]);
    expect(found).toEqual(await divergences(reader(p), reader(q), job()));
  });

  test.each<[string, (all: readonly number[][], t: number) => number[]]>([
    ['those of the row before', (all, t) => all[Math.max(0, t - 1)] as number[]],
    [
      'of one token no numbers',
      (all, t) => (all[t] as number[]).map((each) => (t === 5 ? Number.NaN : each)),
    ],
    ['another policy’s', (all, t) => (all[t] as number[]).toReversed()],
  ])('that are %s end the run, whoever tells them', async (_, lie) => {
    for (const [policy, teacher] of [
      [reader(p), reader(q, (t) => lie(q, t))],
      [reader(p, (t) => lie(p, t)), reader(q)],
    ] as const)
      await expect(divergences(policy, teacher, job())).rejects.toMatchObject({
        exitCode: 65,
        message: expect.stringMatching(/f:3 \(id "a"\): toy gave log p .* of completion token/),
      });
  });

  /** An engine that has read: of each place the most likely tokens. */
  const engine = (all: readonly number[][], top: number): HasRead => ({
    ...{ session: reader(all).session, logprobs: reader(all).logprobs },
    likeliest: all.map((row) => {
      const best = [...row.entries()].sort(([, a], [, b]) => b - a).slice(0, top);
      return { ids: best.map(([id]) => id), logprobs: best.map(([, logp]) => logp) };
    }),
  });

  test('of engines it is a lower bound, the tighter the more they tell, and exact where they tell all', async () => {
    const [p, q] = [distributionsOf(40), distributionsOf(40)];
    const { kl: exact } = await divergences(reader(p), reader(q), job());
    let before = { kl: new Float32Array(T), apart: T };
    for (const top of [0, 1, 4, 16, 40]) {
      const found = await divergences(reader(p), engine(q, top), job());
      for (let t = 0; t < T; t++) {
        expect(found.kl[t]).toBeLessThanOrEqual((exact[t] as number) + 1e-5);
        expect(found.kl[t]).toBeGreaterThanOrEqual((before.kl[t] as number) - 2e-3);
      }
      expect(found.apart).toBeLessThanOrEqual(before.apart);
      before = found as typeof before;
    }
    for (let t = 0; t < T; t++) expect(before.kl[t]).toBeCloseTo(exact[t] as number, 4);
    expect(before.apart).toBeLessThan(1e-5);
    // by what both tell, and by what a folder has of an engine's tokens
    for (const [policy, teacher] of [
      [engine(p, 9), engine(q, 9)],
      [engine(p, 9), reader(q)],
    ] as const) {
      const { kl, apart } = await divergences(policy, teacher, job());
      expect(apart).toBeGreaterThan(0.01);
      for (let t = 0; t < T; t++) expect(kl[t]).toBeLessThanOrEqual((exact[t] as number) + 1e-5);
    }
    const whole = await divergences(engine(p, 40), reader(q), job());
    for (let t = 0; t < T; t++) expect(whole.kl[t]).toBeCloseTo(exact[t] as number, 4);
  });

  test('a token that the policy does not have is one that it never writes', async () => {
    const { kl } = await divergences(reader(p), engine(q, 7), job());
    for (let t = 0; t < T; t++) expect(kl[t]).toBeCloseTo(klOf(p[t] as number[], q[t] as number[]), 4);
  });

  test('a divergence that is infinite ends it, too', async () => {
    const none = q.map((row) => row.map((each, v) => (v === 5 ? Number.NEGATIVE_INFINITY : each)));
    await expect(divergences(reader(p), reader(none), job())).rejects.toMatchObject({ exitCode: 65 });
  });
});
