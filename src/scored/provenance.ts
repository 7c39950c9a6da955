// What a scored file was made of: where it says so, and whether what is read is a part of a data set.
import { basename, dirname } from 'node:path';
import { dataError } from '../errors.js';
import { readJson } from '../io/files/files.js';
import { partNumber, runPaths } from '../io/files/run-folder.js';
import { isJson } from '../io/read/formats.js';
import { type Input, inputMetadata } from '../io/read/inputs.js';
import { factsOfFile } from '../io/write/facts.js';
import { RUN_KEY } from '../io/write/output.js';
import { PART_KEY, type Part, parsePart } from '../io/write/part.js';
import { readSummary } from '../io/write/summary-file.js';

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
 * a run, the others of which are not among the inputs. JSON lines on stdin do not tell.
 * @throws RredcotError (exit 65) for metadata that no rredcot has written
 */
export async function partOf(inputs: readonly Input[]): Promise<FoundPart | undefined> {
  const runs = new Map<string, { readonly path: string; pieces: number; readonly of: number | null }>();
  for (const input of inputs) {
    const said = await saidBy(input);
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

/** How many traces of the run of scored files were rejected, as far as they say so: they are not in them, and were of their groups. */
export async function rejectsOf(inputs: readonly Input[]): Promise<number> {
  const facts = await Promise.all(inputs.map(({ path }) => factsOfFile(path)));
  return facts.reduce((sum, found) => sum + (found?.rejects ?? 0), 0);
}

async function saidBy(input: Input): Promise<PartOfRun | undefined> {
  if (isJson(input.layout)) return input.stream === null ? saidBeside(input.path) : undefined;
  const metadata = await inputMetadata(input);
  const part = parsePart(metadata.get(PART_KEY));
  if (part === null)
    throw dataError(
      `${input.path}: nobody can read what its metadata say under ${PART_KEY}`,
      'score the traces again, or write the rows to a file without these metadata',
    );
  return part && { part, run: metadata.get(RUN_KEY) };
}

/** JSON lines say nothing themselves: what lies beside them does, or their run. */
async function saidBeside(path: string): Promise<PartOfRun | undefined> {
  const ofRun = partNumber(basename(path)) !== undefined;
  type Described = { readonly run?: string; readonly part?: unknown; readonly parts?: number };
  const found = ofRun ? await readJson<Described>(runPaths(dirname(path)).run) : await readSummary(path);
  const { run, part, parts = 1 } = (found ?? {}) as Described;
  const whole: Part | undefined = parts > 1 ? { by: 'pieces', pieces: 1, of: parts } : undefined;
  const own = parsePart(part ?? undefined) ?? whole;
  return own && { part: own, run };
}
