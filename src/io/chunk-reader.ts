// The Parquet reading thread seen from the main thread: files in, Arrow batches out, one file at a time.
import { Worker } from 'node:worker_threads';
import type { FromChunkReader, ToChunkReader } from './chunk-read-worker.js';

/** A file's schema and metadata, and its rows batch by batch. */
export interface ParquetContents {
  readonly rows: number;
  /** an Arrow IPC stream without any batch */
  readonly schema: Uint8Array;
  readonly metadata: ReadonlyMap<string, string>;
  /** compressed bytes for one that is not */
  readonly compression: number;
  /** Arrow IPC streams of one batch each */
  readonly batches: AsyncGenerator<Uint8Array>;
}

/** The thread; it is started at the first file, and anew after a file that has wrecked it. */
export interface ChunkReader {
  /**
   * Opens a file; its batches have to be read to the end, or returned, before the next one is opened.
   * @param cuts rows at which a batch has to end, ascending
   */
  open(path: string, cuts?: readonly number[]): Promise<ParquetContents>;
  close(): Promise<void>;
}

export function openChunkReader(): ChunkReader {
  let worker: Worker | null = null;
  let failure: Error | null = null;
  let inbox: FromChunkReader[] = [];
  let wake: (() => void) | null = null;

  function start(): Worker {
    const started = new Worker(new URL('./chunk-read-worker.js', import.meta.url));
    const fail = (error: Error): void => {
      if (worker !== started) return;
      worker = null;
      failure = error;
      wake?.();
    };
    started.on('message', (message: FromChunkReader) => {
      if (worker === started) inbox.push(message);
      wake?.();
    });
    started.on('error', fail);
    started.on('exit', () => fail(new Error('the Parquet decoder ended early')));
    return started;
  }
  const post = (message: ToChunkReader): void => worker?.postMessage(message);

  async function next(path: string): Promise<Exclude<FromChunkReader, { kind: 'failed' }>> {
    for (;;) {
      const message = inbox.shift();
      if (message?.kind === 'failed') throw new Error(`${path}: ${message.message}`);
      if (message !== undefined) return message;
      if (failure !== null) throw new Error(`${path}: the Parquet decoder crashed: ${failure.message}`);
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  }

  async function* batches(path: string): AsyncGenerator<Uint8Array> {
    let isEnded = false;
    try {
      for (;;) {
        const message = await next(path);
        if (message.kind === 'ended') {
          isEnded = true;
          return;
        }
        if (message.kind !== 'batch') throw new Error(`${path}: unexpected ${message.kind}`);
        post({ kind: 'next' });
        yield message.ipc;
      }
    } catch (error) {
      isEnded = true;
      throw error;
    } finally {
      if (!isEnded) {
        post({ kind: 'stop' });
        while ((await next(path)).kind !== 'ended');
      }
    }
  }

  return {
    async open(path, cuts = []) {
      failure = null;
      inbox = [];
      worker ??= start();
      post({ kind: 'read', path, cuts });
      const opened = await next(path);
      if (opened.kind !== 'opened') throw new Error(`${path}: unexpected ${opened.kind}`);
      const { rows, schema, metadata, compression } = opened;
      return { rows, schema, metadata: new Map(metadata), compression, batches: batches(path) };
    },
    async close() {
      const ended = worker;
      worker = null;
      await ended?.terminate();
    },
  };
}
