// Unpacks compressed files; one that ends too early gives all that it has before it says so.
import { createGunzip } from 'node:zlib';
import { dataError, RredcotError } from '../../errors.js';
import { shellWord } from '../../printable.js';

export type Compression = 'gzip' | 'zstd';

/** Thrown after the last byte that could be had: the input ends inside its compressed data. */
export class TruncatedError extends Error {}

/**
 * So much is unpacked at a time, which bounds what one piece can grow to, some 16 to 64 MiB: gzip by a factor of 1,032,
 * zstd by one of 32,768 (four bytes make a block of 128 KiB).
 */
const PIECE_BYTES = { gzip: 16 * 2 ** 10, zstd: 2 * 2 ** 10 } as const;
const GUNZIP_CHUNK_BYTES = 2 ** 18;

/**
 * Unpacks bytes.
 * @param onBytes told of packed ones before they are unpacked
 * @throws TruncatedError at the end, RredcotError (exit 65) where the data is corrupt
 */
export async function* decompress(
  packed: AsyncIterable<Buffer>,
  compression: Compression,
  file: string,
  onBytes?: (count: number) => void,
): AsyncGenerator<Buffer> {
  const unpacker = compression === 'gzip' ? gunzip() : await unzstd();
  const piece = PIECE_BYTES[compression];
  let taken = 0;
  try {
    for await (const chunk of packed) {
      for (let at = 0; at < chunk.length; at += piece) {
        const packed = chunk.subarray(at, at + piece);
        onBytes?.(packed.length);
        yield* await unpacker.push(packed);
        taken += packed.length;
      }
    }
    yield* await unpacker.end();
  } catch (error) {
    // what stops the reader is no fault of the file's
    if (error instanceof RredcotError || error instanceof TruncatedError || !isCorruption(error)) throw error;
    throw dataError(
      `${file}: the ${compression} data cannot be unpacked near byte ${taken}: ${(error as Error).message}`,
      `fetch the file again, or unpack it first; ${compression} -t ${shellWord(file)} shows damage`,
      error,
    );
  } finally {
    unpacker.close();
  }
}

interface Unpacker {
  push(bytes: Buffer): Buffer[] | Promise<Buffer[]>;
  /** @throws TruncatedError */
  end(): Buffer[] | Promise<Buffer[]>;
  close(): void;
}

// zlib drops what it has decoded when it finds the end missing, so it is told of the end only after all bytes went in
function gunzip(): Unpacker {
  const stream = createGunzip({ chunkSize: GUNZIP_CHUNK_BYTES });
  const ready: Buffer[] = [];
  let failure: Error | null = null;
  let wake = (): void => {};
  stream.on('data', (chunk: Buffer) => ready.push(chunk));
  stream.on('error', (error) => {
    failure = error;
    wake();
  });
  async function step(start: (done: () => void) => void): Promise<Buffer[]> {
    await new Promise<void>((resolve) => {
      wake = resolve;
      if (failure === null) start(resolve);
      else resolve();
    });
    if (failure !== null) throw failure;
    return ready.splice(0);
  }
  return {
    push: (bytes) => step((done) => stream.write(bytes, () => done())),
    async end() {
      try {
        return await step((done) => {
          stream.once('end', done);
          stream.end();
        });
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'Z_BUF_ERROR')
          throw new TruncatedError('the gzip data ends too early');
        throw error;
      }
    },
    close: () => stream.destroy(),
  };
}

/** What zstd itself unpacks unless told otherwise (windowLog 27), and so what its own levels make. */
const MOST_WINDOW_BYTES = 128 * 2 ** 20;

// Node's own zstd, where there is one, stops after the first frame without an error
async function unzstd(): Promise<Unpacker> {
  const { Decompress, ZstdErrorCode } = await import('fzstd');
  const ready: Buffer[] = [];
  const stream = new Decompress((chunk) => {
    if (chunk.length > 0) ready.push(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength));
  });
  return {
    push(bytes) {
      stream.push(bytes);
      // fzstd moves a whole window for every block; its own bound is 2 GB
      const { s: frame } = stream as unknown as { s?: { e?: number } | number };
      if (typeof frame === 'object' && (frame.e ?? 0) > MOST_WINDOW_BYTES)
        throw new Error(`a frame needs more than ${MOST_WINDOW_BYTES} bytes`);
      return ready.splice(0);
    },
    end() {
      try {
        stream.push(new Uint8Array(0), true);
      } catch (error) {
        if ((error as { code?: unknown }).code === ZstdErrorCode.UnexpectedEOF)
          throw new TruncatedError('the zstd data ends too early');
        throw error;
      }
      return ready.splice(0);
    },
    close() {},
  };
}

// zlib's codes begin with Z_, fzstd's are small numbers; the file system's are neither
function isCorruption(error: unknown): boolean {
  const code = (error as { code?: unknown } | null)?.code;
  return (
    typeof code === 'number' || (typeof code === 'string' && code.startsWith('Z_')) || code === undefined
  );
}
