// Rows as they are stored, of cells that a test has made up, and what `verify` says of them.

import type { CreditOptions } from '../../dist/estimate/credit.js';
import { storedCredit } from '../../dist/estimate/stored-credit.js';
import type { Config } from '../../dist/io/write/output.js';
import { columnsBeside, remadeFaults } from '../../dist/scored/remade.js';
import { storedRow } from '../../dist/scored/stored-rows.js';
import { inputRow } from './io-helpers.js';

type Cells = Readonly<Record<string, unknown>>;

/** What does not follow from the rest of a row. @param credit by default that of the configuration */
export function faultsOf(cells: object, config: Config, credit = storedCredit(config)): string {
  return remadeFaults(cells as Cells, decoded(cells, config, credit), credit, config).join('\n');
}

/** The row with all its columns. */
export function decoded(cells: object, config: Config = {}, credit?: CreditOptions) {
  return storedRow(cells as Cells, inputRow(cells as Record<string, unknown>), columnsBeside(credit, config));
}
