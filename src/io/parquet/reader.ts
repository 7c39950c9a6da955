// Reads schema and record batches of a Parquet file, one row group at a time, each decoded to Arrow IPC by a worker thread.

import { setTimeout as after } from 'node:timers/promises';
import { DataType, type Field, RecordBatchReader, Schema } from 'apache-arrow';
import { startThread, type Thread } from '../../thread.js';
import { type BatchSource, damaged } from '../arrow/reader.js';
import { findType, plainType, typeName } from '../arrow/types.js';
import { checkBatch } from '../arrow/values.js';
import type { DecoderThread, ParquetFacts } from './decoder-thread.js';

/** Raw bytes of a batch on its way. */
const DECODED_BYTES = 8 * 2 ** 20;
const MAX_BATCH_ROWS = 8192;
/** Batches that are asked for ahead: while one is used, the next one is decoded. */
const MAX_IN_FLIGHT = 2;

/** Opens a Parquet file of any size. @throws RredcotError (exit 65) where it is damaged */
export async function openParquet(path: string): Promise<BatchSource> {
  const thread = takeThread();
  let closing: Promise<void> | undefined;
  const close = () => (closing ??= putBack(thread));
  try {
    const { facts, fields, losses } = await openedFooter(thread, path);
    const { rows, groups, metadata } = facts;
    const counted = groups.reduce((sum, group) => sum + group.rows, 0);
    if (counted !== rows) throw new Error(`it counts ${rows} rows, its row groups ${counted}`);
    return {
      schema: new Schema(fields, new Map(metadata)),
      losses,
      async *batches(isWanted, columns) {
        const names = fields.map(({ name }) => name).filter(columns ?? (() => true));
        const chosen = names.length === fields.length ? undefined : names;
        let row = 0;
        try {
          for (const [n, group] of groups.entries()) {
            const first = row;
            const end = row + group.rows;
            if (isWanted?.(row, end) ?? true) {
              try {
                for await (const ipc of groupBatches(thread, n, group, chosen))
                  for (const batch of RecordBatchReader.from(ipc)) {
                    if (batch.numRows === 0) continue;
                    checkBatch(batch);
                    const share = [row / rows, (row + batch.numRows) / rows] as const;
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
          await close();
        }
      },
      close,
    };
  } catch (error) {
    await close();
    throw damaged(error, path, 'its footer');
  }
}

/** Reads a footer; where that declares dictionaries, as if it did not. */
async function openedFooter(thread: Thread<DecoderThread>, path: string) {
  const open = async (hidesArrowSchema: boolean) => {
    const facts: ParquetFacts = await thread.call('open', [path, hidesArrowSchema]);
    return { facts, fields: RecordBatchReader.from(facts.schema).open().schema.fields };
  };
  // what its writer said of Arrow may be damaged: its own types are there all the same
  const found = await open(false).catch((error: unknown) => open(true).catch(() => Promise.reject(error)));
  const dictionaries = found.fields.filter(({ type }) => findType(type, DataType.isDictionary));
  const { facts, fields } = dictionaries.length === 0 ? found : await open(true);
  const losses = new Map<string, string>();
  const kind = ({ type }: Field) => typeName(plainType(type, new Set()));
  for (const [n, declared] of found.fields.entries()) {
    const [was, is] = [kind(declared), kind(fields[n] as Field)];
    if (was !== is)
      losses.set(declared.name, `is ${was} and read as ${is}, as another column has a dictionary`);
  }
  for (const { name } of dictionaries) losses.set(name, 'its dictionary is written out as plain values');
  return { facts, fields, losses };
}

/** Arrow IPC streams of one batch each; parquet-wasm may end early without a word, so the caller counts. */
async function* groupBatches(
  thread: Thread<DecoderThread>,
  group: number,
  { rows, bytes }: ParquetFacts['groups'][number],
  columns: string[] | undefined,
): AsyncGenerator<Uint8Array> {
  const rowBytes = bytes / Math.max(1, rows);
  const batchRows = Math.min(MAX_BATCH_ROWS, Math.max(1, Math.floor(DECODED_BYTES / rowBytes)));
  await thread.call('want', [group, batchRows, columns]);
  const coming = Array.from({ length: MAX_IN_FLIGHT }, () => thread.call('next', []));
  for (let ipc = await coming.shift(); ipc !== undefined; ipc = await coming.shift()) {
    yield ipc;
    coming.push(thread.call('next', []));
  }
}

/** How long a thread may take for what is asked of it already when nobody wants it any more. */
const PATIENCE_MS = 200;

/** A thread without work: to start one takes longer than to read a small file. It does not keep the program alive. */
let spare: Thread<DecoderThread> | undefined;

function takeThread(): Thread<DecoderThread> {
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
