// `--device`: which execution provider the policy runs on; and what CUDA lacks on this machine, found without loading any of it.
import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { deviceError, usageError } from '../../errors.js';
import { IS_WHEEL, REINSTALL } from '../../package-files.js';
import { shellWord } from '../../printable.js';
import { cudaFolder, runtimeFolder } from './runtime.js';

/** An execution provider in the form that ONNX Runtime's session options take. */
export type Device = { readonly name: 'cpu' } | { readonly name: 'cuda'; readonly deviceId: number };

export type DeviceChoice = 'auto' | Device;

/** Reads `--device`. @throws RredcotError (exit 2) */
export function parseDevice(text: string): DeviceChoice {
  if (text === 'auto') return 'auto';
  if (text === 'cpu') return { name: text };
  const cuda = /^cuda(?::(\d{1,3}))?$/.exec(text);
  if (cuda !== null) return { name: 'cuda', deviceId: Number(cuda[1] ?? 0) };
  throw usageError(`--device ${text}: expected auto, cpu, cuda or cuda:<number of the GPU>`, '--device auto');
}

/** As it is written on the command line. */
export function deviceName(device: Device): string {
  return device.name === 'cuda' ? `cuda:${device.deviceId}` : device.name;
}

/** The device to run a policy on; what nobody can want is not looked for. @throws RredcotError (exit 69) where CUDA is asked for, naming what is missing */
export async function resolveDevice(
  choice: DeviceChoice,
  find: () => Promise<CudaFindings> = findCuda,
  provider: () => readonly Library[] = findProvider,
): Promise<Device> {
  if (choice === 'auto') {
    const isInstalled = provider().every(({ path }) => path !== undefined);
    return isInstalled ? autoDevice(await find()).device : { name: 'cpu' };
  }
  if (choice.name !== 'cuda') return choice;
  const problems = cudaProblems(await find(), choice.deviceId);
  if (problems.length === 0) return choice;
  const fixes = [...new Set(problems.map(({ fix }) => fix))];
  const what = problems.map((each) => each.what).join('; ');
  const hint = `${fixes.join('; then ')}; or --device cpu`;
  throw deviceError(`--device ${deviceName(choice)} cannot be had: ${what}`, hint);
}

/** What `auto` takes: CUDA where nothing is in its way, else the CPU; and why, as half a sentence for people. */
export function autoDevice(cuda: CudaFindings): { readonly device: Device; readonly reason: string } {
  const problem = cudaProblems(cuda, 0)[0];
  if (problem !== undefined) return { device: { name: 'cpu' }, reason: `CUDA lacks: ${problem.what}` };
  return { device: { name: 'cuda', deviceId: 0 }, reason: `${cuda.gpus[0]}, driver ${cuda.driver}` };
}

/** What a session that fails on `device` should be told to try; undefined on the CPU. */
export function sessionHint(device: Device): string | undefined {
  if (device.name === 'cpu') return undefined;
  return '--device cpu; rredcot doctor shows what CUDA lacks';
}

// ------ CUDA

/** What was found of CUDA, without loading any of it. */
export type CudaFindings = Awaited<ReturnType<typeof findCuda>>;

/** Something that keeps CUDA from working. */
export interface Problem {
  /** what is missing or wrong, by name */
  readonly what: string;
  /** the one line that fixes it */
  readonly fix: string;
}

const PROVIDER = 'libonnxruntime_providers_cuda.so';
const PROVIDER_FILES = ['libonnxruntime_providers_shared.so', PROVIDER] as const;
/** What brings them all, where pip has installed the program. */
const OF_THE_WHEEL = "pip install 'rredcot[cuda]'";
/** The C and C++ runtime: Node itself runs on them. */
const SYSTEM = /^(lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)|ld-linux.*)\.so/;

/** What keeps GPU `deviceId` from being used, in the order in which to fix it; nothing where all is there. */
export function cudaProblems(cuda: CudaFindings, deviceId: number): Problem[] {
  if (cuda.platform !== 'linux/x64')
    return [{ what: `CUDA is for linux/x64, this is ${cuda.platform}`, fix: 'use --device cpu' }];
  const libraries = [...cuda.provider, ...cuda.libraries].map((library) => libraryProblem(library, cuda));
  return [...libraries, driverProblem(cuda, deviceId)].filter((problem) => problem !== undefined);
}

/** What is wrong with a library of `cuda`; undefined where the loader will find it. */
export function libraryProblem({ name, path }: Library, cuda: CudaFindings): Problem | undefined {
  if (path !== undefined) return undefined;
  const missing = (of: string, fix: string): Problem => ({ what: `${name} is missing (${of})`, fix });
  if (PROVIDER_FILES.some((file) => file === name))
    return missing("ONNX Runtime's CUDA provider", providerFix(cuda));
  if (name === 'libcuda.so.1') return missing("the NVIDIA driver's library", driverFix(cuda));
  if (IS_WHEEL) return missing('CUDA', OF_THE_WHEEL);
  const { major } = cudaVersion(cuda);
  const fix = `apt-get install cuda-libraries-${major}-0 (from NVIDIA's package repository), or export LD_LIBRARY_PATH=<its folder>`;
  return missing(`CUDA ${major}`, fix);
}

/** What is wrong with driver and GPUs; undefined where GPU `deviceId` answers. */
export function driverProblem(cuda: CudaFindings, deviceId: number): Problem | undefined {
  const { driver, gpus } = cuda;
  const { oldestDriver } = cudaVersion(cuda);
  if (driver === undefined) return { what: 'no NVIDIA driver answers (nvidia-smi)', fix: driverFix(cuda) };
  if (Number.parseInt(driver, 10) < oldestDriver)
    return { what: `driver ${driver} is older than ${oldestDriver}`, fix: driverFix(cuda) };
  if (deviceId < gpus.length) return undefined;
  const other = '--device cuda:0, or unset CUDA_VISIBLE_DEVICES';
  const none = 'unset CUDA_VISIBLE_DEVICES, see what nvidia-smi -L lists; a container needs --gpus all';
  if (gpus.length === 0) return { what: 'no GPU answers', fix: none };
  return { what: `there is no GPU ${deviceId}, ${gpus.length} in sight`, fix: other };
}

function providerFix({ nativeFolder }: CudaFindings): string {
  if (IS_WHEEL) return OF_THE_WHEEL;
  if (nativeFolder === undefined) return REINSTALL;
  // bin/napi-v6/<platform>/<arch> of the package; "cuda12" is what its script calls them, whatever the CUDA version
  const script = join(nativeFolder, '../../../../script/install.js');
  return `ONNXRUNTIME_NODE_INSTALL=cuda12 node ${shellWord(script)} (downloads from nuget.org)`;
}

function driverFix(cuda: CudaFindings): string {
  return `install the NVIDIA driver, ${cudaVersion(cuda).oldestDriver} or newer (a container needs --gpus all)`;
}

/** The CUDA version that the provider is built for, by the runtime that it is linked to; its oldest driver by NVIDIA's release notes. */
function cudaVersion({ libraries }: CudaFindings) {
  const runtimes = libraries.map(({ name }) => /^libcudart\.so\.(\d+)/.exec(name)?.[1]);
  const major = runtimes.find((found) => found !== undefined) ?? '13';
  return { major, oldestDriver: major === '12' ? 525 : 580 };
}

/** The installed onnxruntime-node: its version and its native folder; undefined where there is none. */
export function onnxRuntimePackage() {
  try {
    const manifest = createRequire(import.meta.url).resolve('onnxruntime-node/package.json');
    const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string };
    return { version, nativeFolder: join(dirname(manifest), 'bin/napi-v6', process.platform, process.arch) };
  } catch {
    return undefined;
  }
}

const nativeFolderOf = (env = process.env) => runtimeFolder(env) ?? onnxRuntimePackage()?.nativeFolder;

function findProvider(nativeFolder = nativeFolderOf()): Library[] {
  return PROVIDER_FILES.map((name) => {
    const path = join(nativeFolder ?? '', name);
    return { name, path: existsSync(path) ? path : undefined };
  });
}

/** Looks for all that CUDA needs; for driver and GPUs nvidia-smi is asked, in WSL too. */
export async function findCuda(env = process.env, nativeFolder = nativeFolderOf(env)) {
  const provider = findProvider(nativeFolder);
  const file = provider.find(({ name }) => name === PROVIDER)?.path;
  const looked = [cudaFolder(env), env.LD_LIBRARY_PATH].filter((folder) => folder).join(':');
  const linked = file === undefined ? [] : await linkedLibraries(file, { ...env, LD_LIBRARY_PATH: looked });
  const query = ['--query-gpu=driver_version,name', '--format=csv,noheader'];
  const answer =
    (await output('nvidia-smi', query, env)) ?? (await output('/usr/lib/wsl/lib/nvidia-smi', query, env));
  const told = [...(answer ?? '').matchAll(/^(\d[\d.]*), (.+)$/gm)];
  const gpus = told.map(([, , name]) => (name as string).trim());
  return {
    /** e.g. linux/x64 */
    platform: `${process.platform}/${process.arch}`,
    /** where libonnxruntime lies */
    nativeFolder,
    /** ONNX Runtime's own two files, which must lie beside libonnxruntime */
    provider,
    /** what the CUDA provider is linked to, of NVIDIA's and others'; none where it is missing itself */
    libraries: linked.filter(({ name }) => !SYSTEM.test(name)),
    /** the kernel driver's version, e.g. 580.65.06 */
    driver: told[0]?.[1],
    /** names of the GPUs that answer and that CUDA_VISIBLE_DEVICES leaves in sight */
    gpus: gpusInSight(gpus, env.CUDA_VISIBLE_DEVICES),
  };
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
  /** undefined where the loader does not find it */
  readonly path: string | undefined;
}

/** Of every x86-64 program that glibc runs; there is no CUDA for others. */
const LOADER = '/lib64/ld-linux-x86-64.so.2';

/** Libraries that a file is linked to, and those are; none where the loader cannot read it. */
export async function linkedLibraries(file: string, env: NodeJS.ProcessEnv): Promise<Library[]> {
  const text = (await output(LOADER, [file], { ...env, LD_TRACE_LOADED_OBJECTS: '1' })) ?? '';
  const lines = text.matchAll(/^\s*(\S+) => (?:not found|(.+) \(0x[0-9a-f]+\))$/gm);
  return [...lines].map(([, name, path]) => ({ name: name as string, path }));
}

/** What a short command prints; undefined where it cannot be run, fails or hangs. */
function output(command: string, args: readonly string[], env: NodeJS.ProcessEnv) {
  return promisify(execFile)(command, args, { env, timeout: 10_000 }).then(
    ({ stdout }) => stdout,
    () => undefined,
  );
}
