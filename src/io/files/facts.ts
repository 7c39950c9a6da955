// What a file of rows says of what it holds, and the hash of its bytes: a text of fixed length in the metadata of a Parquet or Arrow file,
// written when all is known.
import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { z } from 'zod';
import { jsonOf } from '../arrow/json.js';
import { fileError, type OpenFile, openFile, readWhole, writeWhole } from './files.js';

/** The key in the metadata. */
export const FACTS_KEY = 'rredcot.facts';

export const Count = z.int().nonnegative();
export const Sha256 = z.string().regex(/^[0-9a-f]{64}$/);

const FactsSchema = z.object({
  /** identity of the run */
  run: Sha256,
  /** which part of the run it is; absent where it is the whole */
  number: Count.optional(),
  traces: Count,
  rejects: Count,
  /** of the completions */
  tokens: Count,
  /** of which padding was cut off, and how much */
  padded_traces: Count,
  padding_tokens: Count,
  /** Σσ over all rows */
  sigma: z.number(),
  /** of the file of rejects; null where there are none */
  rejects_sha256: Sha256.nullable(),
  /** of the file, with {@link UNKNOWN} in the place of this text; of JSON lines, beside which it stands, of all bytes */
  sha256: Sha256,
});
/** What is known of a file's rows, and of its bytes. */
export type WrittenFacts = Readonly<z.infer<typeof FactsSchema>>;
/** The first of these. */
export type Facts = Omit<WrittenFacts, 'sha256'>;

/** What the text begins with, by which it is found. */
const BEGIN = '{"rredcot_facts":2,';
/** The longest numbers leave some of it blank. */
const LENGTH = 480;
/** What stands there until the file is whole. */
export const UNKNOWN = 'rredcot says here what the file holds, when it is written.'.padEnd(LENGTH, '.');

export function factsText(facts: WrittenFacts): string {
  return `${BEGIN}${JSON.stringify(facts).slice(1)}`;
}

/** undefined for what nobody of ours has written. */
export function parseFacts(text: string | undefined): WrittenFacts | undefined {
  return FactsSchema.safeParse(jsonOf(text ?? '')).data;
}

/** The hash of a file's bytes, as its metadata say it. */
export function hashSaid(metadata: ReadonlyMap<string, string>): string | undefined {
  return parseFacts(metadata.get(FACTS_KEY))?.sha256;
}

/** Writes them into a whole file. @throws Error where the metadata have no place for them */
export async function writeFacts(file: FileHandle, facts: Facts): Promise<void> {
  const { size } = await file.stat();
  const places = (await metadataRegions(file, size)).flatMap((region) => placesOf(region, UNKNOWN));
  if (places.length === 0) throw new Error('the metadata have no place for what the file holds');
  const text = factsText({ ...facts, sha256: await hashWithout(file, size, []) }).padEnd(LENGTH);
  for (const place of places) await writeWhole(file, Buffer.from(text, 'latin1'), place);
}

/** What a Parquet or Arrow file says; undefined where it says nothing. */
export function factsOf(path: string): Promise<WrittenFacts | undefined> {
  return inFile(path, async (_, __, regions) => parseFacts(factsIn(regions)));
}

/** What is wrong with the bytes of a Parquet or Arrow file: null where nothing is, undefined where it does not say what they were. */
export function bytesFault(path: string): Promise<string | null | undefined> {
  return inFile(path, async (file, size, regions) => {
    const text = factsIn(regions);
    const facts = parseFacts(text);
    if (text === undefined || facts === undefined) return undefined;
    const places = regions.flatMap((region) => placesOf(region, text));
    return (await hashWithout(file, size, places)) === facts.sha256
      ? null
      : 'is not the file that was written: its bytes have another hash than its metadata say';
  });
}

async function inFile<T>(
  path: string,
  look: (file: OpenFile, size: number, regions: readonly Region[]) => Promise<T>,
): Promise<T> {
  try {
    await using file = await openFile(path);
    const { size } = await file.stat();
    return await look(file, size, await metadataRegions(file, size));
  } catch (error) {
    throw fileError(error, path, 'read');
  }
}

/** A range of a file: where its metadata stand. */
interface Region {
  readonly from: number;
  readonly bytes: Buffer;
}

function placesOf({ from, bytes }: Region, text: string): number[] {
  const places: number[] = [];
  for (let at = bytes.indexOf(text, 0, 'latin1'); at >= 0; at = bytes.indexOf(text, at + 1, 'latin1'))
    places.push(from + at);
  return places;
}

function factsIn(regions: readonly Region[]): string | undefined {
  for (const { bytes } of regions) {
    const at = bytes.indexOf(BEGIN, 0, 'latin1');
    if (at >= 0) return bytes.toString('latin1', at, at + LENGTH);
  }
  return undefined;
}

const PIECE_BYTES = 4 * 2 ** 20;

/** The file's hash with the text of before at the given places. */
async function hashWithout(file: OpenFile, size: number, places: readonly number[]): Promise<string> {
  const hash = createHash('sha256');
  for (let from = 0; from < size; from += PIECE_BYTES) {
    const bytes = await readWhole(file, Buffer.alloc(Math.min(PIECE_BYTES, size - from)), from);
    for (const place of places)
      for (let n = Math.max(0, from - place); n < LENGTH && place + n < from + bytes.length; n++)
        bytes[place + n - from] = UNKNOWN.charCodeAt(n);
    hash.update(bytes);
  }
  return hash.digest('hex');
}

const PARQUET = 'PAR1';
const ARROW = 'ARROW1';
const ARROW_HEAD = 8;
const CONTINUATION = 0xffffffff;
const MAX_REGION_BYTES = 2 ** 30;

/** Where a file of either format keeps its metadata; none for other files. */
async function metadataRegions(file: OpenFile, size: number): Promise<Region[]> {
  /** nothing of what is not in the file */
  const region = async (from: number, length: number): Promise<Region> => {
    const isInside = from >= 0 && length >= 0 && length <= MAX_REGION_BYTES && from + length <= size;
    return { from, bytes: await readWhole(file, Buffer.alloc(isInside ? length : 0), from) };
  };
  /** the schema of an Arrow stream that begins there */
  const schema = async (from: number): Promise<Region> => {
    const { bytes } = await region(from, 8);
    const isMessage = bytes.length === 8 && bytes.readUInt32LE(0) === CONTINUATION;
    return region(from + 8, isMessage ? bytes.readInt32LE(4) : 0);
  };
  const head = (await region(0, Math.min(size, ARROW_HEAD))).bytes.toString('latin1');
  if (head.startsWith(PARQUET)) {
    const { bytes } = await region(size - 8, 8);
    const length = bytes.length === 8 ? bytes.readUInt32LE(0) : 0;
    return [await region(size - 8 - length, length)];
  }
  if (!head.startsWith(ARROW)) return [await schema(0)];
  const { bytes } = await region(size - 4 - ARROW.length, 4);
  const length = bytes.length === 4 ? bytes.readInt32LE(0) : 0;
  return [await schema(ARROW_HEAD), await region(size - 4 - ARROW.length - length, length)];
}
