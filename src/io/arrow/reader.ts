// Reads schema and record batches of an Arrow IPC file or stream; and record batches as rows.

import type { FileHandle } from 'node:fs/promises';
import {
  type AsyncRecordBatchFileReader,
  type AsyncRecordBatchStreamReader,
  CompressionType,
  compressionRegistry,
  type Data,
  DataType,
  type RecordBatch,
  RecordBatchReader,
  type Schema,
  Type,
} from 'apache-arrow';
import { decompress as decompressZstd } from 'fzstd';
import { dataError, RredcotError, usageError } from '../../errors.js';
import type { InputRow } from '../../rows.js';
import type { ArrowPlace, ColumnarBatch } from '../../trace.js';
import { fileError, type OpenFile, openFile } from '../files/files.js';
import { stringifyLossless } from './json.js';
import { decompressLz4 } from './lz4.js';
import { findType } from './types.js';
import { checkBatch, checkSchema, nameOf, valueAt } from './values.js';

export interface BatchSource {
  readonly schema: Schema;
  /** what of a column's type is known to be lost, by its name */
  readonly losses: ReadonlyMap<string, string>;
  /**
   * Record batches in order, each with the number of its first row; they can be read once. `share`: how much of the file comes before
   * it, and how much with it; 0 and 0 of a stream without a known end.
   * @param isWanted tells whether any of the rows from the first to the second number (exclusive) is wanted
   * @param columns tells whether a column is; batches may have others all the same
   */
  batches(
    isWanted?: (from: number, to: number) => boolean,
    columns?: (name: string) => boolean,
  ): AsyncGenerator<{
    readonly batch: RecordBatch;
    readonly row: number;
    readonly share: readonly [before: number, until: number];
  }>;
  close(): Promise<void>;
}

// arrow-js ships no codec
compressionRegistry.set(CompressionType.LZ4_FRAME, { decode: decompressLz4 });
compressionRegistry.set(CompressionType.ZSTD, { decode: (bytes) => aligned(decompressZstd(bytes)) });

// fzstd may hand back a part of its input, and arrow-js lays 64-bit numbers over it
function aligned(bytes: Uint8Array): Uint8Array {
  return bytes.byteOffset % 8 === 0 ? bytes : bytes.slice();
}

const ARROW_MAGIC = 'ARROW1';
/** Magic and padding at the start, the footer's length and the magic at the end. */
const FRAME_BYTES = 8 + 4 + ARROW_MAGIC.length;

/** Opens a file of the file format. @throws RredcotError (exit 65) where it is damaged */
export async function openArrow(path: string): Promise<BatchSource> {
  const file = await openFile(path);
  const close = () => file.close();
  try {
    await checkFooter(file, path, (await file.stat()).size);
    const reader = await RecordBatchReader.from(boundedFile(file));
    return await openReader(reader, path, (n, of) => (n + 1) / of, close);
  } catch (error) {
    await close().catch(() => {});
    throw damaged(error, path, 'its footer');
  }
}

/** Opens the stream format. @param size as of `Input` */
export async function openArrowStream(
  path: string,
  source: AsyncIterable<Buffer>,
  size: number | null,
): Promise<BatchSource> {
  let read = 0;
  async function* counted(): AsyncGenerator<Buffer> {
    for await (const chunk of source) {
      read += chunk.length;
      yield chunk;
    }
  }
  const bytes = counted();
  const until = (): number => (size === null ? 0 : Math.min(1, read / size));
  try {
    return await openReader(await RecordBatchReader.from(bytes), path, until, async () => {
      await bytes.return(undefined);
    });
  } catch (error) {
    throw damaged(error, path, 'its schema');
  }
}

// arrow-js would take what stands at the end for a length and ask for gigabytes
async function checkFooter(file: OpenFile, path: string, size: number): Promise<void> {
  const tail = Buffer.alloc(4 + ARROW_MAGIC.length);
  if (size >= FRAME_BYTES) await file.read(tail, 0, tail.length, size - tail.length);
  const length = tail.readInt32LE(0);
  if (tail.toString('latin1', 4) === ARROW_MAGIC && length > 0 && length <= size - FRAME_BYTES) return;
  throw dataError(
    `${path}: begins as an Arrow file of ${size} bytes but has no footer: it was cut off`,
    'write or fetch the file again',
  );
}

// arrow-js reads on without end where a file has become shorter
function boundedFile(file: OpenFile): FileHandle {
  const bounded = {
    fd: 0, // which it looks for and does not use
    stat: () => file.stat(),
    close: () => file.close(),
    async read(buffer: Uint8Array, offset: number, length: number, position: number) {
      const found = await file.read(buffer, offset, length, position);
      if (found.bytesRead === 0 && length > 0) throw new Error('the file has become shorter');
      return found;
    },
  };
  return bounded as unknown as FileHandle;
}

// by number: where the footer names a place that holds no batch, arrow-js's own loop would read it for ever
async function* fileBatches(reader: AsyncRecordBatchFileReader): AsyncGenerator<RecordBatch> {
  for (let n = 0; n < reader.numRecordBatches; n++) {
    const batch = await reader.readRecordBatch(n);
    if (batch === null) throw new Error('the footer names a place that holds none');
    yield batch;
  }
}

/** @param until how much of the file has been read with its n-th record batch of so many */
async function openReader(
  reader: unknown,
  path: string,
  until: (n: number, of: number) => number,
  close: () => Promise<void>,
): Promise<BatchSource> {
  const opened = await (reader as AsyncRecordBatchStreamReader).open();
  const { schema } = opened;
  // without a schema arrow-js takes a stream for an empty one
  if (!schema) throw new Error('no schema');
  // an empty name is null in the schema, and "null" in its batches
  for (const field of schema.fields) Object.assign(field, { name: nameOf(field) });
  checkSchema(schema.fields);
  const [found, count] = opened.isFile()
    ? [fileBatches(opened), opened.numRecordBatches]
    : [opened as AsyncIterable<RecordBatch>, 0]; // a stream does not say
  return {
    schema,
    losses: new Map(),
    async *batches() {
      let batches = 0;
      let rows = 0;
      let before = 0;
      try {
        for await (const batch of found) {
          checkBatch(batch);
          const share = [before, until(batches, count)] as const;
          if (batch.numRows > 0) yield { batch, row: rows, share };
          batches++;
          rows += batch.numRows;
          before = share[1];
        }
      } catch (error) {
        throw damaged(error, path, `record batch ${batches}, which begins with row ${rows},`);
      } finally {
        await close();
      }
    },
    close,
  };
}

/** Types that are not read, most of which arrow-js does not know, and what makes others of them. */
const UNREAD_TYPES: ReadonlyMap<string, string> = new Map([
  ['Union', 'write a column for each of its types, or leave it out'],
  ['Interval', 'write it as text or a number, or leave it out; in DuckDB: epoch(column)'],
  ['ListView', 'write it as a list; in pyarrow: column.cast(pa.list_(…))'],
  ['LargeListView', 'write it as a large list; in pyarrow: column.cast(pa.large_list(…))'],
  ['RunEndEncoded', 'write its values out; in pyarrow: pyarrow.compute.run_end_decode(column)'],
]);

/** Our own message for whatever a reader makes of damaged bytes. */
export function damaged(error: unknown, path: string, what: string): unknown {
  const known = fileError(error, path, 'read');
  if (known instanceof RredcotError) return known;
  const [, type = ''] = /^Unrecognized type: "(\w+)"/.exec((error as Error).message) ?? [];
  if (UNREAD_TYPES.has(type)) return unreadType(path, 'a column', type);
  return dataError(
    `${path}: ${what} cannot be read: ${(error as Error).message}`,
    'the file is damaged, cut off, of a kind that is not read, or its text is no UTF-8: write or fetch it again; if pyarrow reads it, rredcot.score in Python takes its table (docs/python.md)',
    error,
  );
}

function unreadType(path: string, column: string, type: string): RredcotError {
  return usageError(
    `${path}: ${column} has Arrow's type ${type}, which is not read`,
    UNREAD_TYPES.get(type) ?? '',
  );
}

/** @throws RredcotError (exit 2) for columns of one name, as rows are objects, or of a type that is not read */
export function refuseSchema({ fields }: Schema, path: string): void {
  const names = new Set<string>();
  const isUnread = (type: DataType): boolean => DataType.isUnion(type) || DataType.isInterval(type);
  for (const { name, type } of fields) {
    const unread = findType(type, isUnread);
    if (unread !== undefined)
      throw unreadType(path, `column "${name}"`, DataType.isUnion(unread) ? 'Union' : 'Interval');
    if (names.has(name))
      throw usageError(
        `${path}: two columns are called "${name}", expected a name for each`,
        'rename one of them',
      );
    names.add(name);
  }
}

// ------ rows that convert a value only when somebody looks at it

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

/** One row of a batch; its JSON text and its values are made when they are asked for. @param more what it has beside the batch's columns */
export function arrowRow(
  arrow: ArrowPlace,
  place: Pick<InputRow, 'file' | 'stem' | 'row' | 'ordinal'>,
  more: readonly [name: string, value: unknown][],
): InputRow {
  let columns: Record<string, unknown> | undefined;
  let raw: string | undefined;
  return {
    kind: 'row',
    ...place,
    byteOffset: null,
    arrow,
    get columns() {
      columns ??= lazyColumns(arrow, place, more);
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
  { file, row }: Pick<InputRow, 'file' | 'row'>,
  more: readonly [name: string, value: unknown][],
): Record<string, unknown> {
  const values = new Map(more);
  function read(name: string): unknown {
    try {
      if (!values.has(name)) values.set(name, valueAt(batch.columns.get(name) as Data, index));
    } catch (error) {
      // what the check of the batch lets through: a type that damage has made of another
      throw damaged(error, file, `column ${name} of row ${row}`);
    }
    return values.get(name);
  }
  const has = (key: string | symbol): key is string =>
    typeof key === 'string' && (batch.columns.has(key) || values.has(key));
  const handler: ProxyHandler<Record<string, unknown>> = {
    ownKeys: () => [...batch.names, ...more.map(([name]) => name)],
    has: (_, key) => has(key),
    get: (_, key) => (has(key) ? read(key) : undefined),
    getOwnPropertyDescriptor: (_, key) =>
      has(key) ? { enumerable: true, configurable: true, get: () => read(key) } : undefined,
  };
  return new Proxy({}, handler);
}
