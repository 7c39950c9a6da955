// Where a credit agrees with the truth or with a label: signs of large changes, the worst segment, the first wrong one.
import { type Figure, fewGroups } from './bootstrap.js';
import type { Measured } from './correlations.js';
import { type Credit, type CreditTable, isIn, pairedCredits } from './credit-table.js';

/** One trace's part of a mean: Σ of what is averaged, its number, and Σ of what guessing gives. */
type Part = readonly [sum: number, count: number, guess: number];

/**
 * Share of the truth's changes of at least `large` that the credit has the sign of, over segments; a credit of 0 has none.
 */
export function signAgreement(table: CreditTable, truth: Credit, credit: Credit, large: number): Measured {
  const parts = Array.from(table.rewards, (_, i): Part => {
    const { x, y } = pairedCredits(table, truth, credit, i, 1);
    const changes = Array.from(x.keys()).filter((k) => Math.abs(x[k] as number) >= large);
    const hits = changes.filter((k) => Math.sign(x[k] as number) === Math.sign(y[k] as number));
    return [hits.length, changes.length, changes.length / 2];
  });
  return agreement(table, parts, true);
}

/** Share of wrong traces whose segment of lowest credit is the truth's; of several lowest ones, one is drawn. */
export function worstAgreement(table: CreditTable, truth: Credit, credit: Credit): Measured {
  const parts = Array.from(table.rewards, (_, i): Part => {
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
export function firstWrongHit(table: CreditTable, credit: Credit): Measured {
  return overLabelled(table, credit, (values, wrong) => {
    const low = lowest(values);
    return [low.includes(wrong) ? 1 / low.length : 0, 1, 1 / values.length];
  });
}

/**
 * ROC AUC inside each trace, its mean over traces: how often the first wrong segment has less credit than another one of its
 * trace, equal ones half.
 */
export function firstWrongAuc(table: CreditTable, credit: Credit): Measured {
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
  credit: Credit,
  part: (values: Float64Array, wrong: number) => Part,
): Measured {
  const { offsets, firstWrong } = table;
  const parts = Array.from(firstWrong, (wrong, i): Part => {
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
function agreement({ groups }: CreditTable, parts: readonly Part[], bySegment: boolean): Measured {
  const figure: Figure = {
    terms: Float64Array.from(parts.flat()),
    m: 3,
    value: ([sum, count]) => (sum as number) / (count as number),
  };
  const total = (j: 0 | 1 | 2) => parts.reduce((sum, part) => sum + part[j], 0);
  const counts = ([, count]: Part) => count > 0;
  return {
    figure,
    p: Number.NaN,
    chance: total(2) / total(1),
    traces: parts.filter(counts).length,
    segments: bySegment && total(1) > 0 ? total(1) : null,
    notes: fewGroups(groups, (i) => counts(parts[i] as Part)),
  };
}
