// A folder and the run that is asked for in, that run found there or begun out.
import { EXIT, RredcotError, usageError } from '../../errors.js';
import { readSmallFile } from '../files/json-file.js';
import { runPaths } from '../files/run-paths.js';
import { createRun, findRun, OtherRunError } from './begin.js';
import type { AskedRun, RunDescription, SameRun } from './description.js';
import { removeHidden } from './hidden.js';
import { dropRun, isBegun } from './remove.js';

export interface ClaimOptions {
  /** a folder of our own beside a single file, named by what the run is */
  readonly isHidden: boolean;
  /** drop the run that is there */
  readonly overwrite: boolean;
  /** the input cannot be read again, so a run cannot be resumed */
  readonly isStream: boolean;
  /** Says how large a chunk is, where the run has still to be begun. */
  readonly describe: () => Promise<{
    readonly run: SameRun;
    readonly stamps: RunDescription['policy_files'];
  }>;
}

/** The run of a folder. */
export interface ClaimedRun {
  readonly description: RunDescription;
  /** whether this process has begun it */
  readonly isOurs: boolean;
}

/**
 * Finds the run in a folder or begins it. Nobody is asked who works there: two attempts at one run may meet, and one whose run
 * is dropped finds that out before it keeps anything ({@link assertSameRun}).
 * @throws RredcotError (exit 2) where another run is there, naming the field that differs
 */
export async function claimRun(
  folder: string,
  asked: AskedRun,
  { isHidden, overwrite, isStream, describe }: ClaimOptions,
): Promise<ClaimedRun> {
  const taken = (): RredcotError =>
    usageError(
      `${folder}: holds a run, and a stream cannot be read again to resume it`,
      'name another output with -o, or start again with --overwrite',
    );
  // what is found beside a run that was just looked for has been begun meanwhile
  const find = (wanted: AskedRun): Promise<RunDescription | undefined> =>
    findRun(folder, wanted, true).catch((error: unknown) => {
      throw error instanceof OtherRunError ? overtaken(error) : error;
    });
  const isDropped = overwrite && (await dropped(folder, isHidden));
  if (isStream && (await isBegun(folder))) throw taken();
  for (;;) {
    const found = overwrite ? await find(asked) : await findRun(folder, asked, isHidden || isDropped);
    if (found !== undefined) return { description: found, isOurs: false };
    const { run, stamps } = await describe();
    const isOurs = await createRun(folder, run, stamps);
    if (!isOurs && isStream) throw taken();
    // another process may have been faster, or has dropped it again
    const description = await find(run);
    if (description !== undefined) return { description, isOurs };
  }
}

/** @returns whether there was a run */
async function dropped(folder: string, isHidden: boolean): Promise<boolean> {
  if (!isHidden) return dropRun(folder);
  await removeHidden(folder);
  return true;
}

/** A command with other flags was faster than this one. */
function overtaken({ message, exitCode }: OtherRunError): RredcotError {
  return new RredcotError(`${message}; another command has begun it after this one had looked`, {
    exitCode,
    hint: 'wait for that command, or name another output with -o',
  });
}

/**
 * Asked before anything gets its name in a run's folder.
 * @throws RredcotError (exit 75) where it has become another run's, ENOENT where it is gone
 */
export async function assertSameRun(folder: string, { run, shards }: RunDescription): Promise<void> {
  const text = await readSmallFile(runPaths(folder).run);
  try {
    const found = JSON.parse(text) as Partial<RunDescription>;
    if (found.run === run && found.shards === shards) return;
  } catch {
    // half written by one that has begun anew
  }
  throw new RredcotError(`${folder}: has become another run, of a command with other flags or inputs`, {
    exitCode: EXIT.interrupted,
    hint: 'name another output with -o',
  });
}
