// A Parquet or Arrow file's hash of its own bytes, kept in its metadata: written when the file is whole, and checked.
//
// The metadata hold a text of 64 characters, which stands for itself while the file is hashed and
// is then written over with the hash: whoever puts it back and hashes again must find the same.
import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { readWhole, writeWhole } from './file-bytes.js';
import { type OpenFile, openFile } from './opened.js';

/** The key in a file's metadata. */
export const HASH_KEY = 'rredcot.sha256';

/** What stands there until the file is whole. */
export const UNSEALED = 'rredcot puts the hash of the whole file here when it is written.'.padEnd(64, '.');

/** All keys of our metadata begin so. */
const OUR_KEYS = 'rredcot.';
const MAX_REGION_BYTES = 2 ** 30;

/** A range of a file: where its metadata stand. */
interface Region {
  readonly from: number;
  readonly bytes: Buffer;
}

/**
 * Writes a file's hash into its metadata.
 * @param hash of all bytes as they are; undefined: they are read again
 * @throws Error where the metadata have no place for it
 */
export async function sealFile(file: FileHandle, hash?: string): Promise<void> {
  const { size } = await file.stat();
  const places = (await metadataRegions(file, size)).flatMap((region) => placesOf(region, UNSEALED));
  if (places.length === 0) throw new Error('the metadata have no place for the hash of the file');
  const seal = Buffer.from(hash ?? (await hashWithout(file, size, [])), 'latin1');
  for (const place of places) await writeWhole(file, seal, place);
}

/**
 * Whether a Parquet or Arrow file has the bytes that were written.
 * @returns what is wrong, null where nothing is, undefined for a file that another program has written
 */
export async function sealFault(path: string): Promise<string | null | undefined> {
  await using file = await openFile(path);
  const { size } = await file.stat();
  const regions = await metadataRegions(file, size);
  const texts = regions.map(({ bytes }) => bytes.toString('latin1'));
  if (!texts.some((text) => text.includes(OUR_KEYS))) return undefined;
  // in Parquet behind its key, in Arrow a text of 64 characters like others
  const behindKey = new RegExp(`${HASH_KEY}\\x18\\x40([0-9a-f]{64})`);
  const ofLength = /\x40\0\0\0([0-9a-f]{64})\0/g;
  const found = texts.flatMap((text) => [
    ...(behindKey.exec(text)?.slice(1, 2) ?? []),
    ...Array.from(text.matchAll(ofLength), ([, value]) => value as string),
  ]);
  for (const seal of new Set(found)) {
    const places = regions.flatMap((region) => placesOf(region, seal));
    if ((await hashWithout(file, size, places)) === seal) return null;
  }
  return 'is not the file that was written: its bytes have another hash than its metadata say';
}

function placesOf({ from, bytes }: Region, text: string): number[] {
  const places: number[] = [];
  for (let at = bytes.indexOf(text, 0, 'latin1'); at >= 0; at = bytes.indexOf(text, at + 1, 'latin1'))
    places.push(from + at);
  return places;
}

/** The file's hash with the text of before at the given places. */
async function hashWithout(file: OpenFile, size: number, places: readonly number[]): Promise<string> {
  const hash = createHash('sha256');
  const pieceBytes = 4 * 2 ** 20;
  for (let from = 0; from < size; from += pieceBytes) {
    const bytes = Buffer.alloc(Math.min(pieceBytes, size - from));
    await readWhole(file, bytes, from);
    for (const place of places)
      for (let n = 0; n < UNSEALED.length; n++)
        if (place + n >= from && place + n < from + bytes.length)
          bytes[place + n - from] = UNSEALED.charCodeAt(n);
    hash.update(bytes);
  }
  return hash.digest('hex');
}

const PARQUET = 'PAR1';
const ARROW = 'ARROW1';
const ARROW_HEAD = 8;
const CONTINUATION = 0xffffffff;

/** Where a file of either format keeps its metadata; none for other files. */
async function metadataRegions(file: OpenFile, size: number): Promise<Region[]> {
  const at = async (from: number, length: number): Promise<Buffer> => {
    const isInside = from >= 0 && length >= 0 && length <= MAX_REGION_BYTES && from + length <= size;
    return isInside ? readWhole(file, Buffer.alloc(length), from) : Buffer.alloc(0);
  };
  const region = async (from: number, length: number): Promise<Region> => {
    return { from, bytes: await at(from, length) };
  };
  /** the schema of an Arrow stream that begins there */
  const schema = async (from: number): Promise<Region> => {
    const head = await at(from, 8);
    const isMessage = head.length === 8 && head.readUInt32LE(0) === CONTINUATION;
    return region(from + 8, isMessage ? head.readInt32LE(4) : 0);
  };
  const head = (await at(0, Math.min(size, ARROW_HEAD))).toString('latin1');
  if (head.startsWith(PARQUET)) {
    const tail = await at(size - 8, 8);
    const length = tail.length === 8 ? tail.readUInt32LE(0) : 0;
    return [await region(size - 8 - length, length)];
  }
  if (!head.startsWith(ARROW)) return [await schema(0)];
  const tail = await at(size - 4 - ARROW.length, 4);
  const length = tail.length === 4 ? tail.readInt32LE(0) : 0;
  return [await schema(ARROW_HEAD), await region(size - 4 - ARROW.length - length, length)];
}
