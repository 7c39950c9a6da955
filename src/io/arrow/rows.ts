// Reads record batches as rows that convert a value only when somebody looks at it.

import { type Data, type RecordBatch, Type } from 'apache-arrow';
import { usageError } from '../../errors.js';
import type { InputRow } from '../../rows.js';
import type { ArrowPlace, ColumnarBatch } from '../../trace.js';
import { stringifyLossless } from './json.js';
import { type BatchSource, damaged } from './reader.js';
import { nameOf, valueAt } from './values.js';

/** Looks a record batch's columns up by name, once. */
export function columnarBatch(batch: RecordBatch): ColumnarBatch {
  const names = batch.schema.fields.map(nameOf);
  const columns = new Map(names.map((name, n) => [name, batch.data.children[n] as Data]));
  const bytes = new Set(names.filter((name) => isBytes(columns.get(name) as Data)));
  const size = batch.data.children.reduce((sum, child) => sum + child.byteLength, 0);
  return { names, columns, bytes, rowBytes: size / Math.max(1, batch.numRows) };
}

function isBytes({ typeId, dictionary }: Data): boolean {
  const id: Type = typeId === Type.Dictionary ? (dictionary?.type.typeId ?? typeId) : typeId;
  return [Type.Binary, Type.LargeBinary, Type.BinaryView, Type.FixedSizeBinary].includes(id);
}

/** One row of a batch; its JSON text and its values are made when they are asked for. */
export function arrowRow(
  arrow: ArrowPlace,
  place: { readonly file: string; readonly stem: string; readonly row: number; readonly ordinal: number },
): InputRow {
  let columns: Record<string, unknown> | undefined;
  let raw: string | undefined;
  return {
    kind: 'row',
    ...place,
    byteOffset: null,
    arrow,
    get columns() {
      columns ??= lazyColumns(arrow, place);
      return columns;
    },
    get raw() {
      raw ??= stringifyLossless(this.columns);
      return raw;
    },
  };
}

// looks like a plain object with a key a column; a trace needs a few of the columns only
function lazyColumns(
  { batch, index }: ArrowPlace,
  { file, row }: { readonly file: string; readonly row: number },
): Record<string, unknown> {
  const values = new Map<string, unknown>();
  function read(name: string): unknown {
    if (values.has(name)) return values.get(name);
    try {
      values.set(name, valueAt(batch.columns.get(name) as Data, index));
    } catch (error) {
      // what the check of the batch lets through: a type that damage has made of another
      throw damaged(error, file, `column ${name} of row ${row}`);
    }
    return values.get(name);
  }
  return new Proxy<Record<string, unknown>>(
    {},
    {
      ownKeys: () => batch.names as string[],
      has: (_, key) => typeof key === 'string' && batch.columns.has(key),
      get: (_, key) => (typeof key === 'string' && batch.columns.has(key) ? read(key) : undefined),
      getOwnPropertyDescriptor: (_, key) =>
        typeof key === 'string' && batch.columns.has(key)
          ? { enumerable: true, configurable: true, get: () => read(key) }
          : undefined,
    },
  );
}

/** @throws RredcotError (exit 2), the source closed: rows are objects, which have each key once */
export async function refuseSameNames({ schema, close }: BatchSource, path: string): Promise<void> {
  const names = new Set<string>();
  const twice = schema.fields.find(({ name }) => names.size === names.add(name).size)?.name;
  if (twice === undefined) return;
  await close();
  throw usageError(
    `${path}: two columns are called "${twice}", expected a name for each`,
    'rename one of them',
  );
}
