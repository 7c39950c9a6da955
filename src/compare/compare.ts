// Computes all figures of a comparison from a table of credits, a record each; among them where a credit agrees with the truth or with a
// label: signs of large changes, the worst segment, the first wrong one.
import { type Figure, fewGroups, type Interval, withIntervals } from './bootstrap.js';
import { CORRELATIONS, correlate, type Measured, pairTraces } from './correlations.js';
import { type CreditTable, isIn, type NamedCredit, type Outcome, pairedCredits } from './credit-table.js';

export interface CompareOptions {
  /** the credit that the others are held against; undefined: each against each */
  readonly truth: string | undefined;
  /** of the resamples */
  readonly seed: number;
}

/** A figure as it is told; what is not known is null. */
export interface ComparedFigure {
  readonly measure: string;
  /** the truth, or one of a pair; `first_wrong` for the label */
  readonly of: string;
  readonly credit: string;
  readonly traces: Outcome;
  readonly last: number;
  readonly value: number | null;
  readonly low: number | null;
  readonly high: number | null;
  readonly p: number | null;
  readonly chance: number | null;
  readonly n_traces: number;
  readonly n_segments: number | null;
  /** why the figure is not to be trusted; empty where nothing is known against it */
  readonly notes: readonly string[];
}

/** A change of the truth of at least so much has to have the right sign [ours]. */
const LARGE = 0.2;
const RESAMPLES = 1000;

export const LASTS = [0.25, 0.5, 0.75, 1] as const;
export const OUTCOMES = ['all', 'right', 'wrong'] as const;

/** What a figure is of, and what was found. */
export type Pending = readonly [
  place: Pick<ComparedFigure, 'measure' | 'of' | 'credit' | 'traces' | 'last'>,
  found: Measured,
];

/**
 * Compares the credits of a table; deterministic for a seed. The sums over a share of a pair's segments are let go before the next
 * ones are made.
 * @param onPair told of every pair of credits that is done
 */
export function compareCredits(
  table: CreditTable,
  opts: CompareOptions,
  onPair: (done: number, of: number) => void = () => {},
): ComparedFigure[] {
  const told = (pending: readonly Pending[]) => figuresOf(table, pending, opts.seed);
  const pairs = pairsOf(table, opts);
  return [
    ...pairs.flatMap(([a, b], n) => {
      const found = LASTS.flatMap((last) => told(correlations(table, a, b, last)));
      const own = OUTCOMES.flatMap((outcome) => found.filter(({ traces }) => traces === outcome));
      onPair(n + 1, pairs.length);
      return own;
    }),
    ...told(agreements(table, opts)),
  ];
}

/** Figures with their intervals. @param seed of the resamples */
export function figuresOf(
  { groups }: CreditTable,
  pending: readonly Pending[],
  seed: number,
): ComparedFigure[] {
  const figures = pending.map(([, { figure }]) => figure);
  const intervals = withIntervals(figures, groups, { resamples: RESAMPLES, seed });
  return pending.map(([place, found], n) => {
    const interval = intervals[n] as Interval;
    const value = known(interval.value);
    return {
      ...place,
      ...{ value, low: known(interval.low), high: known(interval.high) },
      ...{ p: known(found.p), chance: known(found.chance) },
      ...{ n_traces: found.traces, n_segments: found.segments },
      notes: value === null ? [...found.notes, 'none'] : found.notes,
    };
  });
}

function pairsOf(
  { credits }: CreditTable,
  { truth }: CompareOptions,
): (readonly [NamedCredit, NamedCredit])[] {
  const judge = credits.find(({ name }) => name === truth);
  if (judge !== undefined)
    return credits.filter((credit) => credit !== judge).map((credit) => [judge, credit]);
  return credits.flatMap((a, i) => credits.slice(i + 1).map((b) => [a, b] as const));
}

/** The correlations over a share of the segments, by outcome. */
function correlations(table: CreditTable, a: NamedCredit, b: NamedCredit, last: number): Pending[] {
  const paired = pairTraces(table, a, b, last);
  return OUTCOMES.flatMap((traces) => {
    const found = correlate(table, paired, traces);
    return CORRELATIONS.map((measure): Pending => {
      return [{ measure, of: a.name, credit: b.name, traces, last }, found[measure]];
    });
  });
}

/** Where the credits agree with the truth, and where they find the first wrong segment. */
export function agreements(table: CreditTable, { truth }: Pick<CompareOptions, 'truth'>): Pending[] {
  const judge = table.credits.find(({ name }) => name === truth);
  const all = { traces: 'all', last: 1 } as const;
  const judged = table.credits.flatMap((credit): Pending[] => {
    if (judge === undefined || credit === judge) return [];
    const pair = { of: judge.name, credit: credit.name };
    return [
      [{ measure: 'sign_of_large', ...pair, ...all }, signAgreement(table, judge, credit, LARGE)],
      [{ measure: 'worst_segment', ...pair, traces: 'wrong', last: 1 }, worstAgreement(table, judge, credit)],
    ];
  });
  if (!table.firstWrong.some((wrong) => wrong >= 0)) return judged;
  const labelled = table.credits.flatMap((credit): Pending[] => {
    const pair = { of: 'first_wrong', credit: credit.name };
    return [
      [{ measure: 'auc', ...pair, ...all }, firstWrongAuc(table, credit)],
      [{ measure: 'hit_at_1', ...pair, ...all }, firstWrongHit(table, credit)],
    ];
  });
  return [...judged, ...labelled];
}

function known(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}

/** One trace's part of a mean: Σ of what is averaged, its number, and Σ of what guessing gives. */
type ShareTerms = readonly [sum: number, count: number, guess: number];

/**
 * Share of the truth's changes of at least `large` that the credit has the sign of, over segments; a credit of 0 has none.
 */
export function signAgreement(
  table: CreditTable,
  truth: NamedCredit,
  credit: NamedCredit,
  large: number,
): Measured {
  const parts = Array.from(table.rewards, (_, i): ShareTerms => {
    const { x, y } = pairedCredits(table, truth, credit, i, 1);
    const changes = Array.from(x.keys()).filter((k) => Math.abs(x[k] as number) >= large);
    const hits = changes.filter((k) => Math.sign(x[k] as number) === Math.sign(y[k] as number));
    return [hits.length, changes.length, changes.length / 2];
  });
  return agreement(table, parts, true);
}

/** Share of wrong traces whose segment of lowest credit is the truth's; of several lowest ones, one is drawn. */
export function worstAgreement(table: CreditTable, truth: NamedCredit, credit: NamedCredit): Measured {
  const parts = Array.from(table.rewards, (_, i): ShareTerms => {
    if (!isIn('wrong', table.rewards[i] as number)) return [0, 0, 0];
    const { x, y } = pairedCredits(table, truth, credit, i, 1);
    if (x.length < 2 || x.every((value) => value === x[0])) return [0, 0, 0];
    const [a, b] = [lowest(x), lowest(y)];
    const shared = a.filter((k) => b.includes(k)).length;
    return [shared / (a.length * b.length), 1, 1 / x.length];
  });
  return agreement(table, parts, false);
}

/** Share of labelled traces whose segment of lowest credit is the first wrong one. */
export function firstWrongHit(table: CreditTable, credit: NamedCredit): Measured {
  return overLabelled(table, credit, (values, wrong) => {
    const low = lowest(values);
    return [low.includes(wrong) ? 1 / low.length : 0, 1, 1 / values.length];
  });
}

/**
 * ROC AUC inside each trace, its mean over traces: how often the first wrong segment has less credit than another one of its
 * trace, equal ones half.
 */
export function firstWrongAuc(table: CreditTable, credit: NamedCredit): Measured {
  return overLabelled(table, credit, (values, wrong) => {
    const at = values[wrong] as number;
    const others = values.filter((_, k) => k !== wrong);
    const below = others.reduce((sum, value) => sum + (at < value ? 1 : at === value ? 0.5 : 0), 0);
    return [below / others.length, 1, 0.5];
  });
}

/** Traces with a label and another segment, all of whose segments have a credit. */
function overLabelled(
  table: CreditTable,
  credit: NamedCredit,
  part: (values: Float64Array, wrong: number) => ShareTerms,
): Measured {
  const { offsets, firstWrong } = table;
  const parts = Array.from(firstWrong, (wrong, i): ShareTerms => {
    const values = credit.values.subarray(offsets[i], offsets[i + 1]);
    const isWhole = values.length > 1 && values.every(Number.isFinite);
    return wrong >= 0 && isWhole ? part(values, wrong) : [0, 0, 0];
  });
  return agreement(table, parts, false);
}

/** Places of the lowest value. */
function lowest(values: Float64Array): number[] {
  const least = values.reduce((low, value) => Math.min(low, value), Number.POSITIVE_INFINITY);
  return Array.from(values.keys()).filter((k) => values[k] === least);
}

/** @param bySegment whether a part counts segments, of which a trace has several */
function agreement({ groups }: CreditTable, parts: readonly ShareTerms[], bySegment: boolean): Measured {
  const figure: Figure = {
    terms: Float64Array.from(parts.flat()),
    m: 3,
    value: ([sum, count]) => (sum as number) / (count as number),
  };
  const total = (j: 0 | 1 | 2) => parts.reduce((sum, part) => sum + part[j], 0);
  const counts = ([, count]: ShareTerms) => count > 0;
  return {
    figure,
    p: Number.NaN,
    chance: total(2) / total(1),
    traces: parts.filter(counts).length,
    segments: bySegment && total(1) > 0 ? total(1) : null,
    notes: fewGroups(groups, (i) => counts(parts[i] as ShareTerms)),
  };
}
