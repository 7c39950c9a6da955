// Decodes parts of Parquet files to Arrow IPC in a worker thread: one part at a time, of whichever file.

import { setTimeout as after } from 'node:timers/promises';
import { startThread, type Thread } from '../../thread.js';
import type { DecoderThread, VersionedFile, Wanted } from './decoder-thread.js';
import type { RowGroup } from './footer.js';
import type { ParquetPart } from './part.js';

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
export function openParquetDecoder() {
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
