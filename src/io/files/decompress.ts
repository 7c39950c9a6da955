// Unpacks compressed files; one that ends too early gives all that it has before it says so.
import { crc32, createInflateRaw, type InflateRaw } from 'node:zlib';
import { dataError, RredcotError } from '../../errors.js';
import { shellWord } from '../../printable.js';
import type { ReadOptions } from '../../rows.js';

export type Compression = 'gzip' | 'zstd';

/** Thrown after the last byte that could be had: the input ends inside its compressed data. */
export class TruncatedError extends Error {}

/** So much is unpacked at a time, which grows to 64 MiB at the most: gzip by a factor of 1,032, zstd by one of 32,768 (4 bytes make a block). */
const PIECE_BYTES = { gzip: 16 * 2 ** 10, zstd: 2 * 2 ** 10 } as const;
const GUNZIP_CHUNK_BYTES = 2 ** 18;

/** Unpacks bytes; `onBytes` is told of packed ones. @throws TruncatedError at the end, RredcotError (exit 65) where the data is corrupt */
export async function* decompress(
  packed: AsyncIterable<Buffer>,
  compression: Compression,
  file: string,
  { onBytes, onLoss }: Pick<ReadOptions, 'onBytes' | 'onLoss'> = {},
): AsyncGenerator<Buffer> {
  const tail = `${file}: what stands behind the end of its gzip data is no gzip data, and is ignored`;
  const unpacker = compression === 'gzip' ? gunzip(() => onLoss?.('input_tail', tail)) : await unzstd();
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

const MAGIC = Buffer.from([0x1f, 0x8b, 8]);
const FLAGS = { headerChecksum: 2, extra: 4, name: 8, comment: 16 };
const [HEADER_BYTES, TRAILER_BYTES, MOST_HEADER_BYTES] = [10, 8, 2 ** 20];

/** Where the deflated data begin behind a member's header; undefined where that is not whole. */
function headerEnd(bytes: Buffer): number | undefined {
  const flags = bytes[3] ?? 0;
  let at = HEADER_BYTES;
  if (flags & FLAGS.extra) at += 2 + (bytes.length < at + 2 ? 0 : bytes.readUInt16LE(at));
  for (const flag of [FLAGS.name, FLAGS.comment]) if (flags & flag) at = bytes.indexOf(0, at) + 1 || Infinity;
  if (flags & FLAGS.headerChecksum) at += 2;
  return at <= bytes.length ? at : undefined;
}

// member by member, as Node's own gunzip ends without a word where something else stands behind the last one
function gunzip(onTail: () => void): Unpacker {
  const ready: Buffer[] = [];
  let held: Buffer = Buffer.alloc(0);
  let [members, crc, size, hasTail] = [0, 0, 0, false];
  let body: InflateRaw | undefined; // of the member that is open

  /** Gives all that is held to the open member, which leaves what is behind its data. */
  async function inflate(stream: InflateRaw): Promise<void> {
    const before = stream.bytesWritten;
    await new Promise<void>((resolve, reject) => {
      stream.once('error', reject).once('end', resolve);
      stream.write(held, () => resolve());
    });
    stream.removeAllListeners('error').removeAllListeners('end');
    held = held.subarray(stream.bytesWritten - before);
  }
  return {
    async push(bytes) {
      if (!hasTail) held = Buffer.concat([held, bytes]);
      while (held.length > 0) {
        if (body === undefined) {
          // zeros fill up a tape's block
          while (members > 0 && held[0] === 0)
            held = held.subarray(held.findIndex((byte) => byte !== 0) >>> 0);
          const isMember = MAGIC.subarray(0, held.length).equals(held.subarray(0, MAGIC.length));
          const from = headerEnd(held);
          if (!isMember && members > 0) {
            hasTail = true;
            onTail();
            held = held.subarray(held.length);
          } else if (!isMember || (from === undefined && held.length > MOST_HEADER_BYTES))
            throw new Error('it has no header');
          if (from === undefined || held.length === 0) break;
          held = held.subarray(from);
          [crc, size] = [0, 0];
          body = createInflateRaw({ chunkSize: GUNZIP_CHUNK_BYTES }).on('data', (chunk: Buffer) => {
            crc = crc32(chunk, crc);
            size = (size + chunk.length) >>> 0;
            ready.push(chunk);
          });
        } else if (!body.readableEnded) await inflate(body);
        else if (held.length < TRAILER_BYTES) break;
        else if (held.readUInt32LE(0) !== crc || held.readUInt32LE(4) !== size)
          throw new Error('a checksum differs');
        else [held, body, members] = [held.subarray(TRAILER_BYTES), undefined, members + 1];
      }
      return ready.splice(0);
    },
    end() {
      if (body !== undefined || held.length > 0 || members === 0)
        throw new TruncatedError('the gzip data ends too early');
      return [];
    },
    close: () => body?.destroy(),
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
  return code === undefined || typeof code === 'number' || String(code).startsWith('Z_');
}
