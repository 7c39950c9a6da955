// CUDA on this machine: what is there, found without loading any of it; what is in its way; what fixes that.

import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { shellWord } from '../../printable.js';

/** What was found of CUDA, without loading any of it. */
export interface CudaFindings {
  /** e.g. linux/x64 */
  readonly platform: string;
  /** onnxruntime-node's native folder, where libonnxruntime lies */
  readonly nativeFolder: string | undefined;
  /** ONNX Runtime's own two files, which must lie beside libonnxruntime */
  readonly provider: readonly Library[];
  /** what the CUDA provider is linked to, of NVIDIA's and others' */
  readonly libraries: readonly Library[];
  /** the kernel driver's version, e.g. 580.65.06 */
  readonly driver: string | undefined;
  /** names of the GPUs that answer and that CUDA_VISIBLE_DEVICES leaves in sight */
  readonly gpus: readonly string[];
}

/** Something that keeps CUDA from working. */
export interface Problem {
  /** what is missing or wrong, by name */
  readonly what: string;
  /** the one line that fixes it */
  readonly fix: string;
}

const PROVIDER = 'libonnxruntime_providers_cuda.so';
const PROVIDER_FILES = ['libonnxruntime_providers_shared.so', PROVIDER] as const;
/** What the CUDA provider of onnxruntime 1.29.0 is linked to, where there is none to ask. */
const NEEDED = ['libcuda.so.1', 'libcudart.so.13', 'libcublas.so.13', 'libcublasLt.so.13', 'libcurand.so.10'];
/** The C and C++ runtime: Node itself runs on them. */
const SYSTEM = /^(lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)|ld-linux.*)\.so/;
/** oldest driver for a CUDA major version (NVIDIA's CUDA Toolkit release notes) */
const OLDEST_DRIVER: Readonly<Record<string, number>> = { 12: 525, 13: 580 };

/** What keeps GPU `deviceId` from being used, in the order in which to fix it; nothing where all is there. */
export function cudaProblems(cuda: CudaFindings, deviceId: number): Problem[] {
  if (cuda.platform !== 'linux/x64')
    return [{ what: `CUDA is for linux/x64, this is ${cuda.platform}`, fix: 'use --device cpu' }];
  const problems = [...cuda.provider, ...cuda.libraries].flatMap(
    (library) => libraryProblem(library, cuda) ?? [],
  );
  return [...problems, ...driverProblems(cuda, deviceId)];
}

/** What is wrong with a library of `cuda`; undefined where the loader will find it. */
export function libraryProblem(library: Library, cuda: CudaFindings): Problem | undefined {
  const { name, path, loadable } = library;
  if (loadable) return undefined;
  if (path !== undefined)
    return {
      what: `${name} lies in ${dirname(path)}, where the loader does not look`,
      fix: `export LD_LIBRARY_PATH=${shellWord(dirname(path))}:$LD_LIBRARY_PATH`,
    };
  if (PROVIDER_FILES.some((file) => file === name))
    return { what: `${name} is missing (ONNX Runtime's CUDA provider)`, fix: providerFix(cuda) };
  if (name === 'libcuda.so.1')
    return { what: `${name} is missing (the NVIDIA driver's library)`, fix: driverFix(cuda) };
  const major = cudaMajor(cuda);
  return {
    what: `${name} is missing (CUDA ${major})`,
    fix: `apt-get install cuda-libraries-${major}-0 (from NVIDIA's package repository)`,
  };
}

/** What is wrong with driver and GPUs. */
export function driverProblems(cuda: CudaFindings, deviceId: number): Problem[] {
  const { driver, gpus } = cuda;
  if (driver === undefined) return [{ what: 'no NVIDIA driver answers', fix: driverFix(cuda) }];
  const oldest = oldestDriver(cuda);
  if (Number.parseInt(driver, 10) < oldest)
    return [{ what: `driver ${driver} is older than ${oldest}`, fix: driverFix(cuda) }];
  if (gpus.length === 0)
    return [
      {
        what: 'no GPU answers',
        fix: 'unset CUDA_VISIBLE_DEVICES, see what nvidia-smi -L lists; a container needs --gpus all',
      },
    ];
  if (deviceId >= gpus.length)
    return [
      {
        what: `there is no GPU ${deviceId}, ${gpus.length} in sight`,
        fix: `--device cuda:0, or unset CUDA_VISIBLE_DEVICES`,
      },
    ];
  return [];
}

function providerFix({ nativeFolder }: CudaFindings): string {
  if (nativeFolder === undefined) return 'npm ci --onnxruntime-node-install=skip';
  // bin/napi-v6/<platform>/<arch> of the package; "cuda12" is what its script calls them, whatever the CUDA version
  const script = join(nativeFolder, '../../../../script/install.js');
  return `ONNXRUNTIME_NODE_INSTALL=cuda12 node ${shellWord(script)} (downloads from nuget.org)`;
}

function driverFix(cuda: CudaFindings): string {
  return `install the NVIDIA driver, ${oldestDriver(cuda)} or newer (a container needs --gpus all)`;
}

/** The CUDA version that the provider is built for, by the runtime that it is linked to. */
function cudaMajor({ libraries }: CudaFindings): string {
  const runtime = libraries.map(({ name }) => /^libcudart\.so\.(\d+)/.exec(name)?.[1]);
  return runtime.find((major) => major !== undefined) ?? '13';
}

function oldestDriver(cuda: CudaFindings): number {
  return OLDEST_DRIVER[cudaMajor(cuda)] ?? (OLDEST_DRIVER[13] as number);
}

/** The installed onnxruntime-node: its version and its native folder; undefined where there is none. */
export function onnxRuntimePackage():
  | { readonly version: string; readonly nativeFolder: string }
  | undefined {
  try {
    const manifest = createRequire(import.meta.url).resolve('onnxruntime-node/package.json');
    const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string };
    return { version, nativeFolder: join(dirname(manifest), 'bin/napi-v6', process.platform, process.arch) };
  } catch {
    return undefined;
  }
}

/** Looks for all that CUDA needs. */
export async function findCuda(
  env: NodeJS.ProcessEnv = process.env,
  nativeFolder: string | undefined = onnxRuntimePackage()?.nativeFolder,
): Promise<CudaFindings> {
  const provider = PROVIDER_FILES.map((name): Library => {
    const path = join(nativeFolder ?? '', name);
    return existsSync(path) ? { name, path, loadable: true } : { name, path: undefined, loadable: false };
  });
  const file = provider.find(({ name }) => name === PROVIDER)?.path;
  const linked = (file && (await linkedLibraries(file, env))) || (await findLibraries(NEEDED, env));
  return {
    platform: `${process.platform}/${process.arch}`,
    nativeFolder,
    provider,
    libraries: linked.filter(({ name }) => !SYSTEM.test(name)),
    ...(await findDriver(env)),
  };
}

/** Driver and GPUs, asked of nvidia-smi, else of the kernel. */
async function findDriver(env: NodeJS.ProcessEnv): Promise<Pick<CudaFindings, 'driver' | 'gpus'>> {
  const query = ['--query-gpu=driver_version,name', '--format=csv,noheader'];
  const answer =
    (await output('nvidia-smi', query, env)) ?? (await output('/usr/lib/wsl/lib/nvidia-smi', query, env));
  const told = [...(answer ?? '').matchAll(/^(\d[\d.]*), (.+)$/gm)];
  if (told.length > 0) {
    const gpus = told.map(([, , name]) => (name as string).trim());
    return { driver: told[0]?.[1], gpus: gpusInSight(gpus, env.CUDA_VISIBLE_DEVICES) };
  }
  const nodes = namesIn('/dev').filter((name) => /^nvidia\d+$/.test(name));
  return {
    driver: driverVersion(await readFile('/proc/driver/nvidia/version', 'utf8').catch(() => '')),
    gpus: gpusInSight(nodes, env.CUDA_VISIBLE_DEVICES),
  };
}

/** The version in /proc/driver/nvidia/version. */
export function driverVersion(text: string): string | undefined {
  return /Kernel Module.*?\s(\d+\.\d+(?:\.\d+)?)\s/.exec(text)?.[1];
}

/** What CUDA_VISIBLE_DEVICES leaves: entries count up to the first that names no GPU, as CUDA has it. */
export function gpusInSight(gpus: readonly string[], visible: string | undefined): string[] {
  if (visible === undefined) return [...gpus];
  const left: string[] = [];
  for (const entry of visible.split(',').map((part) => part.trim())) {
    const gpu = /^(GPU|MIG)-/.test(entry) ? entry : /^\d+$/.test(entry) ? gpus[Number(entry)] : undefined;
    if (gpu === undefined) break;
    left.push(gpu);
  }
  return left;
}

// ------ where the dynamic loader finds shared libraries: it is asked itself, as ldd asks it, and runs nothing of them

interface Library {
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
function namesIn(folder: string): string[] {
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
