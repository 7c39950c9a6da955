// A trace in the terminal: shades on one scale, wide characters, hostile texts, long traces, colors as the terminal has them.
import { afterEach, describe, expect, it, vi } from 'vitest';
import { clipped, columnsOf, spark, thinned, wrapped } from '../../dist/report/lines.js';
import { hasColors, shaded } from '../../dist/report/terminal.js';
import { type DrawnTrace, shadeOf, traceRecord } from '../../dist/report/trace-record.js';
import { drawShown, type ShownTrace } from '../../dist/report/trace-view.js';
import { bareRow } from '../support/io-helpers.js';

// biome-ignore lint/suspicious/noControlCharactersInRegex: colors are control characters
const COLORS = /\u001b\[[\d;]*m/g;
const plain = (text: string) => text.replace(COLORS, '');

it('the shade has no step at uniform weight, one for each doubling to the fifth, and turns where σ or R* is below 0', () => {
  const shades = [0, 0.5, 1, 2, 4, 8, 16, 1000, -4].map((weight) => shadeOf(weight, false));
  expect(shades).toEqual([0, 0, 0, 1, 2, 3, 4, 5, -2]);
  expect([shadeOf(4, true), shadeOf(-4, true), shadeOf(null, false)]).toEqual([-2, 2, 0]);
});

describe('colors', () => {
  afterEach(() => {
    vi.unstubAllEnvs();
  });

  it('are there where the terminal has 256, and not in a pipe, with NO_COLOR or on a dumb terminal', () => {
    const of = (depth: number) => hasColors({ isTTY: true, getColorDepth: () => depth });
    vi.stubEnv('TERM', 'xterm');
    vi.stubEnv('NO_COLOR', '');
    expect([1, 4, 8, 24].map(of)).toEqual([false, false, true, true]);
    expect(hasColors({ getColorDepth: () => 24 })).toBe(false);
    vi.stubEnv('TERM', 'dumb');
    expect(of(24)).toBe(false);
    vi.stubEnv('TERM', 'xterm');
    vi.stubEnv('NO_COLOR', '1');
    expect(of(24)).toBe(false);
    expect(shaded('x', -3, true)).toBe('\u001b[48;5;208;38;5;16mx\u001b[0m');
    expect(shaded('x', -3, false)).toBe('x');
  });
});

describe('lines', () => {
  it('break by columns: wide characters take two, combining ones none, and none is cut in two', () => {
    expect(columnsOf('漢字')).toBe(4);
    expect(wrapped('漢字漢字', 5)).toEqual(['漢字', '漢字']);
    expect(wrapped('e\u0301e\u0301e\u0301', 2)).toEqual(['e\u0301e\u0301', 'e\u0301']);
    expect(wrapped('👩‍👩‍👧a', 2)).toEqual(['👩‍👩‍👧', 'a']);
    expect(wrapped('abcdef', 4, 2)).toEqual(['ab', 'cdef']);
    expect(wrapped('a\n\nb', 9)).toEqual(['a', '', 'b']);
    expect(wrapped('then a word', 9)).toEqual(['then a ', 'word']);
    expect(wrapped('now and then', 7)).toEqual(['now and', ' then']);
    for (const width of [7, 60]) {
      const text = '混ぜたtext 👍🏽 naïve '.repeat(30);
      const lines = wrapped(text, width);
      expect(lines.join('')).toBe(text);
      expect(Math.max(...lines.map(columnsOf))).toBeLessThanOrEqual(width);
    }
  });

  it('are clipped by columns', () => {
    expect(clipped('漢字漢字', 5)).toBe('漢字…');
    expect(clipped('abc', 3)).toBe('abc');
    expect(clipped('a'.repeat(100_000), 4)).toBe('aaa…');
  });
});

it('a sparkline has its scale, so that a flat trace looks flat', () => {
  expect(spark([0, 0.5, 1], 0, 1)).toBe('▁▅█');
  expect(spark([0.5, 0.501, 0.5], 0, 1)).toBe('▅▅▅');
  expect(thinned([1, 2, 3, 4, 5], 3)).toEqual([1, 3, 5]);
});

/** K segments of `length` characters, a token each. */
function row(K: number, length: number, character = 'x') {
  const T = K * length;
  const bare = bareRow({});
  return {
    ...bare,
    trace: { ...bare.trace, id: 'a\u001b[2J', group: 'g\u202e', completion: character.repeat(T) },
    ...{ reward: 0, baseline: 0.5, valueStart: 0.5 },
    segments: Array.from({ length: K }, (_, k) => {
      const [start, end] = [k * length, (k + 1) * length];
      const isLast = k === K - 1;
      return {
        ...{ start, end, charStart: start, charEnd: end, kind: 'thought' as const, entropy: 1 },
        ...{ value: isLast ? 0 : 0.5, delta: isLast ? -0.5 : 0, noise: null, sigma: isLast ? 1 : 0 },
      };
    }),
  };
}

function shown(scored: DrawnTrace, more: Partial<ShownTrace> = {}): ShownTrace {
  return {
    ...traceRecord(scored, { prompt: 'start?\u001b[31m', references: ['7'] }),
    ...{ place: '0 of x', why: undefined, warnings: [], credits: [], valueName: 'v̂' },
    steps: undefined,
    ...more,
  };
}

describe('the table of a trace', () => {
  /** Lines of segments of a character each, with these shares of σ. */
  const drawn = (shares: readonly number[], more: Partial<DrawnTrace> = {}): string[] => {
    const bare = row(shares.length, 1);
    const segments = bare.segments.map((each, k) => ({ ...each, value: 0.5, sigma: shares[k] as number }));
    const lines = drawShown(shown({ ...bare, segments, ...more }), { isColored: false, width: 100 });
    const titles = lines.findIndex((line) => line.endsWith(' segment'));
    return lines.slice(titles + 1, lines.indexOf('', titles));
  };

  it('has texts without their line break, and of a segment of nothing but line breaks these', () => {
    const { trace, segments } = row(3, 1);
    const cut = [0, 2, 4, 5];
    const lines = drawn([0.5, 0.25, 0.25], {
      trace: { ...trace, completion: 'a\n\n\nb' },
      segments: segments.map((segment, k) => ({
        ...segment,
        charStart: cut[k] as number,
        charEnd: cut[k + 1] as number,
      })),
    });
    expect(lines.slice(1).map((line) => line.split(' ').at(-1))).toEqual(['a', '⏎⏎', 'b']);
  });

  it.each([
    [0.75, ['  0.750 ███████▌', '  0.500 █████']],
    [1.5, ['  1.500', '  0.500']],
  ])('has bars of v̂ in tenths from 0 to 1, none for what is no share: %d', (valueStart, bars) => {
    expect(drawn([1], { valueStart }).map((line) => line.slice(0, 18).trimEnd())).toEqual(bars);
  });

  it.each([
    // σ that is uniform looks like it
    [Array(10).fill(0.1), Array(10).fill('│■')],
    [
      [0.025, 0.925, 0.05],
      ['│', '│■■■■■■■■■', '│■'],
    ],
    // leftwards where it is negative, and no further than the whole credit
    [
      [-0.55, 1.45, 0.1],
      [`${'■'.repeat(6)}│`, `│${'■'.repeat(10)}`, '│■'],
    ],
  ])('has bars of σ in tenths of the credit: %j', (shares: number[], bars: string[]) => {
    expect(
      drawn(shares)
        .slice(1)
        .map((line) => /■*│■*/.exec(line)?.[0]),
    ).toEqual(bars);
  });
});

describe('a trace', () => {
  it('that was only cut has no table of values, and one with further credits says so', () => {
    const scored = row(2, 30);
    const cut = {
      ...scored,
      valueStart: null,
      segments: scored.segments.map((each) => ({ ...each, value: null, delta: null, sigma: null })),
    };
    const opts = { isColored: false, width: 100, all: false } as const;
    const lines = drawShown(shown(cut), opts).join('\n');
    expect(lines).not.toContain('│');
    expect(lines).toMatch(/text +\[1\] x{30}\n +\[2\] x{30}/);
    expect(drawShown(shown(scored), opts).join('\n')).not.toContain('σ by');
    const two = drawShown(shown(scored, { credits: ['share', 'rudder'] }), opts);
    expect(two.find((line) => line.startsWith('σ by'))).toContain('share; the file also has rudder');
  });

  it('leaves its segments room at 60 columns, and says in their lines how to see all', () => {
    const long = shown(row(4, 400), { prompt: 'p'.repeat(2000), warnings: ['foreign '.repeat(20)] });
    const lines = drawShown(long, { isColored: false, width: 60, all: false });
    const [title] = lines.filter((line) => line.endsWith('segment'));
    expect(title?.indexOf('segment')).toBeLessThan(40);
    expect(lines.filter((line) => /│[■ ]+ x{20,}…$/.test(line)).length).toBe(4);
    expect(lines.filter((line) => line.includes('(--all')).length).toBe(5);
    expect(lines.filter((line) => columnsOf(line) > 60)).toEqual([]);
    expect(lines.find((line) => line.startsWith('! warning'))).toContain('foreign');
  });

  it.each([60, 200])('fits into %i columns, and has nothing in it that moves the cursor', (width) => {
    for (const character of ['x', '漢'])
      for (const isColored of [false, true]) {
        const lines = drawShown(shown(row(8, 90, character), { why: 'w'.repeat(99) }), {
          isColored,
          width,
          all: true,
        });
        expect(lines.filter((line) => columnsOf(plain(line)) > width)).toEqual([]);
        expect(plain(lines.join(''))).not.toMatch(/[\p{Cc}\u202e]/u);
      }
  });

  it('says which segment lowered its value', () => {
    const text = drawShown(shown(row(3, 5)), { isColored: false, width: 100, all: false }).join('\n');
    expect(text).toMatch(/lowered it +segment 3 +−0\.500 +σ \+1\.000 +σ·T +3\.000 +xxxxx/);
    expect(text).not.toContain('raised it');
    expect(text).toMatch(/v̂ +▅▅▅▁\n/);
  });

  it('that is flat says so', () => {
    const flat = row(2, 4);
    const segments = flat.segments.map((segment) => ({ ...segment, delta: 0, value: 0.5, sigma: 0.5 }));
    const text = drawShown(shown({ ...flat, segments }), { isColored: true, width: 80, all: false }).join(
      '\n',
    );
    expect(text).toContain('none: v̂ stays where it is, the trace is flat');
    // no shade but that of the legend
    const lines = text.split('\n').filter((line) => /\[\d, /.test(line));
    expect(lines.join()).not.toContain('48;5');
  });
});
