// A process at work in a run folder: how it describes itself, and how another one finds out whether it lives.
import { readFile, readlink, utimes } from 'node:fs/promises';
import { hostname } from 'node:os';
import { readSmallFile } from '../files/json-file.js';
import { statIfThere } from '../files/stat-if-there.js';

/** A process on another machine is held for dead when its file is older: it is touched far more often. */
const STALE_MS = 120_000;
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

/** For people. */
export function holderText({ host, pid, at }: Holder): string {
  return `process ${pid} on ${host}, there since ${at}`;
}

/** What stands in a process's file. */
export interface Found {
  /** undefined where it is half written */
  readonly holder: Holder | undefined;
  readonly mtimeMs: number;
}

/** Reads such a file; undefined where there is none. */
export async function readHolder(path: string): Promise<Found | undefined> {
  const found = await statIfThere(path);
  if (found === null) return undefined;
  const text = await readSmallFile(path).catch(() => '');
  let holder: Holder | undefined;
  try {
    holder = JSON.parse(text) as Holder;
  } catch {
    holder = undefined;
  }
  return { holder, mtimeMs: found.mtimeMs };
}

/** Whether the process lives. @param path of our own file: its time is of the same clock as the other's */
export async function isAlive(
  { holder, mtimeMs }: Found,
  own: Holder,
  path: string | undefined,
): Promise<boolean> {
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

/** This process. */
export async function describeSelf(): Promise<Holder> {
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
