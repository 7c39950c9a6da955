// What a scored file was made of: where it says so, and whether what is read is a part of a data set.
import { basename, dirname, resolve } from 'node:path';
import { dataError } from '../errors.js';
import { statIfThere } from '../io/files/file-error.js';
import { runPaths } from '../io/files/run-paths.js';
import { isJson } from '../io/read/formats.js';
import { type Input, inputMetadata } from '../io/read/inputs.js';
import { RUN_KEY } from '../io/write/output.js';
import { PART_KEY, type Part, parsePart } from '../io/write/part.js';
import { readRunState } from '../run/state.js';
import { readMerged, readSummary } from '../run/summary-file.js';

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
