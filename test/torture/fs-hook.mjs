// Stands between the program and the file system, in the main thread and in its workers: makes the n-th call of a kind
// fail, or the process die there. Loaded by `node --import` (the plan is then in RREDCOT_FS_PLAN) or by `installFsHook`.
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { constants } from 'node:os';
import { getSystemErrorName } from 'node:util';
import workerThreads, { getEnvironmentData, isMainThread, setEnvironmentData } from 'node:worker_threads';

/**
 * @typedef {object} FsPlan
 * @property {string} under only calls on paths that contain this
 * @property {string} op `any`, or one of open, read, write, sync, close, rename, link, mkdir, readdir, stat, rm
 * @property {string} [path] only calls on paths that match this regular expression
 * @property {number} nth which of these calls, from 0
 * @property {string} [code] the system's name of the error that the call fails with; without it the process is killed
 * @property {boolean} [every] not the n-th of these calls alone, but each from there on
 * @property {boolean} [stops] the process is stopped before the call (SIGSTOP), and makes it once it goes on
 * @property {'before' | 'after'} [when] of a death: before the call (a write is done by half), or after it
 */

const KEY = 'rredcot-fs-hook';
const promises = fs.promises;
const handlePaths = new WeakMap();

/** The state that all threads share: how many calls matched, whether the plan was carried out. */
function state() {
  return getEnvironmentData(KEY);
}

/** Sets the plan and forgets what was counted. @param {FsPlan | null} plan */
export function planFs(plan) {
  setEnvironmentData(KEY, { plan, shared: new Int32Array(new SharedArrayBuffer(8)) });
}

/** @returns {{ calls: number, fired: boolean }} since the last plan */
export function fsReport() {
  const { shared } = state();
  return { calls: Atomics.load(shared, 0), fired: Atomics.load(shared, 1) === 1 };
}

/** The calls of this thread since {@link recordFs}, in order. */
let recorded;

/** Writes down every call from now on, of this thread. @returns {[op: string, path: string][]} it grows */
export function recordFs() {
  recorded = [];
  return recorded;
}

/** What is to happen at this call: nothing, an error, or a death. */
function due(op, path) {
  recorded?.push([op, path]);
  const { plan, shared } = state() ?? {};
  if (!plan || typeof path !== 'string' || !path.includes(plan.under)) return null;
  if (plan.op !== 'any' && plan.op !== op) return null;
  if (plan.path !== undefined && !new RegExp(plan.path).test(path)) return null;
  const n = Atomics.add(shared, 0, 1);
  if (plan.every ? n < plan.nth : n !== plan.nth) return null;
  Atomics.store(shared, 1, 1);
  return plan;
}

function die() {
  process.kill(process.pid, 'SIGKILL');
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

/** As Node makes it of the system's number: for some of them (EDQUOT, ESTALE) it has no name. */
function failure(plan, op, path, withPath) {
  const errno = -constants.errno[plan.code];
  const code = getSystemErrorName(errno);
  const error = new Error(`${code}: injected, ${op} '${path}'`);
  return Object.assign(error, { errno, code, syscall: op, ...(withPath ? { path } : {}) });
}

/** A promise call of `op`, with the half of it that a fault lets through. */
async function around(op, path, call, { half, withPath = true } = {}) {
  const plan = due(op, path);
  if (plan === null) return call();
  if (plan.stops) {
    process.kill(process.pid, 'SIGSTOP');
    return call();
  }
  if (plan.code === undefined && plan.when === 'after') {
    await call();
    die();
  }
  await half?.();
  if (plan.code === undefined) die();
  throw failure(plan, op, path, withPath);
}

function descriptorPath(fd) {
  try {
    return fs.readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return '';
  }
}

let isInstalled = false;

/** Puts the hook in place; a second time does nothing. */
export async function installFsHook() {
  if (isInstalled) return;
  isInstalled = true;
  const byPath = ['rename', 'link', 'mkdir', 'readdir', 'stat', 'rm'].map((name) => [name, name]);
  for (const [name, op] of [...byPath, ['readFile', 'read'], ['writeFile', 'write']]) {
    const real = promises[name];
    promises[name] = (path, ...rest) =>
      typeof path === 'string'
        ? around(op, name === 'rename' || name === 'link' ? rest[0] : path, () => real(path, ...rest))
        : real(path, ...rest);
  }
  const realOpen = promises.open;
  promises.open = (path, ...rest) =>
    around('open', String(path), async () => {
      const handle = await realOpen(path, ...rest);
      handlePaths.set(handle, String(path));
      return handle;
    });
  const probe = await realOpen(new URL(import.meta.url), 'r');
  const prototype = Object.getPrototypeOf(probe);
  await probe.close();
  const realWrite = prototype.write;
  for (const name of ['write', 'writeFile', 'sync', 'read']) {
    const op = name === 'writeFile' ? 'write' : name;
    const real = prototype[name];
    prototype[name] = function (...args) {
      const bytes = op === 'write' ? args[0] : undefined;
      const half = bytes && (() => realWrite.call(this, bytes.subarray(0, bytes.length >> 1)));
      return around(op, handlePaths.get(this), () => real.apply(this, args), { half, withPath: false });
    };
  }
  // createReadStream goes through the callback functions of `fs`
  for (const name of ['readFile', 'read']) {
    const real = fs[name];
    fs[name] = (place, ...rest) => {
      const path = typeof place === 'number' ? descriptorPath(place) : place;
      const plan = due('read', path);
      if (plan === null) return real(place, ...rest);
      if (plan.code === undefined) die();
      rest.at(-1)(failure(plan, 'read', path, name === 'readFile'));
    };
  }
  const realWriteSync = fs.writeSync;
  fs.writeSync = (fd, bytes, ...rest) => {
    const plan = fd > 2 && typeof bytes !== 'string' ? due('write', descriptorPath(fd)) : null;
    if (plan === null) return realWriteSync(fd, bytes, ...rest);
    const written = realWriteSync(fd, bytes, 0, plan.when === 'after' ? bytes.length : bytes.length >> 1);
    if (plan.code === undefined) die();
    throw failure(plan, 'write', written, false);
  };
  // workers that were not started with --import themselves
  const { Worker } = workerThreads;
  if (isMainThread)
    workerThreads.Worker = class extends Worker {
      constructor(url, options = {}) {
        super(url, { ...options, execArgv: ['--import', import.meta.url] });
      }
    };
  syncBuiltinESMExports();
}

if (!isMainThread) await installFsHook();
else if (process.env.RREDCOT_FS_PLAN !== undefined) {
  planFs(JSON.parse(process.env.RREDCOT_FS_PLAN));
  await installFsHook();
}
