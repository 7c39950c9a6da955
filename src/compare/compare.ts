// Computes all figures of a comparison from a table of credits, a record each.
import { type Agreement, firstWrongAuc, firstWrongHit, signAgreement, worstAgreement } from './agreement.js';
import { type Interval, withIntervals } from './bootstrap.js';
import { CORRELATIONS, correlate, type Measured } from './correlations.js';
import type { Credit, CreditTable, Slice } from './credit-table.js';

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
  readonly traces: Slice['outcome'];
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

type Pending = Omit<ComparedFigure, 'value' | 'low' | 'high' | 'notes'> & Pick<Measured, 'figure' | 'notes'>;

/**
 * Compares the credits of a table; deterministic for a seed. A pair's sums are let go before the next one's are made.
 * @param onPair told of every pair of credits that is done
 */
export function compareCredits(
  table: CreditTable,
  opts: CompareOptions,
  onPair: (done: number, of: number) => void = () => {},
): ComparedFigure[] {
  const told = (pending: readonly Pending[]): ComparedFigure[] => {
    const figures = pending.map(({ figure }) => figure);
    const intervals = withIntervals(figures, table.groups, { resamples: RESAMPLES, seed: opts.seed });
    return pending.map((each, n) => toldOf(each, intervals[n] as Interval));
  };
  const pairs = pairsOf(table, opts);
  return [
    ...pairs.flatMap(([a, b], n) => {
      const own = told(correlations(table, a, b));
      onPair(n + 1, pairs.length);
      return own;
    }),
    ...told(agreements(table, opts)),
  ];
}

function toldOf({ figure: _, notes, ...rest }: Pending, interval: Interval): ComparedFigure {
  const { measure, of, credit, traces, last, ...more } = rest;
  const [value, low, high] = [interval.value, interval.low, interval.high].map(known) as [
    number | null,
    number | null,
    number | null,
  ];
  const place = { measure, of, credit, traces, last };
  return { ...place, value, low, high, ...more, notes: value === null ? [...notes, 'none'] : notes };
}

function pairsOf({ credits }: CreditTable, { truth }: CompareOptions): (readonly [Credit, Credit])[] {
  const judge = credits.find(({ name }) => name === truth);
  if (judge !== undefined)
    return credits.filter((credit) => credit !== judge).map((credit) => [judge, credit]);
  return credits.flatMap((a, i) => credits.slice(i + 1).map((b) => [a, b] as const));
}

function correlations(table: CreditTable, a: Credit, b: Credit): Pending[] {
  return OUTCOMES.flatMap((outcome) =>
    LASTS.flatMap((last) => {
      const found = correlate(table, a, b, { outcome, last });
      return CORRELATIONS.map((measure) => {
        const { figure, p, traces, segments, notes } = found[measure];
        const place = { measure, of: a.name, credit: b.name, traces: outcome, last };
        return { ...place, figure, p: known(p), chance: null, n_traces: traces, n_segments: segments, notes };
      });
    }),
  );
}

function agreements(table: CreditTable, { truth }: CompareOptions): Pending[] {
  const judge = table.credits.find(({ name }) => name === truth);
  const others = table.credits.filter(({ name }) => name !== truth);
  const row = (
    measure: string,
    of: string,
    credit: string,
    traces: Slice['outcome'],
    found: Agreement,
  ): Pending => ({
    ...{ measure, of, credit, traces, last: 1, figure: found.figure, p: null, chance: known(found.chance) },
    ...{
      n_traces: found.traces,
      n_segments: found.segments === 0 ? null : found.segments,
      notes: found.notes,
    },
  });
  const judged =
    judge === undefined
      ? []
      : others.flatMap((credit) => [
          row('sign_of_large', judge.name, credit.name, 'all', signAgreement(table, judge, credit, LARGE)),
          row('worst_segment', judge.name, credit.name, 'wrong', worstAgreement(table, judge, credit)),
        ]);
  if (!table.firstWrong.some((wrong) => wrong >= 0)) return judged;
  const labelled = table.credits.flatMap((credit) => [
    row('auc', 'first_wrong', credit.name, 'all', firstWrongAuc(table, credit)),
    row('hit_at_1', 'first_wrong', credit.name, 'all', firstWrongHit(table, credit)),
  ]);
  return [...judged, ...labelled];
}

function known(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}
