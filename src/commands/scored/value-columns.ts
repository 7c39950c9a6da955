// The columns that come with an estimator's values, where these alone do not tell all: how sure they are, what they rest on.

import { type Estimator, natureOf } from '../../estimate/estimators.js';
import { HINT_COLUMNS, storedHinted } from '../../estimate/hint/hinted-values.js';
import { monteCarloColumns, storedMonteCarlo } from '../../estimate/sampling/monte-carlo.js';
import { SIBLING_COLUMNS, storedSiblings } from '../../estimate/siblings/sibling-values.js';
import type { OutputColumn } from '../../io/table/output-columns.js';

/** @param keepsSamples whether a sampling estimator writes its samples too */
export function valueColumns(estimator: Estimator, keepsSamples: boolean): readonly OutputColumn[] {
  const { isSampled, readsMates, isHinted } = natureOf(estimator);
  if (isHinted) return HINT_COLUMNS;
  return isSampled ? monteCarloColumns(keepsSamples) : readsMates ? SIBLING_COLUMNS : [];
}

/** What a stored row holds in these, as it was written. @param cell of the row; null where there is none */
export function storedValueColumns(
  estimator: Estimator,
  cell: (name: string) => unknown,
): Readonly<Record<string, unknown>> {
  const { isSampled, readsMates, isHinted } = natureOf(estimator);
  if (isHinted) return storedHinted(cell);
  return isSampled ? storedMonteCarlo(cell) : readsMates ? storedSiblings(cell) : {};
}
