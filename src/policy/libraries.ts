// Where the dynamic loader finds shared libraries: it is asked itself, as ldd asks it, and runs nothing of them.
import { execFile } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

export interface Library {
  readonly name: string;
  readonly path: string | undefined;
  /** whether the loader would find it too; false with a path: it lies where the loader does not look */
  readonly loadable: boolean;
}

/** Of every x86-64 program that glibc runs; there is no CUDA for others. */
const LOADER = '/lib64/ld-linux-x86-64.so.2';
/** Where CUDA is often installed though no loader looks there by itself: `/usr/local/cuda*`, and Windows' own in WSL. */
const ELSEWHERE = ['lib64', 'lib', 'targets/x86_64-linux/lib'];
const WSL = '/usr/lib/wsl/lib';

/** Libraries that a file is linked to, and those are; undefined where the loader cannot read it. */
export async function linkedLibraries(file: string, env: NodeJS.ProcessEnv): Promise<Library[] | undefined> {
  const listed = await askLoader(file, env);
  return listed && [...listed].map(([name, path]) => library(name, path));
}

/** Libraries by their names. */
export async function findLibraries(names: readonly string[], env: NodeJS.ProcessEnv): Promise<Library[]> {
  const listed = await askLoader(process.execPath, { ...env, LD_PRELOAD: names.join(' ') });
  return names.map((name) => library(name, listed?.get(name)));
}

/** What the loader would load for a program or library: paths by name, undefined for what it does not find. */
async function askLoader(
  file: string,
  env: NodeJS.ProcessEnv,
): Promise<Map<string, string | undefined> | undefined> {
  const text = await output(LOADER, [file], { ...env, LD_TRACE_LOADED_OBJECTS: '1' });
  if (text === undefined) return undefined;
  const lines = text.matchAll(/^\s*(\S+) => (?:not found|(.+) \(0x[0-9a-f]+\))$/gm);
  return new Map([...lines].map(([, name, path]) => [name as string, path]));
}

function library(name: string, path: string | undefined): Library {
  if (path !== undefined) return { name, path, loadable: true };
  const folders = namesIn('/usr/local')
    .filter((folder) => folder.startsWith('cuda'))
    .flatMap((folder) => ELSEWHERE.map((lib) => join('/usr/local', folder, lib)));
  const hidden = [...folders, WSL].map((folder) => join(folder, name)).find((file) => existsSync(file));
  return { name, path: hidden, loadable: false };
}

/** A folder's entries in their order; none where it cannot be read. */
export function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder).sort();
  } catch {
    return [];
  }
}

/** What a short command prints; undefined where it cannot be run, fails or hangs. */
export function output(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<string | undefined> {
  return new Promise((done) => {
    execFile(command, args, { env, timeout: 10_000 }, (error, stdout) => done(error ? undefined : stdout));
  });
}
