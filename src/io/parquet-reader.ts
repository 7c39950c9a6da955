// A Parquet file in, its schema and record batches out, through a worker thread, one row group at a time.

import { open } from 'node:fs/promises';
import { Worker } from 'node:worker_threads';
import { RecordBatchReader, type Schema } from 'apache-arrow';
import { checkBatch } from './arrow-check.js';
import { type BatchSource, damaged, refuseSameNames } from './arrow-reader.js';
import { type ParquetFooter, type RowGroup, readParquetFooter } from './parquet-footer.js';
import type { FromParquetReader, ToParquetReader } from './parquet-read-worker.js';

/** Raw bytes of a batch on its way. */
const BATCH_BYTES = 8 * 2 ** 20;
const MAX_BATCH_ROWS = 8192;

/** Schemas of footers seen: the files of one data set share theirs, and to ask for it takes a worker thread. */
const schemas = new Map<string, Schema>();

/** Opens a Parquet file of any size. @throws RredcotError (exit 65) where it is damaged */
export async function openParquet(path: string): Promise<BatchSource> {
  const file = await open(path, 'r');
  let footer: ParquetFooter;
  try {
    footer = await readParquetFooter(file, path);
  } finally {
    await file.close();
  }
  let decoder: Decoder | null = null;
  async function close(): Promise<void> {
    const last = decoder;
    decoder = null;
    await last?.close();
  }
  let schema = schemas.get(footer.schemaKey);
  if (schema === undefined) {
    decoder = openDecoder(path);
    try {
      schema = await readSchema(decoder, footer);
    } catch (error) {
      await close();
      throw damaged(error, path, 'its schema');
    }
    schemas.set(footer.schemaKey, schema);
  }
  try {
    refuseSameNames(schema, path);
  } catch (error) {
    await close(); // a thread left behind would keep the program from ending
    throw error;
  }
  return {
    schema,
    losses: footer.losses,
    async *batches(isWanted) {
      decoder ??= openDecoder(path);
      let row = 0;
      try {
        for (const [n, group] of footer.groups.entries()) {
          const first = row;
          const end = row + group.rows;
          if (isWanted?.(row, end) ?? true) {
            try {
              for await (const batch of readGroup(decoder, group)) {
                yield { batch, row };
                row += batch.numRows;
              }
              // parquet-wasm may end early without a word
              if (row !== end) throw new Error(`${row - first} of ${group.rows} rows came`);
            } catch (error) {
              throw damaged(error, path, `row group ${n}, from row ${row} on,`);
            }
          }
          row = end;
        }
      } finally {
        await close();
      }
    },
    close,
  };
}

async function readSchema(decoder: Decoder, footer: ParquetFooter): Promise<Schema> {
  decoder.post({ kind: 'schema', part: footer.schemaPart() });
  const message = await decoder.next();
  if (message.kind !== 'schema') throw new Error(`a ${message.kind} came for the schema`);
  return RecordBatchReader.from(message.ipc).open().schema;
}

async function* readGroup(decoder: Decoder, group: RowGroup) {
  const rowBytes = group.bytes / Math.max(1, group.rows);
  const batchRows = Math.min(MAX_BATCH_ROWS, Math.max(1, Math.floor(BATCH_BYTES / rowBytes)));
  decoder.post({ kind: 'rows', part: group.part(), batchRows });
  for (let message = await decoder.next(); message.kind !== 'end'; message = await decoder.next()) {
    if (message.kind !== 'batch') throw new Error(`a ${message.kind} came for rows`);
    for (const batch of RecordBatchReader.from(message.ipc)) {
      if (batch.numRows === 0) continue;
      checkBatch(batch);
      yield batch;
    }
    decoder.post({ kind: 'taken' });
  }
}

/** The worker thread, seen from the main thread. */
interface Decoder {
  post(message: ToParquetReader): void;
  /** @throws Error for every failure of the thread, its end too */
  next(): Promise<Exclude<FromParquetReader, { kind: 'failed' }>>;
  close(): Promise<void>;
}

function openDecoder(path: string): Decoder {
  const worker = new Worker(new URL('./parquet-read-worker.js', import.meta.url), { workerData: path });
  const inbox: FromParquetReader[] = [];
  let failure: Error | null = null;
  let wake = (): void => {};
  const fail = (error: Error): void => {
    failure ??= error;
    wake();
  };
  worker.on('message', (message: FromParquetReader) => {
    inbox.push(message);
    wake();
  });
  worker.on('error', (error) => fail(new Error(`the decoder crashed: ${error.message}`)));
  worker.on('exit', () => fail(new Error('the decoder ended early')));
  return {
    post: (message) => worker.postMessage(message),
    async next() {
      while (inbox.length === 0 && failure === null)
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      const message = inbox.shift();
      if (message === undefined) throw failure;
      if (message.kind === 'failed') throw new Error(message.message);
      return message;
    },
    async close() {
      await worker.terminate();
    },
  };
}
