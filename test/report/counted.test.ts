// The numbers of a scored file: bounded sketches against exact ones, calibration and positions by hand, the choice of traces.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Positions, Reliability, Sketch, Top, TraceChoice } from '../../dist/report/gathered.js';
import { drawNumbers } from '../../dist/report/numbers-view.js';
import { RunCounts } from '../../dist/report/run-counts.js';
import { extremes, outstanding, turnsOf } from '../../dist/report/trace-record.js';
import { warningsOf } from '../../dist/report/warnings.js';
import type { OutputRow } from '../../dist/scored.js';
import { bareRow } from '../support/io-helpers.js';

describe('a sketch', () => {
  it('has quantiles within half a percent, exact ends, and bars that hold every number', () => {
    // a sort keeps the order of 0 and -0, which are one number here: + 0 leaves no -0
    const number = fc.double({ noNaN: true, min: -1e6, max: 1e6 }).map((x) => x + 0);
    const numbers = fc.array(number, { minLength: 1, maxLength: 300 });
    fc.assert(
      fc.property(numbers, (list) => {
        const sketch = new Sketch();
        for (const x of list) sketch.add(x);
        const found = sketch.distribution;
        const sorted = list.toSorted((a, b) => a - b);
        const exact = (share: number) => sorted[Math.max(0, Math.ceil(share * list.length) - 1)] as number;
        expect([found.n, found.min, found.max]).toEqual([list.length, sorted[0], sorted.at(-1)]);
        for (const [share, x] of [
          [0.05, found.p05],
          [0.5, found.median],
          [0.95, found.p95],
        ] as const)
          expect(Math.abs((x as number) - exact(share))).toBeLessThanOrEqual(
            0.0051 * Math.abs(exact(share)) + 1e-6,
          );
        expect(found.bars.reduce((sum, { n }) => sum + n, 0)).toBe(list.length);
      }),
    );
  });

  it('holds no more for a million numbers than for some thousands, and leaves out what is none', () => {
    const sketch = new Sketch();
    for (let i = 0; i < 20_000; i++) sketch.add(Math.sin(i) * 10 ** (i % 5));
    for (const x of [Number.NaN, Number.POSITIVE_INFINITY]) sketch.add(x);
    expect(sketch.distribution.n).toBe(20_000);
    const { bins } = sketch as unknown as { bins: Map<number, number> };
    expect(bins.size).toBeLessThan(15_000);
    expect(new Sketch().distribution).toMatchObject({ n: 0, mean: null, median: null, bars: [] });
  });
});

it('a reliability curve: predictions of .2 that win in a quarter are off by .05', () => {
  const reliability = new Reliability();
  for (const reward of [1, 0, 0, 0]) reliability.add(0.2, reward);
  reliability.add(1, 1);
  const { n, bins, error, brier } = reliability.curve;
  expect(n).toBe(5);
  expect(bins[2]).toMatchObject({ n: 4, reward: 0.25 });
  expect(bins[9]).toMatchObject({ n: 1, predicted: 1, reward: 1 });
  expect(error).toBeCloseTo((4 * 0.05) / 5, 12);
  expect(brier).toBeCloseTo((0.64 + 3 * 0.04) / 5, 12);
});

it('positions: uniform σ is 1 everywhere, σ on the last tenth is 10 there', () => {
  const positions = new Positions();
  positions.add(new Float32Array(40).fill(1 / 40), 'right');
  positions.add(
    Float32Array.from({ length: 40 }, (_, t) => (t < 36 ? 0 : 0.25)),
    'wrong',
  );
  positions.add(new Float32Array(40).fill(9), 'unknown');
  const { right, wrong } = positions.profile;
  for (const x of right ?? []) expect(x).toBeCloseTo(1, 5);
  expect(wrong?.map((x) => Math.round(x))).toEqual([...Array(18).fill(0), 10, 10]);
});

it('the largest few stay, the first of equal ones', () => {
  const top = new Top<string>(2);
  for (const [key, name] of [
    [1, 'a'],
    [3, 'b'],
    [3, 'c'],
    [2, 'd'],
    [Number.NaN, 'e'],
  ] as const)
    top.add(key, name);
  expect(top.things).toEqual(['b', 'c']);
});

/** Values .2 .9 .1 .1 by segments of 1, 2 and 1 tokens, and an answer of 4. */
function scoredRow(reward: number | null, more: Partial<OutputRow> = {}): OutputRow {
  const values = [0.9, 0.1, 0.1, null];
  const deltas = [0.7, -0.8, 0, 0];
  const ends = [1, 3, 4, 8];
  const sigma = Float32Array.of(0.5, 0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05);
  return {
    ...bareRow({}),
    ...{ reward, baseline: 0.5, sigma, valueStart: 0.2, sigmaEss: 2, sigmaMaxWeight: 4 },
    segments: ends.map((end, k) => {
      const start = ends[k - 1] ?? 0;
      return {
        ...{ start, end, charStart: start, charEnd: end, entropy: 0 },
        kind: k < 3 ? ('thought' as const) : ('answer' as const),
        value: values[k] as number | null,
        delta: deltas[k] as number,
        sigma: sigma.subarray(start, end).reduce((sum, s) => sum + s, 0),
      };
    }),
    ...more,
  };
}

describe('turns', () => {
  it('are the segments that moved the value, the largest first', () => {
    const turns = turnsOf(scoredRow(1), false);
    expect(turns.map(({ change }) => change)).toEqual([0.7, -0.8, 0]);
    expect(turns[0]?.weight).toBeCloseTo(4, 6);
    const { decisive, harmful } = outstanding(turns);
    expect([decisive.map(({ segment }) => segment), harmful.map(({ segment }) => segment)]).toEqual([
      [0],
      [1],
    ]);
    expect(extremes(scoredRow(1), false)).toEqual({ rise: 0.7, fall: 0.8 });
    const many = [0.1, -0.2, 0.5, -0.6, 0.3].map((change, segment) => ({
      segment,
      change,
      sigma: 0,
      weight: 0,
    }));
    const best = outstanding(many, 2);
    expect([best.decisive.map(({ segment }) => segment), best.harmful.map(({ segment }) => segment)]).toEqual(
      [
        [2, 4],
        [3, 1],
      ],
    );
  });

  it('of what has no sign of its own have that of R*', () => {
    expect(turnsOf(scoredRow(0), true).map(({ change }) => change)).toEqual([-0.7, -0.8, -0]);
  });
});

describe('the numbers of a run', () => {
  const values = Float32Array.of(0.2, 0.9, 0.1, 0.1);
  it('count rewards, statuses, uniform σ and disagreeing labels', () => {
    const counts = new RunCounts(true);
    counts.add(scoredRow(1), values, 0);
    counts.add(
      scoredRow(0, { status: ['uniform:no-gain'], sigma: new Float32Array(8).fill(1 / 8) }),
      values,
      1,
    );
    counts.add(scoredRow(1), Float32Array.of(0.05, 0.02), 7);
    counts.add(scoredRow(null, { status: ['reward:unknown'] }), values, 3);
    const { numbers } = counts;
    expect(numbers).toMatchObject({
      ...{ traces: 4, tokens: 32, right: 2, wrong: 1, unknown: 1 },
      status: { ok: 2, 'uniform:no-gain': 1, 'reward:unknown': 1 },
      ...{ credited: 4, uniform_by_fallback: 2, uniform_in_effect: 1 },
      ...{ returns: { right: 2, wrong: 1 }, uneven: { right: 2 } },
      label_noise: { count: 1, of: 3, traces: [{ row: 7, reward: 1 }] },
    });
    expect(numbers.label_noise?.traces[0]?.disagreement).toBeCloseTo(0.95, 6);
    expect(numbers.distributions.sigma_ess).toMatchObject({ n: 2, median: 2 });
    expect(numbers.distributions.value_range.n).toBe(4);
    expect(numbers.values?.right.end.n).toBe(2);
    expect(numbers.calibration.value_end?.n).toBe(3);
  });

  it('say of which traces the rows of σ are', () => {
    const { numbers } = new RunCounts(true);
    const account = { valueName: 'v̂', warnings: [], throughput: undefined };
    const lines = (uniform_by_fallback: number) =>
      drawNumbers('x', { ...account, numbers: { ...numbers, credited: 1234, uniform_by_fallback } }).join(
        '\n',
      );
    expect(lines(34)).toContain(
      'σ in the rows and by place below: of 1,200 traces, without 34 whose σ is uniform by fallback',
    );
    expect(lines(0)).not.toContain('below');
  });

  it('hold no value against a reward where its level says nothing of it', () => {
    const counts = new RunCounts(false);
    counts.add(scoredRow(1), Float32Array.of(-9, -3), 0);
    const { values: levels, label_noise, calibration } = counts.numbers;
    expect([levels, label_noise, calibration.value_end]).toEqual([null, null, null]);
  });
});

describe('the choice of traces', () => {
  const trace = (ordinal: number, reward: number, moves: readonly number[], status: string[] = []) => {
    const [segment] = scoredRow(1).segments;
    const segments = moves.map((delta) => ({ ...(segment as OutputRow['segments'][0]), delta }));
    return { ...bareRow({}, ordinal), reward, segments, status };
  };

  it('takes of each kind in turn, says why, and is the same in any order', () => {
    const all = Array.from({ length: 100 }, (_, n) =>
      trace(n, n % 2, [n === 10 ? 0.9 : 0.1, n === 11 ? -0.8 : 0]),
    );
    const chosen = (list: readonly OutputRow[]) => {
      const choice = new TraceChoice(8, false);
      for (const each of list) choice.add(each);
      return choice.chosen;
    };
    const found = chosen(all);
    expect(found.size).toBe(8);
    expect(found.get(11)).toContain('harmful');
    expect(found.get(10)).toContain('decisive');
    const kinds = [...found.values()].flat();
    expect(kinds.filter((kind) => kind === 'right').length).toBeGreaterThan(1);
    expect(kinds.filter((kind) => kind === 'wrong').length).toBeGreaterThan(1);
    const other = chosen(all.toReversed());
    expect(other.get(11)).toContain('harmful');
    expect([...other].filter(([, kinds]) => kinds.includes('right')).map(([n]) => n)).toEqual(
      expect.arrayContaining([...found].filter(([, kinds]) => kinds[0] === 'right').map(([n]) => n)),
    );
  });

  it('takes no movements of a trace whose σ is uniform by fallback', () => {
    const choice = new TraceChoice(4, false);
    choice.add(trace(0, 1, [1, -1], ['uniform:flat-values']));
    expect([...choice.chosen]).toEqual([[0, ['right']]]);
  });
});

describe('what stands against a run', () => {
  const codes = (rows: readonly Partial<OutputRow>[], values: readonly number[][], vocab?: number) => {
    const counts = new RunCounts(true);
    for (const [n, more] of rows.entries())
      counts.add(scoredRow(1, more), Float32Array.from(values[n] as number[]), n);
    return warningsOf(counts.numbers, vocab).map(({ code }) => code);
  };
  const logprobs = (x: number) => new Float32Array(8).fill(x);

  it('is nothing where values tell right from wrong', () => {
    const rows = [{ logprobs: logprobs(-0.1) }, { logprobs: logprobs(-0.2), reward: 0 }];
    expect(
      codes(
        rows,
        [
          [0.3, 0.9],
          [0.3, 0.1],
        ],
        257,
      ),
    ).toEqual([]);
  });

  it('is log p near guessing, σ that is uniform, values that do not tell, labels that fit nothing', () => {
    const sigma = new Float32Array(8).fill(1 / 8);
    const rows = [
      { logprobs: logprobs(-4), sigma },
      { logprobs: logprobs(-5), reward: 0, sigma },
    ];
    const all = ['unlikely_traces', 'mostly_uniform', 'values_do_not_tell', 'label_noise'];
    expect(
      codes(
        rows,
        [
          [0.01, 0.01],
          [0.95, 0.95],
        ],
        257,
      ),
    ).toEqual(all);
    // of a large vocabulary −4 is better than guessed by far
    expect(codes(rows.slice(0, 1), [[0.3, 0.9]], 150_000)).toEqual(['mostly_uniform']);
    expect(codes(rows.slice(0, 1), [[0.3, 0.9]])).toEqual(['unlikely_traces', 'mostly_uniform']);
  });

  it('is credit that only wrong traces have', () => {
    const right = { sigma: new Float32Array(8).fill(1 / 8) };
    const rows = Array.from({ length: 33 }, (_, n) => (n % 2 === 1 ? right : { reward: 0 }));
    const values = rows.map((_, n) => (n % 2 === 1 ? [0.9, 0.9] : [0.9, 0.1]));
    expect(codes(rows, values)).toEqual(['one_sided']);
    expect(codes(rows.slice(2), values.slice(2))).toEqual([]);
  });
});
