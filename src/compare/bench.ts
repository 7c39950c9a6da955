// A row of the benchmark: a credit and what it always stands beside, held against the set's truth and labels.
import { fewGroups } from './bootstrap.js';
import { ceilingOf, meanOf, shareOfCeiling } from './ceiling.js';
import { agreements, type ComparedFigure, figuresOf, OUTCOMES, type Pending } from './compare.js';
import { correlate, type Measured, pairTraces } from './correlations.js';
import type { Credit, CreditTable } from './credit-table.js';

/** A row, as `row.json` has it. */
export interface BenchRow {
  readonly format: 1;
  readonly name: string;
  readonly set: string;
  readonly set_sha256: string | null;
  readonly half: string;
  readonly made_by: string | null;
  readonly seed: number;
  /** of the set's half, and those of them that the file has credits for */
  readonly traces: number;
  readonly counted: number;
  readonly groups: number;
  readonly segments: number;
  /** tokens read and written for the credits, a token of the completions; null where the file does not say */
  readonly tokens_spent: number | null;
  /** of the counted, those that a file's own policy is not the writer of; absent where there are none */
  readonly other_policy?: number;
  readonly left_out: Readonly<Record<string, { readonly count: number; readonly first: string }>>;
  readonly figures: readonly BenchFigure[];
}

type BenchFigure = Omit<ComparedFigure, 'of' | 'last' | 'p'>;

/** What credits are held against. */
export interface Truth {
  /** changes of the values; undefined in a set that has labels alone */
  readonly changes: Credit | undefined;
  /** the same of one half of the completions and of the other; undefined where values were not sampled in halves */
  readonly halves: readonly [Credit, Credit] | undefined;
  /** values are computed: the ceiling is 1 */
  readonly isExact: boolean;
  /** (n) mean |V̂ − V| of a trace's exits; NaN where the row has no values */
  readonly off: Float64Array;
}

/**
 * All figures, in an order that depends on the table alone.
 * @param table the row's credit first; NaN where it lacks a trace
 * @param seed of the resamples
 */
export function benchFigures(
  table: CreditTable,
  { changes, halves, isExact, off }: Truth,
  seed: number,
): BenchFigure[] {
  const pending: Pending[] = [];
  const put = (measure: string, credit: string, traces: ComparedFigure['traces'], found: Measured) =>
    pending.push([{ measure, of: 'truth', credit, traces, last: 1 }, found]);
  const paired = halves && pairTraces(table, ...halves, 1);
  const half = (traces: ComparedFigure['traces']) => paired && correlate(table, paired, traces).pearson;
  for (const traces of OUTCOMES) {
    const own = half(traces);
    if (own !== undefined) put('ceiling', 'truth', traces, { ...own, figure: ceilingOf(own.figure) });
  }
  for (const credit of changes === undefined ? [] : table.credits) {
    const own = pairTraces(table, changes as Credit, credit, 1);
    for (const traces of OUTCOMES) {
      const found = correlate(table, own, traces).pearson;
      put('pearson', credit.name, traces, found);
      if (halves !== undefined || isExact)
        put('share', credit.name, traces, {
          ...found,
          figure: shareOfCeiling(found.figure, half(traces)?.figure),
        });
    }
  }
  const judged = changes === undefined ? table : { ...table, credits: [...table.credits, changes] };
  pending.push(...agreements(judged, { truth: changes?.name }));
  const hasValues = (i: number) => !Number.isNaN(off[i]);
  const traces = [...off.keys()].filter(hasValues).length;
  const of = {
    p: Number.NaN,
    chance: Number.NaN,
    traces,
    segments: null,
    notes: fewGroups(table.groups, hasValues),
  };
  if (traces > 0)
    put('level_error', (table.credits[0] as Credit).name, 'all', { figure: meanOf(off), ...of });
  return figuresOf(table, pending, seed).map(({ of: _, last: __, p: ___, ...figure }) => figure);
}
