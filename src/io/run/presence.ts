// Who is at work in a run folder: every process leaves a small file there while it lives, so that none drops the run of another.
//
// Two flags and a look at the other's, as in Dekker's algorithm: who wants to drop a run takes the lock and then looks for
// processes at work; who begins to work says so and then looks for the lock. Whatever the order, one of them sees the other.

import { randomBytes } from 'node:crypto';
import { constants, copyFile, link, readdir, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { throwIfInterrupted } from '../../errors.js';
import { fileError } from '../files/file-error.js';
import { makeFolder } from '../files/make-folder.js';
import { isAbsent, statIfThere } from '../files/stat-if-there.js';
import { NO_HARD_LINKS } from './begin.js';
import { describeSelf, type Holder, isAlive, readHolder } from './holder.js';

/** A process's place in a run folder. */
export interface Presence {
  /**
   * Says that this process works on the run that is there. Waits while another one drops a run: what run is there has to be
   * looked at again afterwards.
   */
  work(): Promise<void>;
  /**
   * Does what no other process may be in the way of: nobody comes or begins to work meanwhile.
   * @param others who is in the way: those at work, or also those that have only come
   * @returns the other one where there is one, and then nothing was done
   */
  alone<T>(
    action: () => Promise<T>,
    others?: 'working' | 'all',
  ): Promise<{ readonly done: T } | { readonly holder: Holder }>;
  /** Harmless a second time. */
  leave(): Promise<void>;
}

const LOCK = '.dropping.json';
const COMING = '.coming';
const WORKING = '.working';
const NAME = /^\.(coming|working)\.[0-9a-f]{16}\.json$/;

const BEAT_MS = 15_000;
const LOOK_MS = 20;

/**
 * Comes into a run folder, which is made where it is not there.
 * @param signal ends the waiting for another process
 * @throws RredcotError of the file system; exit 75 where the signal came while it waited
 */
export async function enterFolder(folder: string, signal?: AbortSignal): Promise<Presence> {
  const own = await describeSelf();
  const id = randomBytes(8).toString('hex');
  let path: string | undefined = await write(folder, join(folder, `${COMING}.${id}.json`), own);
  const beat = setInterval(() => {
    const now = new Date();
    if (path !== undefined) utimes(path, now, now).catch(() => {});
  }, BEAT_MS).unref();
  const lock = join(folder, LOCK);

  /** The one that holds the lock and lives; a dead one's lock is taken away. */
  async function locker(): Promise<Holder | undefined> {
    const found = await readHolder(lock);
    if (found === undefined) return undefined;
    if (await isAlive(found, own, path)) return found.holder ?? own;
    const aside = join(folder, `.dropping.${id}.tmp`);
    const isTaken = await rename(lock, aside).then(
      () => true,
      () => false,
    );
    // in between another one may have taken away the same lock, and put its own in the place
    const taken = isTaken ? await readHolder(aside) : undefined;
    if (taken !== undefined && (await isAlive(taken, own, path))) await link(aside, lock).catch(() => {});
    if (isTaken) await rm(aside, { force: true });
    return undefined;
  }
  async function untilUnlocked(): Promise<void> {
    while ((await locker()) !== undefined) {
      if (signal !== undefined) throwIfInterrupted(signal);
      await sleep(LOOK_MS);
    }
  }
  /** The first other process here; files of dead ones are removed. */
  async function other(others: 'working' | 'all'): Promise<Holder | undefined> {
    for (const name of await readdir(folder)) {
      const theirs = join(folder, name);
      if (!NAME.test(name) || name.includes(id)) continue;
      const found = await readHolder(theirs);
      if (found === undefined) continue;
      if (!(await isAlive(found, own, path))) await rm(theirs, { force: true });
      else if (others === 'all' || name.startsWith(WORKING)) return found.holder ?? own;
    }
    return undefined;
  }

  async function leave(): Promise<void> {
    clearInterval(beat);
    const last = path;
    path = undefined;
    if (last === undefined) return;
    await other('working').catch(() => {});
    // nobody else would take it away while this process lives
    await rm(last, { force: true }).catch(() => rm(last, { force: true }));
  }

  try {
    await untilUnlocked();
  } catch (error) {
    await leave();
    throw error;
  }
  return {
    async work() {
      if (path !== undefined) {
        const working = join(folder, `${WORKING}.${id}.json`);
        await rename(path, working).catch((error: unknown) => {
          // another machine has taken this process for dead
          if (!isAbsent(error)) throw fileError(error, working, 'written');
        });
        path = working;
        if ((await statIfThere(working)) === null) await write(folder, working, own);
      }
      await untilUnlocked();
    },
    async alone(action, others = 'working') {
      if (path === undefined) return { done: await action() };
      while (!(await exclusiveLink(path, lock))) await untilUnlocked();
      try {
        const holder = await other(others);
        return holder === undefined ? { done: await action() } : { holder };
      } finally {
        await rm(lock, { force: true });
      }
    },
    leave,
  };
}

const TRIES = 20;

/** @returns undefined where the folder is there and closed to us: what is read only is not dropped either */
async function write(folder: string, path: string, own: Holder): Promise<string | undefined> {
  for (let tries = 1; ; tries++)
    try {
      await makeFolder(folder);
      // it appears whole: of an empty one nobody could tell whether its writer lives, and what is half written is swept (remove.ts)
      await writeFile(`${path}.tmp`, `${JSON.stringify(own)}\n`);
      await rename(`${path}.tmp`, path);
      return path;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      await rm(`${path}.tmp`, { force: true }).catch(() => {});
      // the process that was here before has just removed the folder, or swept what was half written
      if (code === 'ENOENT' && tries < TRIES) continue;
      const isReadOnly = code === 'EACCES' || code === 'EROFS';
      if (isReadOnly && (await statIfThere(folder)) !== null) return undefined;
      throw fileError(error, path, 'written');
    }
}

/** @returns whether the name was free */
async function exclusiveLink(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return false;
    if (!NO_HARD_LINKS.has(code ?? '')) throw fileError(error, to, 'written');
  }
  return copyFile(from, to, constants.COPYFILE_EXCL).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'EEXIST') return false;
      throw fileError(error, to, 'written');
    },
  );
}
