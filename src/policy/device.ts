// `--device`: which execution provider the policy runs on, whether CUDA can be had here, and what mends it where not.
import { readdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { EXIT, RredcotError } from '../errors.js';
import { findLibrary, type Library, output, readDynamicSection, searchPath } from './libraries.js';

/** An execution provider in the form that ONNX Runtime's session options take. */
export type Device =
  | { readonly name: 'cpu' }
  | { readonly name: 'cuda'; readonly deviceId: number }
  | { readonly name: 'webgpu' };

export type DeviceChoice = 'auto' | Device;

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
  /** the one line that mends it */
  readonly mend: string;
}

export interface ResolvedDevice {
  readonly device: Device;
  /** why, as half a sentence for people */
  readonly reason: string;
}

/**
 * Whether this version builds graphs that CUDA can run. float32 graphs cannot: CUDA has no float32 kernel for
 * GroupQueryAttention, and ONNX Runtime would put it on the CPU without a word.
 */
export const CUDA_GRAPHS = false;
export const CPU_GRAPHS_REASON =
  "this version's graphs run on the CPU (float32; CUDA's GroupQueryAttention is float16 and bfloat16 only)";

const PROVIDER = 'libonnxruntime_providers_cuda.so';
const PROVIDER_FILES = ['libonnxruntime_providers_shared.so', PROVIDER] as const;
/** What the CUDA provider of onnxruntime 1.29.0 is linked to, where there is none to ask. */
const NEEDED = ['libcuda.so.1', 'libcudart.so.13', 'libcublas.so.13', 'libcublasLt.so.13', 'libcurand.so.10'];
/** The C and C++ runtime: Node itself runs on them. */
const SYSTEM = /^(lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)|ld-linux.*)\.so/;
/** oldest driver for a CUDA major version (NVIDIA's CUDA Toolkit release notes) */
const OLDEST_DRIVER: Readonly<Record<string, number>> = { 12: 525, 13: 580 };

/** Reads `--device`. @throws RredcotError (exit 2) */
export function parseDevice(text: string): DeviceChoice {
  if (text === 'auto') return 'auto';
  if (text === 'cpu' || text === 'webgpu') return { name: text };
  const cuda = /^cuda(?::(\d{1,3}))?$/.exec(text);
  if (cuda !== null) return { name: 'cuda', deviceId: Number(cuda[1] ?? 0) };
  throw new RredcotError(`--device ${text}: expected auto, cpu, cuda, cuda:<number of the GPU> or webgpu`, {
    exitCode: EXIT.usage,
    hint: '--device auto',
  });
}

/** As it is written on the command line. */
export function deviceName(device: Device): string {
  return device.name === 'cuda' ? `cuda:${device.deviceId}` : device.name;
}

/**
 * The device to run on. Nothing is looked for unless CUDA is asked for, or `auto` could use it.
 * @throws RredcotError (exit 69) where CUDA is asked for and cannot be had, naming what is missing
 */
export async function resolveDevice(
  choice: DeviceChoice,
  find: () => Promise<CudaFindings> = findCuda,
  cudaGraphs: boolean = CUDA_GRAPHS,
): Promise<ResolvedDevice> {
  if (choice === 'auto') return autoDevice(cudaGraphs ? await find() : undefined);
  if (choice.name !== 'cuda') return { device: choice, reason: 'asked for' };
  const problems = cudaProblems(await find(), choice.deviceId);
  if (problems.length === 0) return { device: choice, reason: 'asked for' };
  const mends = [...new Set(problems.map(({ mend }) => mend))];
  throw new RredcotError(
    `--device ${deviceName(choice)} cannot be had: ${problems.map(({ what }) => what).join('; ')}`,
    {
      exitCode: EXIT.device,
      hint: cudaGraphs
        ? `${mends.join('; then ')}; or --device cpu`
        : `--device cpu, since ${CPU_GRAPHS_REASON}; what CUDA lacks here: ${mends.join('; then ')}`,
    },
  );
}

/** What `auto` takes: CUDA where nothing is in its way, else the CPU. `undefined`: the graphs cannot run on CUDA. */
export function autoDevice(cuda: CudaFindings | undefined): ResolvedDevice {
  if (cuda === undefined) return { device: { name: 'cpu' }, reason: CPU_GRAPHS_REASON };
  const problem = cudaProblems(cuda, 0)[0];
  if (problem !== undefined) return { device: { name: 'cpu' }, reason: `CUDA lacks: ${problem.what}` };
  return { device: { name: 'cuda', deviceId: 0 }, reason: `${cuda.gpus[0]}, driver ${cuda.driver}` };
}

/** What keeps GPU `deviceId` from being used, in the order in which to mend it; nothing where all is there. */
export function cudaProblems(cuda: CudaFindings, deviceId: number): Problem[] {
  if (cuda.platform !== 'linux/x64')
    return [{ what: `CUDA is for linux/x64, this is ${cuda.platform}`, mend: 'use --device cpu' }];
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
      mend: `export LD_LIBRARY_PATH=${dirname(path)}:$LD_LIBRARY_PATH`,
    };
  if (PROVIDER_FILES.some((file) => file === name))
    return { what: `${name} is missing (ONNX Runtime's CUDA provider)`, mend: providerMend(cuda) };
  if (name === 'libcuda.so.1')
    return { what: `${name} is missing (the NVIDIA driver's library)`, mend: driverMend(cuda) };
  const major = cudaMajor(cuda);
  return {
    what: `${name} is missing (CUDA ${major})`,
    mend: `apt-get install cuda-libraries-${major}-0 (from NVIDIA's package repository)`,
  };
}

/** What is wrong with driver and GPUs. */
export function driverProblems(cuda: CudaFindings, deviceId: number): Problem[] {
  const { driver, gpus } = cuda;
  if (driver === undefined) return [{ what: 'no NVIDIA driver answers', mend: driverMend(cuda) }];
  const oldest = oldestDriver(cuda);
  if (Number.parseInt(driver, 10) < oldest)
    return [{ what: `driver ${driver} is older than ${oldest}`, mend: driverMend(cuda) }];
  if (gpus.length === 0)
    return [
      {
        what: 'no GPU answers',
        mend: 'unset CUDA_VISIBLE_DEVICES, see what nvidia-smi -L lists; a container needs --gpus all',
      },
    ];
  if (deviceId >= gpus.length)
    return [
      {
        what: `there is no GPU ${deviceId}, ${gpus.length} in sight`,
        mend: `--device cuda:0, or unset CUDA_VISIBLE_DEVICES`,
      },
    ];
  return [];
}

function providerMend({ nativeFolder }: CudaFindings): string {
  if (nativeFolder === undefined) return 'npm ci --onnxruntime-node-install=skip';
  // bin/napi-v6/<platform>/<arch> of the package; "cuda12" is what its script calls them, whatever the CUDA version
  const script = join(nativeFolder, '../../../../script/install.js');
  return `ONNXRUNTIME_NODE_INSTALL=cuda12 node ${script} (downloads from nuget.org)`;
}

function driverMend(cuda: CudaFindings): string {
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

/** What a session that fails on `device` should be told to try; undefined on the CPU. */
export function sessionHint(device: Device): string | undefined {
  if (device.name === 'cpu') return undefined;
  if (device.name === 'webgpu') return '--device cpu; webgpu needs a GPU with Vulkan (libvulkan.so.1)';
  return `--device cpu${CUDA_GRAPHS ? '' : `, since ${CPU_GRAPHS_REASON}`}; rredcot doctor shows what CUDA lacks`;
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
  const besides = { before: nativeFolder ? [nativeFolder] : [], cache: new Map(), after: [], elsewhere: [] };
  const provider = PROVIDER_FILES.map((name) => findLibrary(name, besides));
  const file = provider.find(({ name }) => name === PROVIDER)?.path;
  const section = file === undefined ? undefined : await readDynamicSection(file);
  const where = await searchPath(env, section?.folders ?? []);
  const needed = (section?.needed ?? NEEDED).filter((name) => !SYSTEM.test(name));
  return {
    platform: `${process.platform}/${process.arch}`,
    nativeFolder,
    provider,
    libraries: needed.map((name) => findLibrary(name, where)),
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
  return {
    driver: driverVersion(fileOr('/proc/driver/nvidia/version', '')),
    gpus: gpusInSight(deviceNodes(), env.CUDA_VISIBLE_DEVICES),
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

function deviceNodes(): string[] {
  try {
    return readdirSync('/dev').filter((name) => /^nvidia\d+$/.test(name));
  } catch {
    return [];
  }
}

function fileOr(path: string, otherwise: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return otherwise;
  }
}
