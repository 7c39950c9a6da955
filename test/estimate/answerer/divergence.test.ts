// KL of two readers over a trace's tokens, from rows of which logits are told a block at a time; and logits that are not those of the pass.
import { describe, expect, test } from 'vitest';
import { divergence, divergences, type HasRead } from '../../../dist/estimate/answerer/divergence.js';
import type { TokenizedTrace } from '../../../dist/question.js';
import { seeded } from '../../oracle/toy.js';

const logSumExp = (row: readonly number[]) => Math.log(row.reduce((sum, z) => sum + Math.exp(z), 0));
/** Σ p (log p − log q), both normed over their own tokens */
function klOf(p: readonly number[], q: readonly number[]): number {
  const [ofP, ofQ] = [logSumExp(p), logSumExp(q)];
  return p.reduce((sum, z, v) => sum + Math.exp(z - ofP) * (z - ofP - ((q[v] as number) - ofQ)), 0);
}

const random = seeded(3);
const rowOf = (vocab: number, scale = 8) => Array.from({ length: vocab }, () => scale * (random() - 0.5));
const kl = (p: readonly number[], q: readonly number[]) =>
  divergence(Float32Array.from(p), Float32Array.from(q)).kl;

describe('divergence', () => {
  test.each([
    [7, 7],
    [7, 9],
    [300, 1000],
  ])('of %i tokens and %i', (ofOwn, ofOther) => {
    for (const scale of [0.1, 8, 60]) {
      const [p, q] = [rowOf(ofOwn, scale), rowOf(ofOther, scale)].map((row) => row.map(Math.fround)) as [
        number[],
        number[],
      ];
      expect(kl(p, q)).toBeCloseTo(klOf(p, q), 9);
    }
  });

  test('of one with itself it is 0, whatever is added to all logits, and never below', () => {
    const p = rowOf(400).map(Math.fround);
    expect(kl(p, p)).toBe(0);
    expect(
      kl(
        p,
        p.map((z) => z + 4096),
      ),
    ).toBeLessThan(1e-3);
  });

  test('a token that the policy rules out counts nothing; one that only the other rules out makes it infinite', () => {
    const [none, p] = [Number.NEGATIVE_INFINITY, [1, 2, 0]];
    expect(kl([...p, none], [...p, none])).toBe(0);
    expect(kl([...p, none], [...p, 1])).toBeCloseTo(
      Math.log((Math.E + Math.exp(logSumExp(p))) / Math.exp(logSumExp(p))),
      6,
    );
    expect(kl([...p, 1], [...p, none])).toBe(Infinity);
  });
});

/** Rows of one hidden number, its place: logits follow from that. */
function reader(
  T: number,
  vocab: number,
  logits: (t: number) => readonly number[],
  ids: Int32Array,
): HasRead & { most: number } {
  const session = {
    ...{ vocab, precision: 'f32' as const, folder: { path: 'toy' } as HasRead['session']['folder'] },
    async logits(rows: Float32Array) {
      found.most = Math.max(found.most, rows.length);
      return Float32Array.from([...rows].flatMap((t) => [...logits(t)]));
    },
  };
  const logprobs = Float32Array.from(ids, (id, t) => (logits(t)[id] as number) - logSumExp(logits(t)));
  const found = { session, last: Float32Array.from({ length: T }, (_, t) => t), logprobs, most: 0 };
  return found;
}

describe('divergences', () => {
  const T = 9;
  const ids = Int32Array.from({ length: T }, (_, t) => t % 5);
  const trace = { id: 'a', source: { file: 'f', row: 3 } } as TokenizedTrace['trace'];
  const job = (own?: Uint8Array) =>
    ({ trace, promptIds: ids, completionIds: ids, pieces: { tokens: { own } } }) as unknown as TokenizedTrace;
  const of = (vocab: number) => {
    const rows = Array.from({ length: T }, () => rowOf(vocab).map(Math.fround));
    return (t: number) => rows[t] as number[];
  };

  test('of every token, but for those that are not its own', async () => {
    const [p, q] = [of(6), of(7)];
    const readers = [reader(T, 6, p, ids), reader(T, 7, q, ids)] as const;
    const own = Uint8Array.from(ids, (_, t) => (t === 4 ? 0 : 1));
    const found = await divergences(...readers, job(own));
    for (let t = 0; t < T; t++) expect(found[t]).toBeCloseTo(t === 4 ? 0 : klOf(p(t), q(t)), 5);
  });

  test('a large vocabulary is asked for in blocks of rows', async () => {
    const vocab = 2 ** 22;
    const flat = new Float32Array(vocab);
    const [p, q] = [reader(T, 6, of(6), ids), reader(T, 6, of(6), ids)];
    const logits = async (rows: Float32Array) => {
      p.most = Math.max(p.most, rows.length);
      const all = new Float32Array(rows.length * vocab);
      for (let n = 0; n < rows.length; n++) all.set(flat, n * vocab);
      return all;
    };
    const read = {
      session: { ...p.session, vocab, logits },
      last: p.last,
      logprobs: new Float32Array(T).fill(-Math.log(vocab)),
    };
    expect(await divergences(read, { ...q, ...read }, job())).toEqual(new Float32Array(T));
    expect(p.most).toBe(4);
  });

  test.each([
    ['of the row before', (rows: Float32Array) => rows.map((t) => Math.max(0, t - 1))],
    ['no numbers', (rows: Float32Array) => rows.map((t) => (t === 5 ? Number.NaN : t))],
  ])('logits that are %s end the run', async (_, change) => {
    const [p, q] = [of(6), of(6)];
    const honest = reader(T, 6, p, ids);
    const told = reader(T, 6, (t) => (Number.isNaN(t) ? rowOf(6).fill(Number.NaN) : q(t)), ids);
    const logits = (rows: Float32Array) => told.session.logits(change(rows));
    const lying = { ...told, session: { ...told.session, logits } };
    for (const both of [
      [honest, lying],
      [lying, honest],
    ] as const)
      await expect(divergences(both[0], both[1], job())).rejects.toMatchObject({
        exitCode: 65,
        message: expect.stringMatching(/f:3 \(id "a"\): toy gave log p .* of completion token/),
      });
  });
});
