// The rows of a stream, which can be read only once, in; its columns' types from the first of them, then all of them out.
import { describeValue } from '../../io/arrow/describe.js';
import { describeType, findMisfit, inferColumns, type PassThroughColumn } from '../../io/arrow/schema.js';
import { type BadRow, type InputRow, rejectRow } from '../../rows.js';

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
  const misfit = findMisfit(row.columns, columns);
  if (misfit !== null) {
    return rejectRow(row, {
      code: 'column_type',
      reason: `column ${misfit.path} is ${misfit.found}, the first rows had ${misfit.expected}: read a file instead of stdin`,
    });
  }
  const known = new Set(columns.map(({ name }) => name));
  const unknown = Object.keys(row.columns).find((name) => !known.has(name) && row.columns[name] !== null);
  if (unknown === undefined) return row;
  const types = columns.map(({ name, type }) => `${name}: ${describeType(type)}`).join(', ');
  return rejectRow(row, {
    code: 'column_type',
    reason: `column ${unknown} is ${describeValue(row.columns[unknown])}, the first rows had no such column (${types.slice(0, 200)}): read a file instead of stdin`,
  });
}
