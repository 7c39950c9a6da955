// Who is at work in a run folder: every process leaves a small file there while it lives, so that none drops the run of another.
//
// Two flags and a look at the other's, as in Dekker's algorithm: who wants to drop a run takes the lock and then looks for
// processes at work; who begins to work says so and then looks for the lock. Whatever the order, one of them sees the other.

import { randomBytes } from 'node:crypto';
import {
  constants,
  copyFile,
  link,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileError } from '../files/file-error.js';
import { makeFolder } from '../files/make-folder.js';
import { isAbsent, statIfThere } from '../files/stat-if-there.js';
import { NO_HARD_LINKS } from './begin.js';

/** A process, as others can find out whether it lives. */
export interface Holder {
  readonly host: string;
  readonly pid: number;
  /** when it came */
  readonly at: string;
  /** of the machine since its start, and of its process numbers: where both are the same, a number tells all */
  readonly boot: string | null;
  readonly pids: string | null;
  /** when the process itself began, in the system's own measure */
  readonly began: string | undefined;
}

/** A process's place in a run folder. */
export interface Presence {
  /**
   * Says that this process works on the run that is there. Waits while another one drops a run: what run is there has to be
   * looked at again afterwards.
   */
  work(): Promise<void>;
  /**
   * Does what no other process may be in the way of: nobody begins to work meanwhile.
   * @returns undefined where another one is at work, and then nothing was done
   */
  alone<T>(action: () => Promise<T>): Promise<{ readonly done: T } | { readonly holder: Holder }>;
  /** Harmless a second time. */
  leave(): Promise<void>;
}

const LOCK = '.dropping.json';
const COMING = '.coming';
const WORKING = '.working';
const NAME = /^\.(coming|working)\.[0-9a-f]{16}\.json$/;

/** A process on another machine is held for dead when its file is older: it is touched far more often. */
const STALE_MS = 120_000;
const BEAT_MS = 15_000;
const LOOK_MS = 20;

/** Comes into a run folder, which is made where it is not there. @throws RredcotError of the file system */
export async function enterFolder(folder: string): Promise<Presence> {
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
    const found = await read(lock);
    if (found === undefined) return undefined;
    if (await isAlive(found, own, path)) return found.holder ?? own;
    const aside = join(folder, `.dropping.${id}.tmp`);
    const isTaken = await rename(lock, aside).then(
      () => true,
      () => false,
    );
    // in between another one may have taken away the same lock, and put its own in the place
    const taken = isTaken ? await read(aside) : undefined;
    if (taken !== undefined && (await isAlive(taken, own, path))) await link(aside, lock).catch(() => {});
    if (isTaken) await rm(aside, { force: true });
    return undefined;
  }
  async function untilUnlocked(): Promise<void> {
    while ((await locker()) !== undefined) await sleep(LOOK_MS);
  }
  /** The first other process that works here; files of dead ones are removed. */
  async function otherAtWork(): Promise<Holder | undefined> {
    for (const name of await readdir(folder)) {
      const other = join(folder, name);
      if (!NAME.test(name) || name.includes(id)) continue;
      const found = await read(other);
      if (found === undefined) continue;
      if (!(await isAlive(found, own, path))) await rm(other, { force: true });
      else if (name.startsWith(WORKING)) return found.holder ?? own;
    }
    return undefined;
  }

  async function leave(): Promise<void> {
    clearInterval(beat);
    const last = path;
    path = undefined;
    if (last === undefined) return;
    await otherAtWork().catch(() => {});
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
    async alone(action) {
      if (path === undefined) return { done: await action() };
      while (!(await exclusiveLink(path, lock))) await untilUnlocked();
      try {
        const holder = await otherAtWork();
        return holder === undefined ? { done: await action() } : { holder };
      } finally {
        await rm(lock, { force: true });
      }
    },
    leave,
  };
}

/** For people. */
export function holderText({ host, pid, at }: Holder): string {
  return `process ${pid} on ${host}, there since ${at}`;
}

const TRIES = 20;

/** @returns undefined where the folder is there and closed to us: what is read only is not dropped either */
async function write(folder: string, path: string, own: Holder): Promise<string | undefined> {
  for (let tries = 1; ; tries++)
    try {
      await makeFolder(folder);
      await writeFile(path, `${JSON.stringify(own)}\n`, { flag: 'wx' });
      return path;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      // the process that was here before has just removed the folder
      if (code === 'ENOENT' && tries < TRIES) continue;
      const isReadOnly = code === 'EACCES' || code === 'EROFS';
      if (isReadOnly && (await statIfThere(folder)) !== null) return undefined;
      throw fileError(error, path, 'written');
    }
}

interface Found {
  /** undefined where it is half written */
  readonly holder: Holder | undefined;
  readonly mtimeMs: number;
}

async function read(path: string): Promise<Found | undefined> {
  const found = await statIfThere(path);
  if (found === null) return undefined;
  const text = await readFile(path, 'utf8').catch(() => '');
  let holder: Holder | undefined;
  try {
    holder = JSON.parse(text) as Holder;
  } catch {
    holder = undefined;
  }
  return { holder, mtimeMs: found.mtimeMs };
}

/** @param path of our own file: its time is of the same clock as the other's */
async function isAlive({ holder, mtimeMs }: Found, own: Holder, path: string | undefined): Promise<boolean> {
  const isHere =
    holder !== undefined && holder.host === own.host && holder.boot === own.boot && holder.pids === own.pids;
  if (isHere) return (await beginning(holder.pid)) === holder.began;
  let now = Date.now();
  if (path !== undefined) {
    const time = new Date();
    await utimes(path, time, time).catch(() => {});
    now = (await statIfThere(path))?.mtimeMs ?? now;
  }
  return now - mtimeMs < STALE_MS;
}

async function describeSelf(): Promise<Holder> {
  return {
    host: hostname(),
    pid: process.pid,
    at: new Date().toISOString(),
    boot: await readFile('/proc/sys/kernel/random/boot_id', 'utf8').then(
      (text) => text.trim(),
      () => null,
    ),
    pids: await readlink('/proc/self/ns/pid').catch(() => null),
    began: await beginning(process.pid),
  };
}

const ALIVE = 'alive';

/** What tells a process from a later one of the same number; undefined where there is none. */
async function beginning(pid: number): Promise<string | undefined> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch((error: NodeJS.ErrnoException) => error);
  if (typeof stat === 'string') {
    // behind the name, which may hold anything: state, …, and as the 20th field the time
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19];
  }
  if ((await statIfThere('/proc/self/stat')) !== null) return undefined;
  try {
    process.kill(pid, 0);
    return ALIVE;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM' ? ALIVE : undefined;
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
