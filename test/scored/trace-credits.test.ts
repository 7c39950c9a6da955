/** Credits of one row, each kind by hand, and what a column must not be. */
import { describe, expect, it } from 'vitest';
import { parsePath } from '../../dist/io/map/fields.js';
import { type CreditColumn, parseNamedPath, traceCredits } from '../../dist/scored/trace-credits.js';
import { inputRow } from '../support/io-helpers.js';

const segment = (end: number, kind: string, delta: number | null, sigma: number | null) => ({
  start: 0,
  end,
  char_end: 2 * end,
  kind,
  delta,
  sigma,
});
const SCORED = {
  id: 'a',
  reward: 0,
  baseline: 0.75,
  status: 'uniform:flat-values;reward:compared',
  segments: [
    segment(2, 'thought', 0.5, 0.25),
    segment(6, 'thought', -0.25, 0.5),
    segment(8, 'answer', 0, 0.25),
  ],
  sigma_abs: [0, 1, 2, 3, 4, 5, 6, 7],
  // a column of the user's, not a number a token
  sigma_other: [1, 2, 3],
  sigma_ess: 3,
};
const NOTHING = { columns: [], firstWrong: undefined, reward: undefined };

function creditsOf(
  columns: Record<string, unknown>,
  asked: Partial<Parameters<typeof traceCredits>[1]> = {},
  of: Parameters<typeof traceCredits>[2] = {},
) {
  return traceCredits(inputRow(columns, 7), { ...NOTHING, ...asked }, of);
}
const column = (meaning: CreditColumn['meaning'], text: string): CreditColumn => ({
  meaning,
  ...parseNamedPath('--credit', text),
});

describe('a scored row', () => {
  it("has its differences, and σ times R*, whose sign says what σ's means; uniform σ too", () => {
    const { credits, ...rest } = creditsOf(SCORED);
    expect(Object.fromEntries(credits)).toEqual({
      uniform: Float64Array.of((-0.75 * 2) / 8, (-0.75 * 4) / 8),
      delta: Float64Array.of(0.5, -0.25),
      sigma: Float64Array.of(-0.75 * 0.25, -0.75 * 0.5),
      sigma_abs: Float64Array.of(-0.75, -0.75 * (2 + 3 + 4 + 5)),
    });
    expect(rest).toMatchObject({ id: 'a', segments: 2, reward: 0, fallback: 'uniform:flat-values' });
    expect(rest.firstWrong).toBeUndefined();
  });

  it('of magnitudes has them with the sign of R*: on a wrong trace the largest is the lowest credit', () => {
    const of = (change: object) =>
      creditsOf({ ...SCORED, ...change }, {}, { isMagnitude: true }).credits.get('delta');
    // whatever their own sign, as for σ
    expect(of({})).toEqual(Float64Array.of(-0.5, -0.25));
    expect(of({ reward: 1 })).toEqual(Float64Array.of(0.5, 0.25));
    expect(of({ reward: null })).toBeUndefined();
  });

  it('of segment alone has none but uniform, by ½ in place of a baseline, in characters without tokens', () => {
    const nothing = { end: null, start: null, delta: null, sigma: null };
    const cut = SCORED.segments.map((each) => ({ ...each, ...nothing }));
    const row = { segments: cut, solved: true };
    expect(Object.fromEntries(creditsOf(row, { reward: parsePath('solved') }).credits)).toEqual({
      uniform: Float64Array.of((0.5 * 4) / 16, (0.5 * 8) / 16),
    });
    expect(creditsOf(row).id).toBe('traces:7');
    expect([...(creditsOf(row).credits.get('uniform') ?? [])]).toEqual([Number.NaN, Number.NaN]);
  });
});

describe('columns that are named', () => {
  it('are credits as they stand, or the changes of values and scores', () => {
    const row = {
      ...SCORED,
      c: [1, null],
      v: [0.5, 0.75, 0.25],
      before: [0.5, 0.75],
      steps: [{ s: 0.5 }, { s: 0.125 }],
    };
    const asked = [
      column('credit', 'c=c'),
      column('values', 'v=v'),
      column('values', 'w=before'),
      column('scores', 'prm=steps[].s'),
      column('credit', 'absent=nowhere'),
    ];
    const { credits } = creditsOf(row, { columns: asked });
    expect(credits.get('c')).toEqual(Float64Array.of(1, Number.NaN));
    expect(credits.get('v')).toEqual(Float64Array.of(0.25, -0.5));
    expect(credits.get('w')).toEqual(Float64Array.of(0.25, Number.NaN));
    expect(credits.get('prm')).toEqual(Float64Array.of(Number.NaN, -0.375));
    expect(credits.has('absent')).toBe(false);
  });

  it.each([
    [column('credit', 'c=v'), /c: v has 3 numbers, expected 2 for 2 thought segments/],
    [column('values', 'c=long'), /c: long has 4 numbers, expected 2 or 3/],
    [column('scores', 'c=text'), /text: number 1 is "x", expected a number or null/],
    [column('credit', 'c=reward'), /reward is no list of numbers/],
    [column('credit', 'c=reward[].x'), /reward\[\]\.x is no list$/],
  ])('%j is refused', (asked, message) => {
    const row = { ...SCORED, v: [1, 2, 3], long: [1, 2, 3, 4], text: [1, 'x'] };
    expect(() => creditsOf(row, { columns: [asked] })).toThrow(message);
  });

  it('names and paths', () => {
    for (const text of ['mc', '=a', 'mc=a[', ' =x'])
      expect(() => parseNamedPath('--credit', text)).toThrow(/--credit/);
  });
});

describe('labels', () => {
  const label = (from: 0 | 1) => ({ firstWrong: { path: parsePath('wrong'), from } });
  const labelled = (wrong: unknown, from: 0 | 1 = 0) =>
    creditsOf({ ...SCORED, wrong }, label(from)).firstWrong;

  it('are the number of a thought segment, or that none is wrong', () => {
    expect([labelled(1), labelled(null), labelled(-1), labelled(0n), labelled(-1n)]).toEqual([
      1, -1, -1, 0, -1,
    ]);
    expect(creditsOf(SCORED, label(0)).firstWrong).toBeUndefined();
    expect(() => labelled(2)).toThrow(/wrong is 2, the answer, which has no credit, expected .* from 0 to 1/);
    expect([labelled(2, 1), labelled('N/A', 1), labelled([], 1), labelled([2, 1], 1)]).toEqual([
      1, -1, -1, 0,
    ]);
    expect(() => labelled(0, 1)).toThrow(/wrong is 0, expected .* from 1 to 2/);
    // verdicts a step, and what is no number
    for (const odd of [[true, false], [null], [-1, 1], '', false, true, '0x1'])
      expect(() => labelled(odd)).toThrow(/wrong is /);
    expect(() => labelled(1.5)).toThrow(/wrong is 1\.5, expected/);
  });
});

it('a row without segments is refused', () => {
  expect(() => creditsOf({ id: 'x' })).toThrow(/no segments, expected a row that was scored or cut/);
  expect(() => creditsOf({ segments: [{ kind: 'thought' }] })).toThrow(/no ends/);
});
