// Parts of Parquet files in, Arrow IPC out, through a worker thread: one part at a time, of whichever file.

import { Worker } from 'node:worker_threads';
import type { RowGroup } from './parquet-footer.js';
import type { ParquetPart } from './parquet-part.js';
import type { FromParquetReader, ToParquetReader } from './parquet-read-worker.js';

/** Raw bytes of a batch on its way. */
const BATCH_BYTES = 8 * 2 ** 20;
const MAX_BATCH_ROWS = 8192;

/** The thread; it is started when it is needed, and anew after a part that has wrecked it. */
export interface ParquetDecoder {
  /** An Arrow IPC stream without any batch. @throws Error for every failure of the thread, its end too */
  schema(path: string, part: ParquetPart): Promise<Uint8Array>;
  /**
   * Arrow IPC streams of one batch each, to be read to the end, or returned, before anything else is asked for.
   * parquet-wasm may end early without a word, so the caller counts.
   * @param cuts rows of the group at which a batch has to end, ascending
   * @throws Error for every failure of the thread, its end too
   */
  rows(path: string, group: RowGroup, cuts?: readonly number[]): AsyncGenerator<Uint8Array>;
  close(): Promise<void>;
}

export function openParquetDecoder(): ParquetDecoder {
  let thread: Thread | null = null;
  async function close(): Promise<void> {
    const last = thread;
    thread = null;
    await last?.close();
  }
  async function* answers(question: ToParquetReader): AsyncGenerator<Uint8Array> {
    thread ??= startThread();
    const asked = thread;
    let isEnded = false;
    try {
      asked.post(question);
      for (let answer = await asked.next(); answer.kind === 'ipc'; answer = await asked.next()) {
        yield answer.ipc;
        asked.post({ kind: 'taken' });
      }
      isEnded = true;
    } finally {
      // wrecked, or at work on what nobody wants
      if (!isEnded) await close();
    }
  }
  return {
    async schema(path, part) {
      let schema: Uint8Array | undefined;
      for await (const ipc of answers({ kind: 'schema', path, part })) schema = ipc;
      if (schema === undefined) throw new Error('no schema came');
      return schema;
    },
    rows(path, group, cuts = []) {
      const rowBytes = group.bytes / Math.max(1, group.rows);
      const batchRows = Math.min(MAX_BATCH_ROWS, Math.max(1, Math.floor(BATCH_BYTES / rowBytes)));
      return answers({ kind: 'rows', path, part: group.part(), batchRows, cuts });
    },
    close,
  };
}

interface Thread {
  post(message: ToParquetReader): void;
  next(): Promise<Exclude<FromParquetReader, { kind: 'failed' }>>;
  close(): Promise<void>;
}

function startThread(): Thread {
  const worker = new Worker(new URL('./parquet-read-worker.js', import.meta.url));
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
  // what a thread has said comes before its exit, not before its crash
  let end = 'ended early';
  worker.on('error', (error) => {
    end = `crashed: ${error.message}`;
  });
  worker.on('exit', () => fail(new Error(`the decoder ${end}`)));
  return {
    post: (message) => worker.postMessage(message),
    async next() {
      while (inbox.length === 0 && failure === null)
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      const message = inbox.shift();
      if (message === undefined) throw failure;
      if (message.kind === 'failed')
        throw Object.assign(new Error(message.message), message.code && { code: message.code });
      return message;
    },
    async close() {
      await worker.terminate();
    },
  };
}
