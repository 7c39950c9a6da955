// Rows of an output with column types: those of a stream, whose first rows tell the types, and the check that later rows fit them.
import { dataError } from '../../errors.js';
import { describeValue } from '../../printable.js';
import { type BadRow, type InputRow, rejectRow } from '../../rows.js';
import { describeType, findMisfit, inferColumns, type PassThroughColumn } from '../arrow/schema.js';

const FIRST_ROWS = 1024;
const FIRST_BYTES = 16 * 2 ** 20;

/**
 * Infers the columns of a stream that can be read only once from its first rows (1,024, or 16 MiB of them),
 * then hands on all rows. A later row that does not fit comes out as a `BadRow` with code `column_type`.
 * @param typed whether the output has types; where it has none there is nothing to infer, and rows of any kind fit
 */
export async function inferFromWindow(
  rows: AsyncGenerator<InputRow | BadRow>,
  typed: boolean,
): Promise<{ columns: PassThroughColumn[]; rows: AsyncGenerator<InputRow | BadRow> }> {
  if (!typed) return { columns: [], rows };
  const inference = inferColumns();
  const window: (InputRow | BadRow)[] = [];
  let bytes = 0;
  while (window.length < FIRST_ROWS && bytes < FIRST_BYTES) {
    const next = await rows.next();
    if (next.done) break;
    window.push(next.value);
    bytes += next.value.raw.length;
    if (next.value.kind === 'row') inference.add(next.value.columns);
  }
  const columns = inference.finish();

  async function* all(): AsyncGenerator<InputRow | BadRow> {
    try {
      yield* window.splice(0);
      for await (const row of rows) yield row.kind === 'row' ? fitted(row, columns) : row;
    } finally {
      await rows.return(undefined);
    }
  }
  return { columns, rows: all() };
}

function fitted(row: InputRow, columns: readonly PassThroughColumn[]): InputRow | BadRow {
  const rejected = (why: string) =>
    rejectRow(row, { code: 'column_type', reason: `column ${why}: read a file instead of stdin` });
  const misfit = findMisfit(row.columns, columns);
  if (misfit !== null)
    return rejected(`${misfit.path} is ${misfit.found}, the first rows had ${misfit.expected}`);
  const known = new Set(columns.map(({ name }) => name));
  const unknown = Object.keys(row.columns).find((name) => !known.has(name) && row.columns[name] !== null);
  if (unknown === undefined) return row;
  const types = columns.map(({ name, type }) => `${name}: ${describeType(type)}`).join(', ');
  const found = describeValue(row.columns[unknown]);
  return rejected(`${unknown} is ${found}, the first rows had no such column (${types.slice(0, 200)})`);
}

/** @throws RredcotError for a value that another one was at the first pass */
export function assertFits(row: InputRow, columns: readonly PassThroughColumn[]): void {
  const misfit = findMisfit(row.columns, columns);
  if (misfit === null) return;
  throw dataError(
    `${row.file}:${row.row}: column ${misfit.path} is ${misfit.found}, expected ${misfit.expected}`,
    'it was that when first read: did the file change?',
  );
}
