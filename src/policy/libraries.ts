// Where the dynamic loader finds a shared library, and what a library asks it for: read from files, nothing is loaded.
import { execFile } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';

/** What an ELF file's dynamic section says to the loader. */
export interface DynamicSection {
  /** names of the libraries it is linked to (DT_NEEDED), in its order */
  readonly needed: readonly string[];
  /** folders it wants searched (DT_RUNPATH, DT_RPATH), $ORIGIN put in */
  readonly folders: readonly string[];
}

/** Where libraries are looked for. */
export interface SearchPath {
  /** folders the loader searches, in its order, around the cache that `ldconfig -p` prints */
  readonly before: readonly string[];
  readonly cache: ReadonlyMap<string, string>;
  readonly after: readonly string[];
  /** folders where CUDA is often installed though no loader looks there by itself */
  readonly elsewhere: readonly string[];
}

export interface Library {
  readonly name: string;
  readonly path: string | undefined;
  /** whether the loader would find it too; false with a path: it lies where the loader does not look */
  readonly loadable: boolean;
}

const DT = { needed: 1, strtab: 5, strsz: 10, rpath: 15, runpath: 29 } as const;
const PT = { load: 1, dynamic: 2 } as const;
const MAX_TABLE_BYTES = 16 << 20;

/** Reads a 64-bit little-endian ELF file's dynamic section; undefined for anything else, damaged files included. */
export async function readDynamicSection(path: string): Promise<DynamicSection | undefined> {
  let file: FileHandle;
  try {
    file = await open(path);
  } catch {
    return undefined;
  }
  try {
    return await parseDynamicSection(file, path);
  } catch {
    return undefined; // an offset that points out of the file, a folder, a disk that fails: nothing to go by
  } finally {
    await file.close();
  }
}

async function parseDynamicSection(file: FileHandle, path: string): Promise<DynamicSection | undefined> {
  const header = await bytesAt(file, 0, 64);
  if (header.readUInt32BE(0) !== 0x7f454c46 || header[4] !== 2 || header[5] !== 1) return undefined;
  const entrySize = header.readUInt16LE(54);
  const table = await bytesAt(file, offset(header, 32), entrySize * header.readUInt16LE(56));
  const segments = [];
  for (let at = 0; entrySize >= 56 && at < table.length; at += entrySize)
    segments.push({
      type: table.readUInt32LE(at),
      offset: offset(table, at + 8),
      address: offset(table, at + 16),
      size: offset(table, at + 32),
    });
  const dynamic = segments.find(({ type }) => type === PT.dynamic);
  if (dynamic === undefined) return undefined;

  const entries = await bytesAt(file, dynamic.offset, dynamic.size);
  const values = (tag: number) => {
    const found: number[] = [];
    for (let at = 0; at + 16 <= entries.length; at += 16)
      if (entries.readBigInt64LE(at) === BigInt(tag)) found.push(offset(entries, at + 8));
    return found;
  };
  const [address, size] = [values(DT.strtab)[0], values(DT.strsz)[0]];
  const holder = segments.find(
    (s) =>
      s.type === PT.load && address !== undefined && s.address <= address && address < s.address + s.size,
  );
  if (address === undefined || size === undefined || holder === undefined) return undefined;
  const strings = await bytesAt(file, holder.offset + address - holder.address, size);
  const text = (at: number) => {
    const end = strings.indexOf(0, at);
    if (at >= strings.length || end < 0) throw new RangeError(`string ${at} of ${strings.length}`);
    return strings.toString('utf8', at, end);
  };
  const origin = dirname(resolve(path));
  const folders = [...values(DT.runpath), ...values(DT.rpath)].flatMap((at) => text(at).split(':'));
  return {
    needed: values(DT.needed).map(text),
    folders: folders
      .filter((f) => f !== '')
      .map((f) => resolve(f.replaceAll(/\$(\{ORIGIN\}|ORIGIN)/g, () => origin))),
  };
}

/** @throws RangeError where the file is shorter than that */
async function bytesAt(file: FileHandle, position: number, length: number): Promise<Buffer> {
  if (length > MAX_TABLE_BYTES) throw new RangeError(`table of ${length} bytes`);
  const buffer = Buffer.alloc(length);
  const { bytesRead } = await file.read(buffer, 0, length, position);
  if (bytesRead < length) throw new RangeError(`file ends before ${position + length}`);
  return buffer;
}

function offset(buffer: Buffer, at: number): number {
  const value = buffer.readBigUInt64LE(at);
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw new RangeError(`offset ${value}`);
  return Number(value);
}

/**
 * The loader's search path on this machine.
 * @param folders what the library that asks wants searched (its DynamicSection)
 */
export async function searchPath(env: NodeJS.ProcessEnv, folders: readonly string[]): Promise<SearchPath> {
  const fromEnvironment = env.LD_LIBRARY_PATH ? env.LD_LIBRARY_PATH.split(/[:;]/) : [];
  return {
    // an empty entry is the current folder, as the loader has it
    before: [...fromEnvironment.map((folder) => folder || '.'), ...folders],
    cache: parseLoaderCache(
      (await output('ldconfig', ['-p'], env)) ?? (await output('/sbin/ldconfig', ['-p'], env)) ?? '',
    ),
    after: ['/lib/x86_64-linux-gnu', '/usr/lib/x86_64-linux-gnu', '/lib64', '/usr/lib64', '/lib', '/usr/lib'],
    elsewhere: [...cudaFolders('/usr/local'), '/usr/lib/wsl/lib'],
  };
}

/** `/usr/local/cuda*` and their library folders, newest name last as `ls` has them. */
function cudaFolders(root: string): string[] {
  let names: string[];
  try {
    names = readdirSync(root).filter((name) => name.startsWith('cuda'));
  } catch {
    return [];
  }
  return names
    .sort()
    .flatMap((name) => ['lib64', 'lib', 'targets/x86_64-linux/lib'].map((lib) => join(root, name, lib)));
}

/** The 64-bit x86 libraries that `ldconfig -p` lists, first entry of a name wins, as for the loader. */
export function parseLoaderCache(text: string): Map<string, string> {
  const cache = new Map<string, string>();
  for (const [, name, path] of text.matchAll(/^\s*(\S+) \([^)\n]*x86-64[^)\n]*\) => (.+)$/gm))
    if (!cache.has(name as string)) cache.set(name as string, path as string);
  return cache;
}

/** Looks a library up the way the loader does, then where it does not look. */
export function findLibrary(name: string, where: SearchPath): Library {
  const cached = where.cache.get(name);
  const candidates = [...where.before.map((folder) => join(folder, name)), ...(cached ? [cached] : [])];
  const found = [...candidates, ...where.after.map((folder) => join(folder, name))].find((p) =>
    existsSync(p),
  );
  if (found !== undefined) return { name, path: found, loadable: true };
  const hidden = where.elsewhere.map((folder) => join(folder, name)).find((path) => existsSync(path));
  return { name, path: hidden, loadable: false };
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
