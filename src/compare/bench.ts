// A row of the benchmark: a credit and what it always stands beside, held against the set's truth and labels; how far a credit without
// error could go with a sampled truth, a credit's share of that, and how far values are off.
import { type Figure, fewGroups } from './bootstrap.js';
import { agreements, type ComparedFigure, figuresOf, OUTCOMES, type Pending } from './compare.js';
import { correlate, type Measured, pairTraces } from './correlations.js';
import type { CreditTable, NamedCredit } from './credit-table.js';

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
  readonly changes: NamedCredit | undefined;
  /** the same of one half of the completions and of the other; undefined where values were not sampled in halves */
  readonly halves: readonly [NamedCredit, NamedCredit] | undefined;
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
    const own = pairTraces(table, changes as NamedCredit, credit, 1);
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
    put('level_error', (table.credits[0] as NamedCredit).name, 'all', { figure: meanOf(off), ...of });
  return figuresOf(table, pending, seed).map(({ of: _, last: __, p: ___, ...figure }) => figure);
}

/** √ of Spearman and Brown's 2r/(1+r), which no credit's correlation with both halves together can be expected to pass. @param r of one half of the samples with the other */
function ceilingAt(r: number): number {
  return Math.sqrt(Math.max(0, Math.min(1, (2 * r) / (1 + r))));
}

/** The ceiling. @param halves the correlation of the truth's two halves */
export function ceilingOf({ terms, m, value }: Figure): Figure {
  return { terms, m, value: (sums) => ceilingAt(value(sums)) };
}

/**
 * A correlation divided by the ceiling of the same traces; NaN where the halves do not go together at all.
 * @param halves of as many traces; undefined where the truth is exact, whose ceiling is 1
 */
export function shareOfCeiling(correlation: Figure, halves: Figure | undefined): Figure {
  if (halves === undefined) return correlation;
  const m = correlation.m + halves.m;
  const n = correlation.terms.length / correlation.m;
  const terms = new Float64Array(n * m);
  for (let i = 0; i < n; i++) {
    terms.set(correlation.terms.subarray(i * correlation.m, (i + 1) * correlation.m), i * m);
    terms.set(halves.terms.subarray(i * halves.m, (i + 1) * halves.m), i * m + correlation.m);
  }
  return {
    terms,
    m,
    value(sums) {
      const ceiling = ceilingAt(halves.value(sums.subarray(correlation.m)));
      return ceiling > 0 ? correlation.value(sums.subarray(0, correlation.m)) / ceiling : Number.NaN;
    },
  };
}

/** The mean of a number a trace, over traces that have it. @param values (n) NaN where there is none */
export function meanOf(values: Float64Array): Figure {
  return {
    terms: Float64Array.from(Array.from(values, (x) => (Number.isNaN(x) ? [0, 0] : [x, 1])).flat()),
    m: 2,
    value: ([sum, n]) => (sum as number) / (n as number),
  };
}
