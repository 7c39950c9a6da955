// What a run says of itself: sums that do not depend on how it was cut, medians, and warnings where it means nothing.
import { describe, expect, it } from 'vitest';
import { type Figures, median, Tally } from '../../dist/report/figures.js';
import {
  figureLines,
  figureRecord,
  figureWarnings,
  type PolicyFacts,
} from '../../dist/report/run-figures.js';
import { Summary } from '../../dist/report/summary.js';
import type { OutputRow, SegmentRow } from '../../dist/scored.js';
import { THOUGHT_TAGS } from '../../dist/segment/span.js';
import { bareRow } from '../support/io-helpers.js';

const f32 = (...values: number[]) => Float32Array.from(values);
const segment = (value: number | null): SegmentRow => ({
  start: 0,
  end: 1,
  charStart: 0,
  charEnd: 1,
  kind: value === null ? 'answer' : 'thought',
  entropy: 0,
  value,
  delta: 0,
  sigma: 0,
});
/** A scored trace of four tokens. */
const scored = (more: Partial<OutputRow> = {}): OutputRow => ({
  ...bareRow({}),
  logprobs: f32(-0.25, -0.5, -0.25, 0),
  sigma: f32(0.1, 0.1, 0.7, 0.1),
  sigmaGain: 7.6,
  valueStart: 0.25,
  segments: [segment(0.5), segment(0.125), segment(null)],
  ...more,
});
const tallied = (...rows: OutputRow[]): Figures => {
  const tally = new Tally();
  for (const row of rows) tally.add(row);
  return tally.figures;
};
const times = (n: number, row: OutputRow) => Array.from({ length: n }, () => row);

const TOY: PolicyFacts = { path: './policy', isEmbedded: false, vocab: 259, exit: '</think>\nanswer: ' };

describe('a run that is uniform by fallback', () => {
  const even = f32(0.25, 0.25, 0.25, 0.25);
  const one = scored({ sigma: even, status: ['uniform:no-baseline'] });
  const warned = (...rows: OutputRow[]) =>
    figureWarnings(tallied(...rows), TOY).map(({ message }) => message);

  it('says so of rules that leave nothing of the differences, too', () => {
    const flat = scored({ sigma: even });
    expect(warned(...times(2, scored()), flat)).toEqual([]);
    expect(warned(scored(), scored(), flat, one)).toEqual([
      expect.stringMatching(/2 of 4 traces.*1 have uniform:no-baseline/),
    ]);
    expect(warned(scored(), flat, flat, one)).toEqual([
      'σ is uniform in 3 of 4 traces, which is no credit at all; 1 by fallback: a large --tau, or values that hardly move, leave every token about the same',
    ]);
  });

  it('says so from half of the traces on, with the commonest reason and what mends it', () => {
    expect(warned(scored(), scored(), one)).toEqual([]);
    const other = scored({ sigma: even, status: ['uniform:small-return'] });
    expect(warned(...times(3, scored()), one, one, other)).toEqual([
      'σ is uniform in 3 of 6 traces, which is no credit at all; 2 have uniform:no-baseline: --map group=<column> names the groups; --baseline takes a number, too (docs/output.md#statuses)',
    ]);
  });

  it('says nothing where the rule asks for it', () => {
    const flat = tallied(...times(4, scored({ sigma: even })));
    for (const rule of ['uniform', ['uniform', 'share']])
      expect(figureWarnings(flat, TOY, { rule }), String(rule)).toEqual([]);
    for (const rule of ['share', ['share', 'uniform']])
      expect(figureWarnings(flat, TOY, { rule }), String(rule)).toHaveLength(1);
  });
});

describe('credit that one side has and the other lacks', () => {
  const even = f32(0.25, 0.25, 0.25, 0.25);
  const warned = (...rows: OutputRow[]) =>
    figureWarnings(tallied(...rows)).filter(({ code }) => code === 'one_sided');
  const right = (more: Partial<OutputRow> = {}) => scored({ reward: 1, ...more });
  const wrong = (more: Partial<OutputRow> = {}) => scored({ reward: 0, ...more });
  const flat = { sigma: even, status: ['uniform:flat-values'] };

  it('is told of from a difference of half on, whichever side it is', () => {
    const [first] = warned(...times(16, right(flat)), ...times(4, wrong(flat)), ...times(12, wrong()));
    expect(first?.message).toContain('in 100 % of the right traces and 25 % of the wrong ones');
    const [other] = warned(...times(16, right()), ...times(8, wrong(flat)), ...times(8, wrong()));
    expect(other?.message).toContain('in 50 % of the wrong traces and 0 % of the right ones');
    expect(warned(...times(16, right()), ...times(7, wrong(flat)), ...times(9, wrong()))).toEqual([]);
  });

  it('goes by the baseline, whatever the scale of graded rewards', () => {
    const above = scored({ reward: 0.3, baseline: 0.2, ...flat });
    const below = scored({ reward: 0.1, baseline: 0.2 });
    expect(warned(...times(16, above), ...times(16, below))).toHaveLength(1);
    // two problems: above ½ and below their mean; below ½ and above it
    const hard = scored({ reward: 0.7, baseline: 0.8, ...flat });
    expect(warned(...times(16, above), ...times(17, hard), ...times(16, below))).toEqual([]);
  });

  it('is not told of few traces, nor of those whose return is about 0', () => {
    expect(warned(...times(15, right(flat)), ...times(16, wrong()))).toEqual([]);
    expect(warned(...times(16, right(flat)), ...times(15, wrong()))).toEqual([]);
    // of a group that is all right the values may be flat, too: that code stands first
    const easy = { ...flat, baseline: 1 };
    expect(warned(...times(90, right(easy)), ...times(16, right()), ...times(16, wrong()))).toEqual([]);
    expect(warned(...times(16, right({ ...flat, baseline: 0.9 })), ...times(16, wrong()))).toHaveLength(1);
    const referenceSet = { sigma: even, status: ['uniform:one-sided-references'] };
    expect(warned(...times(90, right(referenceSet)), ...times(16, right()), ...times(16, wrong()))).toEqual(
      [],
    );
    const solved = { sigma: even, status: ['uniform:small-return'] };
    expect(warned(...times(90, right(solved)), ...times(16, right()), ...times(16, wrong()))).toEqual([]);
    expect(
      warned(...times(90, right(solved)), ...times(16, right(flat)), ...times(16, wrong())),
    ).toHaveLength(1);
  });
});

describe('figures', () => {
  it('are sums and bins of what the rows hold', () => {
    const even = f32(0.25, 0.25, 0.25, 0.25);
    const found = tallied(
      scored(),
      scored({ sigma: f32(0.2502, 0.2498, 0.25, 0.25), closesThought: true }),
      scored({ sigma: even, status: ['uniform:small-return', 'reward:compared'] }),
      scored({ sigma: even, status: ['reward:unknown'], logprobs: f32(-2, -2, -2, -2) }),
    );
    expect(found).toEqual({
      scored_tokens: 16,
      logprob_sum: -11,
      mean_logprobs: { '-0.25': 3, '-2': 1 },
      value_ranges: { '0.38': 4 },
      gains: { '7.6': 1 },
      credited: 4,
      fallbacks: 2,
      uniform: 3,
      closed_thoughts: 1,
      sampled_exits: 0,
      lost_shares: 0,
      rewards: {},
      groups: {},
      returns: {},
      uneven: {},
      status: { 'uniform:small-return': 1, 'reward:compared': 1, 'reward:unknown': 1 },
      rejects: {},
    });
  });

  it('hold no more bins than two digits make, whatever the numbers', () => {
    const tally = new Tally();
    for (let n = 1; n <= 50_000; n++)
      tally.add(scored({ valueStart: n ** 3 * 1e-14, segments: [segment(0)] }));
    // 90 a power of ten, from 1e-6 to 1.25
    expect(Object.keys(tally.figures.value_ranges).length).toBeLessThan(90 * 7);
  });

  it('take values that are all impossible for values that do not move', () => {
    const none = Number.NEGATIVE_INFINITY;
    const found = tallied(scored({ valueStart: none, segments: [segment(none)] }));
    expect(found.value_ranges).toEqual({ '0': 1 });
  });

  it('give a median to two digits, of negative numbers too', () => {
    expect(median({})).toBeUndefined();
    expect(median({ '0.5': 1, '0.1': 1, '0.9': 1 })).toBe(0.5);
    expect(median({ '-0.05': 3, '-10': 4 })).toBe(-10);
    expect(median({ '1e-5': 2, '0.3': 1 })).toBe(1e-5);
  });
});

describe('the end of a run', () => {
  it('names the policy, mean log p, range of values, and how much of σ is uniform', () => {
    const even = f32(0.25, 0.25, 0.25, 0.25);
    const figures = tallied(scored(), scored({ sigma: even, status: ['uniform:no-gain', 'truncated'] }));
    expect(figureLines(figures, TOY)).toEqual([
      'policy ./policy: mean log p −0.25 a token (guessing: −5.56), median range of v̂ 0.38',
      'σ uniform by fallback: 50.0 % (uniform:no-gain 1); in effect: 50.0 %',
      "σ makes a trace's gradient 7.60 times as large, in the median (docs/trainers.md)",
      'also in status: (truncated 1)',
    ]);
    expect(figureLines(figures, { ...TOY, isEmbedded: true }, 'log v̂')[0]).toMatch(
      /^policy bundled: .*median range of log v̂/,
    );
    expect(figureRecord(figures, TOY)).toMatchObject({
      policy: './policy',
      mean_logprob: -0.25,
      median_value_range: 0.38,
      uniform_share: 0.5,
      uniform_in_effect_share: 0.5,
      median_sigma_gain: 7.6,
    });
    // segment has no values, and without a policy no log p
    expect(figureLines(tallied(bareRow({})), undefined)).toEqual([]);
  });
});

describe('warnings', () => {
  const guessed = scored({ logprobs: f32(-5, -6, -7) });
  const codes = (rows: readonly OutputRow[], policy: PolicyFacts = TOY) =>
    figureWarnings(tallied(...rows), policy).map(({ code }) => code);

  it('none for traces that the policy may have sampled', () => {
    expect(codes([...times(20, scored({ closesThought: true })), scored()])).toEqual([]);
    expect(codes([])).toEqual([]);
    expect(figureWarnings(tallied(guessed), undefined)).toEqual([]);
  });

  it('another policy wrote them: mean log p nearer to guessing than to 0, from a tenth of the traces on', () => {
    const [warning] = figureWarnings(tallied(...times(8, guessed), ...times(2, scored())), TOY);
    expect(warning?.code).toBe('unlikely_traces');
    expect(warning?.message).toMatch(
      /^8 of 10 traces are little better than guessed by \.\/policy \(mean log p −4\.56 a token, guessing gives −5\.56\): did this policy write these traces\?/,
    );
    expect(codes([...times(9, scored()), guessed])).toEqual(['unlikely_traces']);
    expect(codes([...times(10, scored()), guessed])).toEqual([]);
    // half of −ln V
    expect(codes([scored({ logprobs: f32(-2.8) })])).toEqual(['unlikely_traces']);
    expect(codes([scored({ logprobs: f32(-2.7) })])).toEqual([]);
    expect(codes([scored({ logprobs: f32(-2.8) })], { ...TOY, vocab: 32_000 })).toEqual([]);
  });

  it('the bundled policy meets foreign traces', () => {
    const [warning, ...others] = figureWarnings(tallied(guessed), { ...TOY, isEmbedded: true });
    expect(others).toEqual([]);
    expect(warning?.code).toBe('unlikely_traces');
    expect(warning?.message).toMatch(/^1 of 1 trace is foreign to the bundled policy.*policy build/);
  });

  it('thoughts are closed by a tag that the exit template lacks', () => {
    const closed = times(4, scored({ closesThought: true }));
    expect(codes(closed, { ...TOY, exit: '\n\nThe answer is ' })).toEqual(['exit_template']);
    expect(codes(times(4, scored()), { ...TOY, exit: '\n\nThe answer is ' })).toEqual([]);
    // other models' pairs, and the user's, each once
    const ends = (status: string, thoughtTags?: readonly [string, string]) =>
      figureWarnings(tallied(...times(4, scored({ status: [status] }))), TOY, { thoughtTags }).map(
        ({ message }) => / ends with (\S+), /.exec(message)?.[1],
      );
    expect(ends('thought:reasoning')).toEqual(['</reasoning>']);
    expect(ends('thought:reasoning', THOUGHT_TAGS[1])).toEqual(['</reasoning>']);
    expect(ends('thought:named', ['[[', ']]'])).toEqual([']]']);
    expect(ends('thought:named', ['[[', TOY.exit.trim()])).toEqual([]);
  });

  it('a folder whose name drives terminals is shown', () => {
    const [warning] = figureWarnings(tallied(guessed), { ...TOY, path: 'a\u001b[31m' });
    expect(warning?.message).toContain('a\\u{1b}[31m');
  });
});

it('rejects are told with the first reason of a code', () => {
  const summary = new Summary();
  for (const n of [3, 4])
    summary.reject({
      ...{ kind: 'bad', file: 'in.jsonl', row: n, ordinal: n, byteOffset: null, raw: '', id: 'x' },
      rejection: { code: 'map', reason: `reason ${n}` },
    });
  expect(summary.describeFigures(TOY, 'v̂')).toEqual(['rejected: 2 (map 2)', '  in.jsonl:3: reason 3']);
});
