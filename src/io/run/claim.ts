// A folder and the run that is asked for in, that run found there or begun out: another one that lives is never dropped.
import { rmdir } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { EXIT, RredcotError, usageError } from '../../errors.js';
import { readSmallFile } from '../files/json-file.js';
import { runPaths } from '../files/run-paths.js';
import { statIfThere } from '../files/stat-if-there.js';
import { createRun, findRun, OtherRunError } from './begin.js';
import type { AskedRun, RunDescription, SameRun } from './description.js';
import { type Holder, holderText } from './holder.js';
import { enterFolder, type Presence } from './presence.js';
import { holdsTraces } from './records.js';
import { dropRun, emptyRunFolder, halfWritten, isBegun, removeHalfWritten } from './remove.js';

export interface ClaimOptions {
  /** a folder of our own beside a single file: without a trace in a whole chunk nothing in it is worth keeping */
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

/** A run's folder with this process in it. */
export interface ClaimedRun {
  readonly description: RunDescription;
  /** whether this process has begun it */
  readonly isOurs: boolean;
  readonly presence: FolderPresence;
}

/** The place of this process, and the folder's end where nothing is in it. */
export interface FolderPresence extends Pick<Presence, 'alone'> {
  leave(): Promise<void>;
}

/**
 * Comes into a run folder; an empty one that it has made, or that is hidden, goes when it leaves. What processes that were
 * killed have left half written in a hidden one goes now, where nobody else is there.
 * @param signal ends its waiting
 */
export async function comeInto(
  folder: string,
  isHidden: boolean,
  signal?: AbortSignal,
): Promise<FolderPresence & Presence> {
  const isNew = (await statIfThere(folder)) === null;
  // what is in it stays
  const drop = (): Promise<unknown> =>
    isHidden || isNew ? rmdir(folder).catch(() => {}) : Promise.resolve();
  const presence = await enterFolder(folder, signal).catch(async (error: unknown) => {
    await drop();
    throw error;
  });
  const leave = async (): Promise<void> => {
    await presence.leave();
    await drop();
  };
  try {
    if (isHidden && (await halfWritten(folder)).length > 0)
      await presence.alone(() => removeHalfWritten(folder), 'all');
  } catch (error) {
    await leave();
    throw error;
  }
  return { ...presence, leave };
}

/**
 * Finds the run in a folder or begins it.
 * @throws RredcotError (exit 2) where another run is there, naming the field that differs, or one that lives is to be dropped
 */
export async function claimRun(folder: string, asked: AskedRun, opts: ClaimOptions): Promise<ClaimedRun> {
  const { isHidden, isStream } = opts;
  const presence = await comeInto(folder, isHidden);
  // what is found beside a run that was just looked for has been begun meanwhile
  const find = (wanted: AskedRun, withOthers: boolean): Promise<RunDescription | undefined> =>
    findRun(folder, wanted, withOthers).catch((error: unknown) => {
      throw error instanceof OtherRunError ? overtaken(error) : error;
    });
  try {
    const taken = (): RredcotError =>
      usageError(
        `${folder}: holds a run, and a stream cannot be read again to resume it`,
        'name another output with -o, or start again with --overwrite',
      );
    let isDropped = opts.overwrite && (await dropAlone(folder, isHidden, presence));
    if (isStream && (await isBegun(folder))) {
      if (!isHidden) throw taken();
      isDropped = await dropAlone(folder, true, presence);
    }
    for (;;) {
      const first = isHidden ? findOrEmpty(folder, asked, presence) : findRun(folder, asked, isDropped);
      let found = await first.catch((error: unknown) => {
        // what was there before has been dropped
        throw error instanceof OtherRunError && opts.overwrite ? overtaken(error) : error;
      });
      if (found !== undefined && isStream) throw taken();
      let isOurs = false;
      if (found === undefined) {
        const { run, stamps } = await opts.describe();
        isOurs = await createRun(folder, run, stamps);
        if (!isOurs && isStream) throw taken();
        // another process may have been faster
        found = await find(run, true);
      }
      await presence.work();
      // dropped by another one before it could see that we work on it
      const description = found && (await find(found, true));
      if (description !== undefined) return { description, isOurs, presence };
    }
  } catch (error) {
    await presence.leave();
    throw error;
  }
}

/** A command with other flags was faster than this one. */
function overtaken({ message, exitCode }: OtherRunError): RredcotError {
  return new RredcotError(`${message}; another command has begun it after this one had looked`, {
    exitCode,
    hint: 'wait for that command, or name another output with -o',
  });
}

/** Drops the run that is there. @returns whether there was one. @throws RredcotError (exit 2) where it lives */
export async function dropAlone(
  folder: string,
  isHidden: boolean,
  { alone }: FolderPresence,
): Promise<boolean> {
  const dropped = await alone(async () => {
    if (!isHidden) return dropRun(folder);
    const wasBegun = await isBegun(folder);
    await emptyRunFolder(folder);
    return wasBegun;
  });
  if ('done' in dropped) return dropped.done;
  throw usageError(
    `${folder}: holds a run that lives (${holderText(dropped.holder)}), and a live run is not dropped`,
    'end that process first, or name another output with -o',
  );
}

/** The run of a hidden folder; another one is dropped where no trace of it is in a whole chunk and nobody works on it. */
async function findOrEmpty(
  folder: string,
  asked: AskedRun,
  { alone }: FolderPresence,
): Promise<RunDescription | undefined> {
  try {
    return await findRun(folder, asked);
  } catch (error) {
    if ((await isBegun(folder)) && (await holdsTraces(folder))) throw error;
  }
  const found = await alone(async () => {
    try {
      return await findRun(folder, asked);
    } catch (error) {
      if ((await isBegun(folder)) && (await holdsTraces(folder))) throw error;
      await emptyRunFolder(folder);
      return undefined;
    }
  });
  if ('done' in found) return found.done;
  return findRun(folder, asked).catch((error: unknown) => {
    throw withHolder(error, found.holder);
  });
}

function withHolder(error: unknown, holder: Holder): unknown {
  if (!(error instanceof RredcotError)) return error;
  return new RredcotError(`${error.message}; it lives: ${holderText(holder)}`, {
    exitCode: error.exitCode,
    hint: 'wait for it, or name another output with -o',
    cause: error,
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

/** Looks for the end of a process that is at work where no run is left: it is about to leave. */
const LOOKS = 50;
const LOOK_MS = 20;

/**
 * Removes what is left in a hidden folder that no run is in, and nobody works in.
 * @param isMade whether the folder's file is there, so that a run in it is at its end
 */
export async function sweepFolder(folder: string, isMade: boolean): Promise<void> {
  if ((await statIfThere(folder)) === null) return;
  const presence = await comeInto(folder, true);
  const isOver = async () => isMade || !(await isBegun(folder));
  try {
    for (let looks = 0; looks < LOOKS && (await isOver()); looks++) {
      const swept = await presence.alone(async () => {
        if (await isOver()) await emptyRunFolder(folder);
      });
      if ('done' in swept) return;
      await sleep(LOOK_MS);
    }
  } finally {
    await presence.leave();
  }
}
