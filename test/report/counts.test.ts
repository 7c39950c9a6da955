// The numbers of scored traces: bounded sketches against exact ones, calibration and positions by hand, the choice of traces, and what is said
// against a run.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { PolicyFacts } from '../../dist/model/onnx/folder.js';
import { RejectTally, RunCounts, Sketch } from '../../dist/report/counts.js';
import {
  distributionOf,
  FileCounts,
  Positions,
  Reliability,
  TraceChoice,
} from '../../dist/report/gathered.js';
import { endLines, endRecord } from '../../dist/report/run-stats.js';
import { outstanding, turnsOf } from '../../dist/report/trace-record.js';
import { type MadeBy, warningsOf } from '../../dist/report/warnings.js';
import { extremes } from '../../dist/scored/choose.js';
import type { OutputRow } from '../../dist/scored.js';
import { THOUGHT_TAGS } from '../../dist/segment/span.js';
import { bareRow } from '../support/io-helpers.js';

it('a sketch has quantiles within half a percent, exact ends, and bars that hold every number', () => {
  // a sort keeps the order of 0 and -0, which are one number here: + 0 leaves no -0
  const number = fc.double({ noNaN: true, min: -1e6, max: 1e6 }).map((x) => x + 0);
  const numbers = fc.array(number, { minLength: 1, maxLength: 300 });
  fc.assert(
    fc.property(numbers, (list) => {
      const sketch = new Sketch();
      for (const x of list) sketch.add(x);
      const found = distributionOf(sketch);
      const sorted = list.toSorted((a, b) => a - b);
      const exact = (share: number) => sorted[Math.max(0, Math.ceil(share * list.length) - 1)] as number;
      expect([found.n, found.min, found.max]).toEqual([list.length, sorted[0], sorted.at(-1)]);
      const quantiles = { 0.05: found.p05, 0.5: found.median, 0.95: found.p95 };
      for (const [share, x] of Object.entries(quantiles)) {
        const expected = exact(Number(share));
        expect(Math.abs((x as number) - expected)).toBeLessThanOrEqual(0.0051 * Math.abs(expected) + 1e-6);
      }
      expect(found.bars.reduce((sum, { n }) => sum + n, 0)).toBe(list.length);
    }),
  );
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
  positions.add(new Float32Array(40).fill(0.25, 36), 'wrong');
  positions.add(new Float32Array(40).fill(9), 'unknown');
  const { right, wrong } = positions.profile;
  for (const x of right ?? []) expect(x).toBeCloseTo(1, 5);
  expect(wrong?.map((x) => Math.round(x))).toEqual([...Array(18).fill(0), 10, 10]);
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
        ...{ delta: deltas[k] as number, noise: null },
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
    const places = (found: typeof decisive) => found.map(({ segment }) => segment);
    expect([places(decisive), places(harmful)]).toEqual([[0], [1]]);
    expect(extremes(scoredRow(1), false)).toEqual({ rise: 0.7, fall: 0.8 });
    const rest = { sigma: 0, weight: 0 };
    const many = [0.1, -0.2, 0.5, -0.6, 0.3].map((change, segment) => ({ segment, change, ...rest }));
    const best = outstanding(many, 2);
    expect(places(best.decisive)).toEqual([2, 4]);
    expect(places(best.harmful)).toEqual([3, 1]);
  });

  it('of what has no sign of its own have that of R*', () => {
    expect(turnsOf(scoredRow(0), true).map(({ change }) => change)).toEqual([-0.7, -0.8, -0]);
  });
});

/** What is counted of some rows. @param opts of {@link FileCounts} */
function counted(rows: readonly OutputRow[], hasLevel = true, vocab?: number) {
  const counts = new FileCounts(hasLevel, vocab);
  for (const row of rows) counts.add(row);
  return counts.numbers;
}
const times = (n: number, row: OutputRow) => Array.from({ length: n }, () => row);

describe('the numbers of a run', () => {
  it('count rewards, statuses, uniform σ and disagreeing labels', () => {
    const sigma = new Float32Array(8).fill(1 / 8);
    const low = scoredRow(1).segments.map((each) => ({ ...each, value: each.value && 0.02 }));
    const numbers = counted([
      scoredRow(1),
      scoredRow(0, { status: ['uniform:no-gain'], sigma }),
      {
        ...bareRow({}, 7),
        ...scoredRow(1, { valueStart: 0.05, segments: low, trace: bareRow({}, 7).trace }),
      },
      scoredRow(null, { status: ['reward:unknown'] }),
    ]);
    expect(numbers).toMatchObject({
      ...{ traces: 4, tokens: 32, right: 2, wrong: 1, unknown: 1 },
      status: { ok: 2, 'uniform:no-gain': 1, 'reward:unknown': 1 },
      ...{ credited: 4, uniform_by_fallback: 2, uniform_in_effect: 1 },
      ...{ returns: { right: 2, wrong: 1 }, uneven: { right: 2, wrong: 0 } },
      label_noise: { count: 1, of: 3, traces: [{ row: 7, reward: 1 }] },
    });
    expect(numbers.label_noise?.traces[0]?.disagreement).toBeCloseTo(0.95, 6);
    expect(numbers.distributions.sigma_ess).toMatchObject({ n: 2, median: 2 });
    expect(numbers.distributions.value_range.n).toBe(4);
    expect(numbers.values?.right.end.n).toBe(2);
    expect(numbers.calibration.value_end?.n).toBe(3);
  });

  it('compare no value with a reward where its level says nothing of it, and take −∞ throughout for flat', () => {
    const none = Number.NEGATIVE_INFINITY;
    const segments = scoredRow(1).segments.map((each) => ({ ...each, value: each.value && none }));
    const numbers = counted([scoredRow(1, { valueStart: none, segments })], false);
    const { values: levels, label_noise, calibration } = numbers;
    expect([levels, label_noise, calibration.value_end]).toEqual([null, null, null]);
    expect(numbers.distributions.value_range).toMatchObject({ n: 1, max: 0 });
  });
});

const TOY: PolicyFacts = { path: './policy', isEmbedded: false, vocab: 259, exit: '</think>\nanswer: ' };
describe('the end of a run', () => {
  it('names the policy, mean log p, range of values, and how much of σ is uniform', () => {
    const sigma = new Float32Array(8).fill(1 / 8);
    const logprobs = new Float32Array(8).fill(-0.25);
    const numbers = counted([
      scoredRow(1, { logprobs, sigmaGain: 7.6 }),
      scoredRow(1, { logprobs, sigma, status: ['uniform:no-gain', 'truncated'] }),
    ]);
    const none = new RejectTally();
    expect(endLines(numbers, none, TOY)).toEqual([
      'policy ./policy: mean log p −0.250 a token (guessing: −5.557), median range of v̂ 0.800',
      'σ uniform by fallback: 50.0 % (uniform:no-gain 1); in effect: 50.0 %',
      "σ makes a trace's gradient 7.600 times as large, in the median (docs/trainers.md)",
      'also in status: (truncated 1)',
    ]);
    expect(endLines(numbers, none, { ...TOY, isEmbedded: true }, 'log v̂')[0]).toMatch(
      /^policy bundled: .*median range of log v̂/,
    );
    expect(endRecord(numbers, TOY)).toMatchObject({
      ...{ policy: './policy', mean_logprob: -0.25, uniform_share: 0.5, uniform_in_effect_share: 0.5 },
      median_sigma_gain: 7.6,
    });
    // segment has no values, and without a policy no log p
    expect(endLines(counted([bareRow({})]), none)).toEqual([]);
  });

  it('tells rejects with the first reason of a code', () => {
    const counts = new RunCounts();
    for (const n of [3, 4])
      counts.rejects.add({
        ...{ kind: 'bad', file: 'in.jsonl', row: n, ordinal: n, byteOffset: null, raw: '', id: 'x' },
        rejection: { code: 'map', reason: `reason ${n}` },
      });
    expect(endLines(counts.numbers, counts.rejects)).toEqual([
      'rejected: 2 (map 2)',
      '  in.jsonl:3: reason 3',
    ]);
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
  const even = new Float32Array(8).fill(1 / 8);
  const logprobs = (x: number) => new Float32Array(8).fill(x);
  const warned = (rows: readonly OutputRow[], made: MadeBy = {}, hasLevel = false) =>
    warningsOf(counted(rows, hasLevel, made.policy?.vocab ?? made.vocab), made);
  const codes = (...args: Parameters<typeof warned>) => warned(...args).map(({ code }) => code);
  const flat = scoredRow(1, { sigma: even });

  it('is nothing where values tell right from wrong, and the policy may have sampled the traces', () => {
    const low = scoredRow(0).segments.map((each) => ({ ...each, value: each.value && 0.05 }));
    const rows = [
      scoredRow(1, { logprobs: logprobs(-0.1), valueStart: 0.2, closesThought: true }),
      scoredRow(0, { logprobs: logprobs(-0.2), segments: low }),
    ];
    expect(codes(rows, { policy: TOY }, true)).toEqual([]);
    expect(codes([])).toEqual([]);
  });

  it('is σ that is uniform from half of the traces on, with the commonest reason and what mends it', () => {
    const one = scoredRow(1, { sigma: even, status: ['uniform:no-baseline'] });
    const other = scoredRow(1, { sigma: even, status: ['uniform:small-return'] });
    const told = (...rows: OutputRow[]) => warned(rows).map(({ message }) => message);
    expect(told(scoredRow(1), scoredRow(1), one)).toEqual([]);
    expect(told(...times(3, scoredRow(1)), one, one, other)).toEqual([
      'σ is uniform in 3 of 6 traces, which is no credit at all; 2 have uniform:no-baseline: --map group=<column> names the groups; --baseline takes a number, too (docs/output.md#statuses)',
    ]);
    expect(told(scoredRow(1), flat, flat, one)).toEqual([
      'σ is uniform in 3 of 4 traces, which is no credit at all; 1 by fallback: a large --tau, or values that hardly move, leave every token about the same',
    ]);
    // nothing where the rule asks for it
    for (const rule of ['uniform', ['uniform', 'share']]) expect(codes([flat], { rule })).toEqual([]);
    expect(codes([flat], { rule: ['share', 'uniform'] })).toEqual(['mostly_uniform']);
  });

  it('is credit that one side has and the other lacks, by the baseline, of enough traces whose return is not 0', () => {
    const uniform = { sigma: even, status: ['uniform:flat-values'] };
    const [right, wrong] = [scoredRow(1), scoredRow(0)];
    const [flatRight, flatWrong] = [scoredRow(1, uniform), scoredRow(0, uniform)];
    const told = (...rows: OutputRow[]) => warned(rows).filter(({ code }) => code === 'one_sided');
    const [first] = told(...times(16, flatRight), ...times(4, flatWrong), ...times(12, wrong));
    expect(first?.message).toContain('in 100 % of the right traces and 25 % of the wrong ones');
    const [other] = told(...times(16, right), ...times(8, flatWrong), ...times(8, wrong));
    expect(other?.message).toContain('in 50 % of the wrong traces and 0 % of the right ones');
    expect(told(...times(16, right), ...times(7, flatWrong), ...times(9, wrong))).toEqual([]);
    expect(told(...times(15, flatRight), ...times(16, wrong))).toEqual([]);
    // two problems: above ½ and below their mean; below ½ and above it
    const above = scoredRow(0.3, { baseline: 0.2, ...uniform });
    const hard = scoredRow(0.7, { baseline: 0.8, ...uniform });
    const below = scoredRow(0.1, { baseline: 0.2 });
    expect(told(...times(16, above), ...times(16, below))).toHaveLength(1);
    expect(told(...times(16, above), ...times(17, hard), ...times(16, below))).toEqual([]);
    const both = [...times(16, right), ...times(16, wrong)];
    // of a group that is all right the values may be flat, too: that code stands first
    const codesOf = ['uniform:one-sided-references', 'uniform:small-return'];
    for (const more of [{ baseline: 1 }, ...codesOf.map((code) => ({ status: [code] }))])
      expect(told(...times(90, scoredRow(1, { ...uniform, ...more })), ...both)).toEqual([]);
  });

  it('is another policy: mean log p nearer to guessing than to 0, from a tenth of the traces on', () => {
    const guessed = scoredRow(1, { logprobs: logprobs(-6) });
    const own = scoredRow(1, { logprobs: logprobs(-0.1) });
    const [warning] = warned([...times(8, guessed), ...times(2, own)], { policy: TOY });
    expect(warning?.message).toMatch(
      /^8 of 10 traces are little better than guessed by \.\/policy \(mean log p −4\.820 a token, guessing gives −5\.557\): did this policy write these traces\?/,
    );
    expect(codes([...times(9, own), guessed], { policy: TOY })).toEqual(['unlikely_traces']);
    expect(codes([...times(10, own), guessed], { policy: TOY })).toEqual([]);
    // half of −ln V; where nothing tells V, −3
    const at = (x: number, made: MadeBy) => codes([scoredRow(1, { logprobs: logprobs(x) })], made);
    expect([at(-2.8, { policy: TOY }), at(-2.7, { policy: TOY })]).toEqual([['unlikely_traces'], []]);
    expect([at(-4, { vocab: 150_000 }), at(-2.9, {}), at(-3, {})]).toEqual([[], [], ['unlikely_traces']]);
    const [bundled] = warned([guessed], { policy: { ...TOY, isEmbedded: true } });
    expect(bundled?.message).toMatch(/^1 of 1 trace is foreign to the bundled policy.*policy build/);
    const [hostile] = warned([guessed], { policy: { ...TOY, path: 'a\u001b[31m' } });
    expect(hostile?.message).toContain('a\\u{1b}[31m');
  });

  it('is a tag that closes thoughts and that the exit template lacks', () => {
    const read = { logprobs: logprobs(-0.1) };
    const closed = times(4, scoredRow(1, { ...read, closesThought: true }));
    const asks = { policy: { ...TOY, exit: '\n\nThe answer is ' } };
    expect([codes(closed, asks), codes(times(4, scoredRow(1, read)), asks)]).toEqual([['exit_template'], []]);
    // other models' pairs, and the user's, each once
    const ends = (status: string, thoughtTags?: readonly [string, string]) =>
      warned(times(4, scoredRow(1, { ...read, status: [status] })), { policy: TOY, thoughtTags }).map(
        ({ message }) => / ends with (\S+), /.exec(message)?.[1],
      );
    expect(ends('thought:reasoning')).toEqual(['</reasoning>']);
    expect(ends('thought:reasoning', THOUGHT_TAGS[1])).toEqual(['</reasoning>']);
    expect(ends('thought:named', ['[[', ']]'])).toEqual([']]']);
    expect(ends('thought:named', ['[[', TOY.exit.trim()])).toEqual([]);
  });

  it('is values that do not tell, and labels that fit nothing', () => {
    const at = (reward: number, value: number) =>
      scoredRow(reward, {
        valueStart: value,
        segments: scoredRow(1).segments.map((each) => ({ ...each, value: each.value && value })),
      });
    expect(codes([at(1, 0.01), at(0, 0.95)], {}, true)).toEqual(['values_do_not_tell', 'label_noise']);
  });
});
