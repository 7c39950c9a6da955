// Reads schema and record batches of a Parquet file, one row group at a time, each decoded to Arrow IPC by a worker thread.

import { setTimeout as after } from 'node:timers/promises';
import { RecordBatchReader, Schema } from 'apache-arrow';
import { startThread, type Thread } from '../../thread.js';
import { checkBatch } from '../arrow/check.js';
import { type BatchSource, damaged } from '../arrow/reader.js';
import type { DecoderThread, VersionedFile, Wanted } from './decoder-thread.js';
import { type RowGroup, readParquetFooter } from './footer.js';
import type { ParquetPart } from './part.js';

/** Schemas of footers seen: the files of one data set share theirs, and to ask for it takes a worker thread. */
const schemas = new Map<string, Schema>();

/** Opens a Parquet file of any size. @throws RredcotError (exit 65) where it is damaged */
export async function openParquet(path: string): Promise<BatchSource> {
  const footer = await readParquetFooter(path);
  const file = { path, version: footer.version };
  const decoder = openParquetDecoder();
  let schema = schemas.get(footer.schemaKey);
  if (schema === undefined) {
    try {
      schema = RecordBatchReader.from(await decoder.schema(file, footer.schemaPart())).open().schema;
    } catch (error) {
      await decoder.close();
      throw damaged(error, path, 'its schema');
    }
    schemas.set(footer.schemaKey, schema);
  }
  return {
    // files with the same columns may differ in what they say of themselves
    schema: new Schema(schema.fields, new Map(footer.metadata)),
    losses: footer.losses,
    async *batches(isWanted, columns) {
      const names = schema.fields.map(({ name }) => name).filter(columns ?? (() => true));
      const chosen = names.length === schema.fields.length ? undefined : names;
      let row = 0;
      try {
        for (const [n, group] of footer.groups.entries()) {
          const first = row;
          const end = row + group.rows;
          if (isWanted?.(row, end) ?? true) {
            try {
              for await (const ipc of decoder.rows(file, group, chosen))
                for (const batch of RecordBatchReader.from(ipc)) {
                  if (batch.numRows === 0) continue;
                  checkBatch(batch);
                  const share = [row / footer.rows, (row + batch.numRows) / footer.rows] as const;
                  yield { batch, row, share };
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
        await decoder.close();
      }
    },
    close: decoder.close,
  };
}

/** Raw bytes of a batch on its way. */
const DECODED_BYTES = 8 * 2 ** 20;
const MAX_BATCH_ROWS = 8192;
/** Streams that are asked for ahead: while one is used, the next one is decoded. */
const MAX_IN_FLIGHT = 2;

/** How long a thread may take for what is asked of it already when nobody wants it any more. */
const PATIENCE_MS = 200;

/** A thread without work: to start one takes longer than to read a small file. It does not keep the program alive. */
let spare: Thread<DecoderThread> | undefined;

function startedThread(): Thread<DecoderThread> {
  const found =
    spare ?? startThread<DecoderThread>('the decoder', new URL('./decoder-thread.js', import.meta.url));
  spare = undefined;
  found.ref();
  return found;
}

/** Keeps a thread for the next file; one of them, and only where it lets go of the last one. */
async function putBack(thread: Thread<DecoderThread>): Promise<void> {
  const isIdle = await Promise.race([
    thread.call('release', []),
    after(PATIENCE_MS, false, { ref: false }),
  ]).catch(() => false);
  if (isIdle !== true || spare !== undefined) return thread.terminate();
  thread.unref();
  spare = thread;
}

/** The thread; it is started when it is needed, and again after a part that has wrecked it. Its failures, its end too, are thrown. */
function openParquetDecoder() {
  let thread: Thread<DecoderThread> | undefined;
  async function close(): Promise<void> {
    const last = thread;
    thread = undefined;
    if (last !== undefined) await putBack(last);
  }
  async function* answers(wanted: Wanted): AsyncGenerator<Uint8Array> {
    thread ??= startedThread();
    const asked = thread;
    let isEnded = false;
    try {
      await asked.call('want', [wanted]);
      const coming = Array.from({ length: MAX_IN_FLIGHT }, () => asked.call('next', []));
      for (;;) {
        const ipc = await coming.shift();
        if (ipc === undefined) break;
        yield ipc;
        coming.push(asked.call('next', []));
      }
      isEnded = true;
    } finally {
      // wrecked, or at work on what nobody wants: it is given up unless it is soon done
      if (!isEnded) await close();
    }
  }
  return {
    /** An Arrow IPC stream without any batch. */
    async schema(file: VersionedFile, part: ParquetPart): Promise<Uint8Array> {
      let schema: Uint8Array | undefined;
      for await (const ipc of answers({ ...file, part })) schema = ipc;
      if (schema === undefined) throw new Error('no schema came');
      return schema;
    },
    /**
     * Arrow IPC streams of one batch each, to be read to the end, or returned, before anything else is asked for.
     * parquet-wasm may end early without a word, so the caller counts.
     * @param columns undefined: all
     */
    rows(file: VersionedFile, group: RowGroup, columns?: readonly string[]): AsyncGenerator<Uint8Array> {
      const rowBytes = group.bytes / Math.max(1, group.rows);
      const batchRows = Math.min(MAX_BATCH_ROWS, Math.max(1, Math.floor(DECODED_BYTES / rowBytes)));
      return answers({ ...file, part: group.part(), batchRows, columns });
    },
    close,
  };
}
