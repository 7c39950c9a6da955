// What a scored file was made of: where it says so, whether what is read is a part of a data set, and whether it and what lies beside it have the bytes that were written.
import { basename, dirname, resolve } from 'node:path';
import { dataError, type RredcotError } from '../../errors.js';
import { shardOf } from '../files/chunks.js';
import { sha256OfFile } from '../files/file-bytes.js';
import { statIfThere } from '../files/file-error.js';
import { readSum, sumPath } from '../files/json-file.js';
import { runPaths, summaryPath } from '../files/run-paths.js';
import { sealFault } from '../files/seal.js';
import { isJson } from '../read/formats.js';
import { type Input, inputMetadata } from '../read/inputs.js';
import { chunkDamage } from '../run/records.js';
import { readRunState, recordsInOrder } from '../run/state.js';
import { readMerged, readSummary, type StoredSummary } from '../run/summary-file.js';
import { RUN_KEY } from '../write/output.js';
import { PART_KEY, type Part, parsePart } from '../write/part.js';
import type { Finding } from './check-rows.js';

/** The key of a file's metadata under which stands what it was redistributed from. */
export const REDISTRIBUTED_KEY = 'rredcot.redistributed';

/** A file that is a part of a data set. */
export interface FoundPart {
  readonly path: string;
  readonly part: Part;
}

/** What an input says of itself, or is by its place. */
interface PartOfRun {
  readonly part: Part;
  /** identity of its run */
  readonly run: string | undefined;
}

/**
 * The first of the inputs that is a part of a data set: by what its metadata say, or the summary beside JSON lines, or as one piece of
 * a run or of a merged folder, the others of which are not among the inputs. JSON lines on stdin do not tell.
 * @throws RredcotError (exit 65) for metadata that no rredcot has written
 */
export async function partOf(inputs: readonly Input[]): Promise<FoundPart | undefined> {
  const places = new Map<string, PartOfRun | undefined>();
  const runs = new Map<string, { readonly path: string; pieces: number; readonly of: number | null }>();
  for (const input of inputs) {
    const folder = dirname(resolve(input.path));
    if (!places.has(folder) && input.stream === null) places.set(folder, await placeAt(folder));
    const said = places.get(folder) ?? (await saidBy(input));
    if (said === undefined) continue;
    const { part, run } = said;
    if (part.by !== 'pieces' || part.pieces !== 1 || run === undefined) return { path: input.path, part };
    const found = runs.get(run) ?? { path: input.path, pieces: 0, of: part.of };
    found.pieces++;
    runs.set(run, found);
  }
  for (const { path, pieces, of } of runs.values())
    if (pieces !== of) return { path, part: { by: 'pieces', pieces, of } };
  return undefined;
}

/** How many traces of a scored file's run were rejected, as far as what lies beside it says: they are not in it, and were of its groups. */
export async function rejectsOf(path: string): Promise<number> {
  const beside = (await readSummary(path))?.rejects ?? (await readMerged(path))?.rejects;
  if (beside !== undefined || (await statIfThere(runPaths(path).run)) === null) return beside ?? 0;
  const { shards } = await readRunState(path, () => {});
  return shards.reduce((sum, { counts }) => sum + counts.rejects, 0);
}

/** @param of pieces of the whole; null where nobody has counted them */
function oneOf(of: number | null): Part {
  return { by: 'pieces', pieces: 1, of };
}

async function saidBy(input: Input): Promise<PartOfRun | undefined> {
  if (isJson(input.layout)) {
    const { part, run } = (await readSummary(input.path)) ?? {};
    return part && { part, run };
  }
  const metadata = await inputMetadata(input);
  const part = parsePart(metadata.get(PART_KEY));
  if (part === null)
    throw dataError(
      `${input.path}: nobody can read what its metadata say under ${PART_KEY}`,
      'score the traces again, or write the rows to a file without these metadata',
    );
  return part && { part, run: metadata.get(RUN_KEY) };
}

/** @param folder in which chunks of a run lie, or files of a merged folder; undefined for any other */
async function placeAt(folder: string): Promise<PartOfRun | undefined> {
  const merged = await readMerged(folder);
  if (merged) return { run: merged.run, part: merged.part ?? oneOf(merged.files.length) };
  const above = dirname(dirname(folder));
  const isChunks = basename(dirname(folder)) === 'chunks';
  if (!isChunks || (await statIfThere(runPaths(above).run)) === null) return undefined;
  const { shards, part, description } = await readRunState(above, () => {});
  const { run } = description;
  if (part?.by === 'pieces') return { run, part: oneOf(part.of) };
  const pieces = shards.reduce((sum, { chunks }) => sum + chunks, 0);
  return { run, part: part ?? (await readSummary(above))?.part ?? oneOf(pieces) };
}

/** What is said of bytes that nobody of ours has written. */
export function edited(file: string, fault: string): RredcotError {
  return dataError(`${file}: ${fault}`, 'take the file as score wrote it; to edit rows, score them again');
}

/** What is wrong with a file's bytes: null where nothing is, undefined where nobody knows their hash. @param isText JSON lines */
export async function bytesFault(file: string, isText: boolean): Promise<string | null | undefined> {
  if (!isText) return sealFault(file);
  const sum = await readSum(file);
  if (sum === undefined) return undefined;
  if (sum === null) return `${basename(sumPath(file))} beside it is damaged, and says no hash of it`;
  const [expected] = sum.values();
  return (await sha256OfFile(file)) === expected
    ? null
    : `is not the file that was written: its bytes have another hash than ${basename(sumPath(file))}`;
}

/** Holds a folder against its records. @throws RredcotError (exit 65) */
export async function assertRecorded(folder: string): Promise<void> {
  const merged = await readMerged(folder);
  if (merged === null)
    throw dataError(`${folder}: its _merged.json is damaged`, 'rredcot merge makes it again');
  for (const { name, sha256 } of merged?.files ?? [])
    if ((await sha256OfFile(`${folder}/${name}`)) !== sha256)
      throw edited(`${folder}/${name}`, 'is not the file that was merged');
  if (merged !== undefined) return;
  const state = await readRunState(folder, () => {});
  const { shards, output } = state.description;
  for await (const record of recordsInOrder(state)) {
    const damage = await chunkDamage(folder, shardOf(record.chunk, shards), record, output);
    if (damage !== undefined) throw edited(folder, damage);
  }
}

/**
 * Finds the summary of a file's run.
 * @param run identity in the file's metadata; a file of lines has none, and the hash of its summary beside it
 * @returns the summary where it is that of the file's own run; what cannot be checked without it is a problem
 */
export async function ownSummary(
  file: string,
  run: string | undefined,
): Promise<{ summary: StoredSummary | undefined; findings: readonly Finding[]; problem?: string }> {
  const path = summaryPath(file);
  const summary = await readSummary(file);
  if (run !== undefined) return { summary: summary?.run === run ? summary : undefined, findings: [] };
  const sum = await readSum(file);
  const [, expected] = [...(sum ?? [])].find(([name]) => name.endsWith(summaryPath(''))) ?? [];
  // without a hash of it there is no telling whose it is
  if (expected === undefined) return { summary: undefined, findings: [] };
  const found = await sha256OfFile(path);
  if (found === null) {
    const problem = `${path} is not there: σ and what it follows from are not computed again`;
    return { summary: undefined, findings: [], problem };
  }
  if (found === expected && summary !== undefined) return { summary, findings: [] };
  const text = `is not the summary that was written: it has another hash than ${basename(sumPath(file))} says`;
  return { summary: undefined, findings: [{ file: path, text }] };
}
