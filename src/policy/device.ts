// `--device`: which execution provider the policy runs on.
import { EXIT, RredcotError } from '../errors.js';
import { type CudaFindings, cudaProblems, findCuda } from './cuda.js';

/** An execution provider in the form that ONNX Runtime's session options take. */
export type Device =
  | { readonly name: 'cpu' }
  | { readonly name: 'cuda'; readonly deviceId: number }
  | { readonly name: 'webgpu' };

export type DeviceChoice = 'auto' | Device;

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

/** What a session that fails on `device` should be told to try; undefined on the CPU. */
export function sessionHint(device: Device): string | undefined {
  if (device.name === 'cpu') return undefined;
  if (device.name === 'webgpu') return '--device cpu; webgpu needs a GPU with Vulkan (libvulkan.so.1)';
  return `--device cpu${CUDA_GRAPHS ? '' : `, since ${CPU_GRAPHS_REASON}`}; rredcot doctor shows what CUDA lacks`;
}
