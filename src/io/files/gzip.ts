// Packs bytes as one gzip member: the same bytes for the same input, whenever and wherever it ran.

import { constants, createGzip } from 'node:zlib';
import type { ByteSink } from './stdout.js';

/** Bytes 4 to 9 of the header: no modification time, no extra flags, an unknown operating system (RFC 1952). */
const ANONYMOUS = [0, 0, 0, 0, 0, 255] as const;
const HEADER_BYTES = 10;

/**
 * Opens a sink that compresses what it is given. A write is done when what came out of it has been passed on, so memory
 * stays bounded however slow the sink behind is. The bytes depend on the zlib that Node brings, and on nothing else.
 */
export function openGzipSink(sink: ByteSink): ByteSink {
  const gzip = createGzip({ level: constants.Z_DEFAULT_COMPRESSION });
  let compressed: Buffer[] = [];
  let isHeaderDue = true;
  gzip.on('data', (chunk: Buffer) => compressed.push(chunk));

  /** Passes on what has come out so far; the header is whole in the first chunk. */
  async function drain(): Promise<void> {
    const bytes = Buffer.concat(compressed);
    compressed = [];
    if (bytes.length === 0) return;
    if (isHeaderDue) bytes.set(ANONYMOUS, HEADER_BYTES - ANONYMOUS.length);
    isHeaderDue = false;
    await sink.write(bytes);
  }

  return {
    async write(bytes) {
      await new Promise<void>((resolve, reject) => {
        gzip.write(bytes, (error) => (error ? reject(error) : resolve()));
      });
      await drain();
    },
    async commit() {
      const ended = new Promise<void>((resolve, reject) => gzip.once('end', resolve).once('error', reject));
      gzip.end();
      await ended;
      await drain();
      return sink.commit();
    },
    async abort() {
      gzip.destroy();
      await sink.abort();
    },
  };
}
