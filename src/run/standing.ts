// Looks at what stands where an output is to go: what another run has made, or somebody else, is not replaced in silence.

import { OvertakenError, type RredcotError, usageError } from '../errors.js';
import { statIfThere } from '../io/files/file-error.js';
import { inputMetadata, resolveInputs } from '../io/read/inputs.js';
import type { InputPrint } from '../io/read/unchanged.js';
import {
  CONFIG_KEY,
  type Config,
  namedFormat,
  POLICY_KEY,
  RUN_KEY,
  VERSION_KEY,
} from '../io/write/output.js';
import { PART_KEY } from '../io/write/part.js';
import { bytesFault, ownSummary } from '../scored/as-written.js';
import { firstDifference } from './description.js';
import { readSummary } from './summary-file.js';

/** How an output was made, as far as it says so. */
export interface OutputOrigin {
  /** version of the program */
  readonly rredcot?: string | undefined;
  readonly config?: Config | undefined;
  /** sha256 of the policy's files; null without one */
  readonly policy?: Readonly<Record<string, string>> | null | undefined;
}

/** A file at the output's place. */
export interface Standing extends OutputOrigin {
  readonly path: string;
  /** identity of its run; undefined where nothing of ours says one */
  readonly run: string | undefined;
  /** what has cut it out of a data set, as its metadata say it */
  readonly part: string | undefined;
  /** as its summary says; 0 where none does */
  readonly counts: { readonly traces: number; readonly rejects: number };
  readonly mtimeMs: number;
}

/** What it says itself. */
type StandingFacts = Omit<Standing, 'path' | 'mtimeMs' | 'counts'>;

/** What stands at a path; undefined where nothing does. */
export async function standing(path: string): Promise<Standing | undefined> {
  const found = await statIfThere(path);
  if (found === null) return undefined;
  const summary = await readSummary(path);
  const said = await (namedFormat(path) === 'jsonl' ? ofLines(path) : ofColumns(path)).catch(
    // a file that nobody can read is none of ours
    (): undefined => undefined,
  );
  const { traces, rejects } = said?.run === summary?.run && summary ? summary : { traces: 0, rejects: 0 };
  const place = { path, mtimeMs: found.mtimeMs, counts: { traces, rejects } };
  return { run: undefined, part: undefined, ...said, ...place };
}

async function ofColumns(path: string): Promise<StandingFacts> {
  const [input] = await resolveInputs([path]);
  const metadata = input === undefined ? new Map<string, string>() : await inputMetadata(input);
  const json = <T>(key: string): T | undefined => {
    const text = metadata.get(key);
    return text === undefined ? undefined : (JSON.parse(text) as T);
  };
  return {
    run: metadata.get(RUN_KEY),
    part: metadata.get(PART_KEY),
    rredcot: metadata.get(VERSION_KEY),
    config: json(CONFIG_KEY),
    policy: json(POLICY_KEY) ?? null,
  };
}

/** JSON lines say nothing of their run, the summary beside them does. */
async function ofLines(path: string): Promise<StandingFacts | undefined> {
  const { summary } = await ownSummary(path);
  const { run, config, part } = summary ?? (await readSummary(path)) ?? {};
  return run === undefined ? undefined : { run, config, part: part && JSON.stringify(part) };
}

/** Why an output is not replaced: it is another run's, or none of ours. */
export function standsInTheWay({ path }: Pick<Standing, 'path'>, what: string): RredcotError {
  return usageError(
    `${path}: ${what}`,
    '--overwrite puts the new one in its place; or name another output with -o',
  );
}

/**
 * Compares what an output says of how it was made with what is asked for, before anything is computed.
 * @throws RredcotError (exit 2) naming what differs
 */
export function refuseOther(found: Standing, wanted: OutputOrigin): void {
  if (found.run === undefined) throw standsInTheWay(found, 'is there already, and is no output of a run');
  for (const key of ['rredcot', 'config', 'policy'] as const) {
    if (found[key] === undefined || wanted[key] === undefined) continue;
    const difference = firstDifference(found[key], JSON.parse(JSON.stringify(wanted[key])), key);
    if (difference !== undefined) throw standsInTheWay(found, `is the output of another run: ${difference}`);
  }
}

/**
 * The same, once the run's identity is known: what is left then are the inputs.
 * @returns false where it was cut short: JSON lines whose hash is not beside them yet
 * @param inputs whose contents the identity has at their beginning and end alone
 * @throws RredcotError (exit 2) for another run's output, and for one that was edited since
 */
export async function assertSame(
  found: Standing,
  run: string,
  inputs: readonly Pick<InputPrint, 'path' | 'mtime_ms'>[] = [],
): Promise<boolean> {
  if (found.run !== run)
    throw standsInTheWay(
      found,
      'is the output of another run: of other inputs, of these before they were edited, or with another --rows-per-chunk',
    );
  const younger = inputs.find(({ mtime_ms: mtime }) => mtime !== null && mtime > found.mtimeMs);
  if (younger !== undefined)
    throw standsInTheWay(found, `is older than its input: ${younger.path} was written since`);
  const isText = namedFormat(found.path) === 'jsonl';
  const fault = await bytesFault(found.path, isText);
  if (typeof fault === 'string') throw standsInTheWay(found, fault);
  return !isText || fault === null;
}

/**
 * Asked right before a file gets its name: another command may have been faster.
 * @throws RredcotError (exit 2) where another run's output stands there now
 */
export async function assertFree(path: string, run: string): Promise<void> {
  await assertOwn(path, (made) => made === run);
}

/** The same where only the place tells which run it was. @throws RredcotError (exit 2) */
export async function assertOwn(path: string, isOwn: (run: string | undefined) => boolean): Promise<void> {
  const found = await standing(path);
  if (found !== undefined && !isOwn(found.run)) throw new OvertakenError(path);
}
