// The exports by name: which columns stand in for ours, and how a scored trace fills them.

import type { OutputRow } from '../../scored.js';
import type { OutputColumn } from '../arrow/output-columns.js';
import { PRM_COLUMNS, prmRow } from './prm.js';
import { TINKER_COLUMNS, tinkerRow } from './tinker.js';
import { VINEPPO_COLUMNS, vineppoRow } from './vineppo.js';

export const EXPORTS = ['prm', 'tinker', 'vineppo'] as const;
export type ExportName = (typeof EXPORTS)[number];

/** A trainer's own form of a scored trace. */
export interface Export {
  readonly columns: readonly OutputColumn[];
  /** @throws TraceRejected (`export`) for a trace that has no such form */
  readonly row: (row: OutputRow) => object;
}

export const EXPORT_FORMS: Readonly<Record<ExportName, Export>> = {
  prm: { columns: PRM_COLUMNS, row: prmRow },
  tinker: { columns: TINKER_COLUMNS, row: tinkerRow },
  vineppo: { columns: VINEPPO_COLUMNS, row: vineppoRow },
};

/** The row with its export's values beside it; as it is where there is no export. */
export function withExport(row: OutputRow, form: Export | undefined): OutputRow {
  return form === undefined ? row : { ...row, exported: { ...form.row(row) } };
}
