/** Credits of one row, each kind by hand. */
import { describe, expect, it } from 'vitest';
import { traceCredits } from '../../dist/scored/trace-credits.js';
import { inputRow } from '../support/io-helpers.js';

const segment = (end: number, kind: string, delta: number | null, sigma: number | null) => ({
  ...{ start: 0, end, char_end: 2 * end, kind, delta, sigma },
});
const SCORED = {
  ...{ id: 'a', reward: 0, baseline: 0.75, status: 'uniform:flat-values;reward:compared' },
  segments: [
    segment(2, 'thought', 0.5, 0.25),
    segment(6, 'thought', -0.25, 0.5),
    segment(8, 'answer', 0, 0.25),
  ],
  sigma_abs: [0, 1, 2, 3, 4, 5, 6, 7],
  logprobs: [-0.1, -2, -0.1, -0.1, -0.7, -3, -0.1, -9],
  // a column of the user's, not a number a token
  sigma_other: [1, 2, 3],
  sigma_ess: 3,
};
const creditsOf = (columns: Record<string, unknown>, isMagnitude = false) =>
  traceCredits(inputRow(columns, 7), isMagnitude);

describe('a scored row', () => {
  it("has its differences, and σ times R*, whose sign says what σ's means; and what any has to beat", () => {
    const { credits, ...rest } = creditsOf(SCORED);
    // 2 and ⅔ of the first 8/3 tokens
    const { first_third: third, shuffled, ...others } = Object.fromEntries(credits);
    expect(shuffled?.toSorted()).toEqual(Float64Array.of(-0.25, 0.5));
    for (const [k, share] of [0.75, 0.25].entries()) expect(third?.[k]).toBeCloseTo(-0.75 * share, 12);
    expect(others).toEqual({
      uniform: Float64Array.of((-0.75 * 2) / 8, (-0.75 * 4) / 8),
      // 1 and 2 of the 4 tokens below ½
      unlikely: Float64Array.of(-0.75 / 4, (-0.75 * 2) / 4),
      delta: Float64Array.of(0.5, -0.25),
      sigma: Float64Array.of(-0.75 * 0.25, -0.75 * 0.5),
      sigma_abs: Float64Array.of(-0.75, -0.75 * (2 + 3 + 4 + 5)),
    });
    expect(rest).toEqual({ id: 'a', group: 'a', ends: 'end 2 6 8 2' });
    // log-probabilities of other tokens say nothing of these
    expect(creditsOf({ ...SCORED, logprobs: [-3, -0.1] }).credits.has('unlikely')).toBe(false);
  });

  it('of magnitudes has them with the sign of R*: on a wrong trace the largest is the lowest credit', () => {
    const of = (change: object) => creditsOf({ ...SCORED, ...change }, true).credits.get('delta');
    // whatever their own sign, as for σ
    expect(of({})).toEqual(Float64Array.of(-0.5, -0.25));
    expect(of({ reward: 1 })).toEqual(Float64Array.of(0.5, 0.25));
    expect(of({ reward: null })).toBeUndefined();
  });

  it('of segment alone has none but by place, with ½ in place of a baseline, in characters without tokens', () => {
    const nothing = { end: null, start: null, delta: null, sigma: null };
    const cut = SCORED.segments.map((each) => ({ ...each, ...nothing }));
    const row = { segments: cut, logprobs: SCORED.logprobs };
    const { credits } = creditsOf({ ...row, reward: 1 });
    expect([...credits.keys()]).toEqual(['uniform', 'first_third']);
    expect(credits.get('uniform')).toEqual(Float64Array.of((0.5 * 4) / 16, (0.5 * 8) / 16));
    expect(creditsOf(row).id).toBe('traces:7');
    expect([...creditsOf(row).credits.keys()]).toEqual([]);
  });
});

it('a row without segments is refused', () => {
  expect(() => creditsOf({ id: 'x' })).toThrow(/no segments, expected a row that was scored or cut/);
  expect(() => creditsOf({ segments: [{ kind: 'thought' }] })).toThrow(/no ends/);
});

it('what is shuffled is in each order about as often, by the id alone, magnitudes with the sign of R* among it', () => {
  const deltas = [3, 5, 7];
  const segments = deltas.map((delta, k) => segment(k + 1, 'thought', -delta, 0));
  const of = (id: string) => [
    ...(creditsOf({ ...SCORED, segments, id, reward: 1 }, true).credits.get('shuffled') ?? []),
  ];
  const counts = new Map<string, number>();
  for (let n = 0; n < 600; n++) counts.set(of(`t${n}`).join(), (counts.get(of(`t${n}`).join()) ?? 0) + 1);
  expect([...counts.keys()].sort()).toEqual(['3,5,7', '3,7,5', '5,3,7', '5,7,3', '7,3,5', '7,5,3']);
  for (const count of counts.values()) expect(Math.abs(count - 100)).toBeLessThan(40);
});
