// Stdout as a sink of bytes: at the pace of its reader, with a quiet end when that goes away.
import type { Writable } from 'node:stream';
import type { Facts } from './facts.js';
import { fileError } from './files.js';

/** The reader of our output closed its end (`| head`): no failure, but nothing more can be written. */
export class ReaderClosedError extends Error {
  constructor(cause: unknown) {
    super('the reader of the output closed its end', { cause });
    this.name = 'ReaderClosedError';
  }
}

/** Bytes on their way out, one `write` after the other. */
export interface ByteSink {
  write(bytes: Uint8Array): Promise<void>;
  /** all is written: make it durable. @param facts what a columnar file says of it */
  finish(facts?: Facts): Promise<void>;
  /** drop what can be dropped; harmless when called twice */
  abort(): Promise<void>;
}

const CLOSED_CODES = new Set(['EPIPE', 'ECONNRESET', 'ERR_STREAM_DESTROYED', 'ERR_STREAM_WRITE_AFTER_END']);

/** Opens a stream as a sink; a write is done when the stream has passed its bytes on. */
export function openStreamSink(stream: Writable = process.stdout): ByteSink {
  let failure: Error | null = null;
  // without a listener a closed pipe would end the process with an uncaught error
  const onError = (error: Error): void => {
    failure ??= closedOr(error);
  };
  stream.on('error', onError);
  return {
    write: (bytes) =>
      new Promise((resolve, reject) => {
        if (failure !== null) return reject(failure);
        stream.write(bytes, (error) => (error ? reject(closedOr(error)) : resolve()));
      }),
    finish: async () => {
      if (failure !== null) throw failure;
      stream.off('error', onError);
    },
    // a listener stays on: the error of a write under way may still come
    abort: async () => {},
  };
}

function closedOr(error: Error): Error {
  const { code = '' } = error as NodeJS.ErrnoException;
  return CLOSED_CODES.has(code)
    ? new ReaderClosedError(error)
    : (fileError(error, 'stdout', 'written') as Error);
}
