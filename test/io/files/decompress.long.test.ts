// Compressed input that unpacks to gigabytes: what is in memory at a time stays bounded, and nothing is lost.
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { EXIT, RredcotError } from '../../../dist/errors.js';
import { type Compression, decompress } from '../../../dist/io/files/decompress.js';
import { collect as collectAll } from '../../support/streams.js';

const GIB = 2 ** 30;
const BLOCK = 2 ** 17;
const MAGIC = [0x28, 0xb5, 0x2f, 0xfd];

/** A frame with a window of 2^log bytes, and blocks that repeat one byte: each is four bytes long. */
function runs(blocks: number, windowLog = 17): Buffer {
  const header = Buffer.from([...MAGIC, 0, (windowLog - 10) << 3]);
  const all = Buffer.alloc(4 * blocks);
  for (let n = 0; n < blocks; n++) {
    all.writeUIntLE((BLOCK << 3) | (1 << 1) | Number(n === blocks - 1), 4 * n, 3);
    all[4 * n + 3] = 0x61;
  }
  return Buffer.concat([header, all]);
}

setFlagsFromString('--expose-gc');
const collect: () => void = runInNewContext('gc');
/** Bytes between two looks at the memory. */
const LOOK = GIB / 32;

async function* inOne(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes;
}

/** Unpacks and throws away. @returns bytes, and the most that was held beside them: what waits to be collected is not */
async function unpack(packed: Buffer, compression: Compression) {
  const held = () => {
    collect();
    return process.memoryUsage().arrayBuffers;
  };
  const before = held();
  let [bytes, most, looked] = [0, 0, 0];
  for await (const chunk of decompress(inOne(packed), compression, 'bomb')) {
    bytes += chunk.length;
    if (bytes - looked < LOOK) continue;
    most = Math.max(most, held() - before);
    looked = bytes;
  }
  return { bytes, most };
}

describe('a gigabyte', () => {
  it('of zstd in 32 kB takes some 64 MiB at a time', async () => {
    const { bytes, most } = await unpack(runs(GIB / BLOCK), 'zstd');
    expect(bytes).toBe(GIB);
    expect(most).toBeLessThan(GIB / 6);
  });

  it('of gzip likewise: a quarter of one in 256 kB', async () => {
    const part = gzipSync(Buffer.alloc(GIB / 16, 0x61));
    const { bytes, most } = await unpack(Buffer.concat(Array<Buffer>(4).fill(part)), 'gzip');
    expect(bytes).toBe(GIB / 4);
    expect(most).toBeLessThan(GIB / 6);
  });
});

describe('a zstd frame', () => {
  it.each([28, 31])(
    'that wants a window of 2^%d bytes is refused, in the first frame or a later one',
    async (log) => {
      // one block as it is
      const large = Buffer.concat([
        Buffer.from([...MAGIC, 0, (log - 10) << 3, 1, 0, 0x10]),
        Buffer.alloc(BLOCK),
      ]);
      for (const packed of [large, Buffer.concat([runs(1000), large])])
        await expect(unpack(packed, 'zstd')).rejects.toMatchObject({
          exitCode: 65,
          message: expect.stringMatching(/^bomb: the zstd data cannot be unpacked near byte \d+: ./),
          hint: expect.stringContaining('unpack it first'),
        });
      expect((await unpack(runs(1, 27), 'zstd')).bytes).toBe(BLOCK);
    },
  );

  it('as zstd itself writes them, two in a file, is taken, at its highest level too', async ({ skip }) => {
    const text = Buffer.from(randomBytes(3 * BLOCK).toString('base64'));
    const parts = [text.subarray(0, BLOCK), text.subarray(BLOCK)];
    for (const flags of [['-1'], ['--ultra', '-22'], ['-19', '--long=27', '--no-check']]) {
      const pack = (input: Buffer) => execFileSync('zstd', ['-q', '-c', ...flags], { input });
      let packed: Buffer;
      try {
        packed = Buffer.concat(parts.map(pack));
      } catch {
        return skip('no zstd here');
      }
      expect(packed.length).toBeLessThan(0.9 * text.length);
      const unpacked = await collectAll(decompress(inOne(packed), 'zstd', 'text'));
      expect(Buffer.concat(unpacked).equals(text)).toBe(true);
    }
  });
});

it.each(['gzip', 'zstd'] as const)(
  'what stops the reader of %s is not taken for damage',
  async (compression) => {
    const stopped = new RredcotError('interrupted', { exitCode: EXIT.interrupted });
    async function* cut(): AsyncGenerator<Buffer> {
      yield Buffer.alloc(0);
      throw stopped;
    }
    await expect(decompress(cut(), compression, 'traces').next()).rejects.toBe(stopped);
  },
);
