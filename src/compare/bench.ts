// The figures of a benchmark's row: a credit and what it always stands beside, held against the set's truth and labels.
import { fewGroups } from './bootstrap.js';
import { ceilingOf, meanOf, shareOfCeiling } from './ceiling.js';
import { agreements, type ComparedFigure, figuresOf, OUTCOMES, type Pending } from './compare.js';
import { correlate, type Measured, pairTraces } from './correlations.js';
import type { Credit, CreditTable } from './credit-table.js';

/** What credits are held against. */
export interface Truth {
  /** changes of the values; undefined in a set that has labels alone */
  readonly changes: Credit | undefined;
  /** the same of one half of the completions and of the other; undefined where values are exact, or not sampled in halves */
  readonly halves: readonly [Credit, Credit] | undefined;
  /** whether the ceiling is 1 */
  readonly isExact: boolean;
}

/** A figure of a row; without `of` and `last`, which are the same for all, and without p. */
export type BenchFigure = Pick<
  ComparedFigure,
  'measure' | 'credit' | 'traces' | 'value' | 'low' | 'high' | 'chance' | 'n_traces' | 'n_segments' | 'notes'
>;

/**
 * All figures, in an order that depends on the table alone.
 * @param table with the credits that are judged; NaN where a credit lacks a trace
 * @param off (n) by credit: mean |V̂ − V| of a trace's exits, of what has values
 * @param seed of the resamples
 */
export function benchFigures(
  table: CreditTable,
  { changes, halves, isExact }: Truth,
  off: ReadonlyMap<string, Float64Array>,
  seed: number,
): BenchFigure[] {
  const pending: Pending[] = [];
  const put = (measure: string, credit: string, traces: ComparedFigure['traces'], found: Measured) =>
    pending.push([{ measure, of: 'truth', credit, traces, last: 1 }, found]);
  const both = halves && pairTraces(table, ...halves, 1);
  if (both !== undefined)
    for (const traces of OUTCOMES) {
      const own = correlate(table, both, traces).pearson;
      put('ceiling', 'truth', traces, { ...own, figure: ceilingOf(own.figure), p: Number.NaN });
    }
  for (const credit of changes === undefined ? [] : table.credits) {
    const paired = pairTraces(table, changes as Credit, credit, 1);
    for (const traces of OUTCOMES) {
      const own = correlate(table, paired, traces).pearson;
      put('pearson', credit.name, traces, own);
      if (both === undefined && !isExact) continue;
      const half = both && correlate(table, both, traces).pearson.figure;
      put('share', credit.name, traces, { ...own, figure: shareOfCeiling(own.figure, half) });
    }
  }
  const judged = changes === undefined ? table : { ...table, credits: [...table.credits, changes] };
  pending.push(...agreements(judged, { truth: changes?.name }));
  for (const [name, values] of off) {
    const counts = (i: number) => !Number.isNaN(values[i]);
    const traces = [...values.keys()].filter(counts).length;
    const notes = fewGroups(table.groups, counts);
    const found = { p: Number.NaN, chance: Number.NaN, traces, segments: null, notes };
    put('level_error', name, 'all', { figure: meanOf(values), ...found });
  }
  return figuresOf(table, pending, seed).map(({ of: _, last: __, p: ___, ...figure }) => figure);
}
