// A row that this program wrote: which of its cells are ours, and what they hold, as it was when it was scored.

export { isList } from '../io/arrow/output-columns.js';

import { type OutputColumn, readCell } from '../io/arrow/output-columns.js';
import { columnarColumns, type Input, readRows } from '../io/read/inputs.js';
import { CONFIG_KEY } from '../io/write/output.js';
import { type InputRow, isBad } from '../rows.js';
import { blankRow, type OutputRow } from '../scored.js';
import { OUR_COLUMNS, ourColumn } from './columns.js';

/** A row's cells by column: plain values; lists are arrays. */
export type Cells = Readonly<Record<string, unknown>>;

/** The columns of files in their order, and their types where these bring them along; of JSON lines the first row's. */
export async function columnsOf(inputs: readonly Input[]) {
  const typed = (await columnarColumns(inputs))?.columns ?? null;
  if (typed !== null) return { typed, columns: typed.map(({ name }) => name) };
  for await (const row of readRows(inputs))
    if (!isBad(row)) return { typed, columns: Object.keys(row.columns) };
  return { typed, columns: undefined };
}

/** The configuration that a file's metadata hold; undefined where they hold none, or another program's. */
export function storedConfig(metadata: ReadonlyMap<string, string>): Cells | undefined {
  try {
    return JSON.parse(metadata.get(CONFIG_KEY) ?? '') as Cells;
  } catch {
    return undefined;
  }
}

/** The cells of our columns: one of their names that was not chosen is the input's own. @param chosen undefined: any that is there */
export function oursOf(columns: Cells, chosen: Iterable<string> | undefined): Cells {
  if (chosen === undefined) return columns;
  const own = [...chosen].filter((name) => Object.hasOwn(columns, name));
  return Object.fromEntries(own.map((name) => [name, columns[name]]));
}

/**
 * Decodes a row: what it lacks is null.
 * @param cells of our columns
 * @param further columns beside ours
 */
export function storedRow(cells: Cells, row: InputRow, further: readonly OutputColumn[] = []): OutputRow {
  const blank = blankRow({
    ...{ id: `${row.stem}:${row.row}`, prompt: [], completion: '', references: [], reward: null },
    source: row,
  });
  const parts = OUR_COLUMNS.filter((name) => name in cells).map((name) =>
    ourColumn(name).read?.(cells[name]),
  );
  const requested = further.map(({ name, type }) => [name, readCell(type, cells[name])] as const);
  return {
    ...Object.assign({}, blank, ...parts),
    trace: Object.assign({}, blank.trace, ...parts.map((part) => part?.trace)),
    ...(further.length > 0 && { requested: Object.fromEntries(requested) }),
  };
}

/** Whether a row was scored. */
export function isScored({ segments, status, sigma }: Cells): boolean {
  return Array.isArray(segments) && Array.isArray(sigma) && typeof status === 'string';
}

/** Whether it was cut by `segment`, and not scored. */
export function isCut({ segments, status, sigma }: Cells): boolean {
  return (
    Array.isArray(segments) && segments.length > 0 && typeof status === 'string' && !Array.isArray(sigma)
  );
}
