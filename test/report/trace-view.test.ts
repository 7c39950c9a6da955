// The drawing of a trace: bars on a scale that is the same for all traces.
import { describe, expect, it } from 'vitest';
import { drawTrace } from '../../dist/report/trace-view.js';
import type { OutputRow } from '../../dist/scored.js';
import { bareRow } from '../support/io-helpers.js';

const row = (...shares: number[]): OutputRow => ({
  ...bareRow({}),
  segments: shares.map((sigma) => ({
    start: 0,
    end: 1,
    charStart: null,
    charEnd: null,
    kind: 'thought' as const,
    entropy: 0,
    value: 0.5,
    delta: 0,
    sigma,
  })),
});
const bars = (...shares: number[]): string[] =>
  drawTrace(row(...shares), { depth: 1, width: 100, valueName: 'v̂' })
    .split('\n')
    .slice(3)
    .map((line) => /(■*)│(■*)/.exec(line) as RegExpExecArray)
    .map(([, minus, plus]) => `${minus}│${plus}`);

describe('the text of a segment', () => {
  it('is shown without its line break, and a segment of nothing but line breaks as these', () => {
    const { trace, segments, ...rest } = row(0.5, 0.25, 0.25);
    const cut = [0, 2, 4, 5];
    const drawn = drawTrace(
      {
        ...rest,
        trace: { ...trace, completion: 'a\n\n\nb' },
        segments: segments.map((segment, k) => ({
          ...segment,
          charStart: cut[k] as number,
          charEnd: cut[k + 1] as number,
        })),
      },
      { depth: 1, width: 100, valueName: 'v̂' },
    );
    expect(drawn).toMatch(/ a\n.* ⏎⏎\n.* b$/);
  });
});

describe('the bars of v̂', () => {
  it('are tenths from 0 to 1, and none where a value is no share of one', () => {
    const of = (valueStart: number) =>
      drawTrace({ ...row(1), valueStart }, { depth: 1, width: 100, valueName: 'v̂' }).split('\n');
    expect(
      of(0.75)
        .slice(2)
        .map((line) => line.slice(0, 18).trimEnd()),
    ).toEqual(['  0.750 ███████▌', '  0.500 █████']);
    expect(
      of(1.5)
        .slice(2)
        .map((line) => line.slice(0, 18).trimEnd()),
    ).toEqual(['  1.500', '  0.500']);
  });
});

describe('the bars of σ', () => {
  it('are tenths of the credit, so that σ which is uniform looks like it', () => {
    expect(bars(...Array(10).fill(0.1))).toEqual(Array(10).fill('│■'));
    expect(bars(0.025, 0.925, 0.05)).toEqual(['│', '│■■■■■■■■■', '│■']);
  });

  it('go leftwards where negative, and end at the whole credit', () => {
    expect(bars(-0.55, 1.45, 0.1)).toEqual([`${'■'.repeat(6)}│`, `│${'■'.repeat(10)}`, '│■']);
  });
});
