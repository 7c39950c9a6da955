// `--device`: which execution provider the policy runs on.
import { EXIT, RredcotError, usageError } from '../../errors.js';
import { type CudaFindings, cudaProblems, findCuda } from './cuda.js';
import type { ModelFolder } from './folder.js';

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

/** The part of a policy folder that says whether CUDA can run it. */
export type RunsOnCuda = Pick<ModelFolder, 'path' | 'cuda'>;

/**
 * Reads `--device`, or a name in `--devices`.
 * @param flag the one that the user gave
 * @throws RredcotError (exit 2)
 */
export function parseDevice(text: string, flag = '--device'): DeviceChoice {
  if (text === 'auto') return 'auto';
  if (text === 'cpu' || text === 'webgpu') return { name: text };
  const cuda = /^cuda(?::(\d{1,3}))?$/.exec(text);
  if (cuda !== null) return { name: 'cuda', deviceId: Number(cuda[1] ?? 0) };
  throw usageError(
    `${flag} ${text}: expected auto, cpu, cuda, cuda:<number of the GPU> or webgpu`,
    `${flag} auto`,
  );
}

/** As it is written on the command line. */
export function deviceName(device: Device): string {
  return device.name === 'cuda' ? `cuda:${device.deviceId}` : device.name;
}

/**
 * The device to run a policy on. Nothing is looked for unless CUDA is asked for, or `auto` could use it.
 * @throws RredcotError (exit 69) where CUDA is asked for and cannot be had, naming what is missing
 */
export async function resolveDevice(
  choice: DeviceChoice,
  policy: RunsOnCuda,
  find: () => Promise<CudaFindings> = findCuda,
): Promise<ResolvedDevice> {
  if (choice === 'auto')
    return policy.cuda === undefined
      ? { device: { name: 'cpu' }, reason: `${policy.path} has no graph for CUDA` }
      : autoDevice(await find());
  if (choice.name !== 'cuda') return { device: choice, reason: 'asked for' };
  if (policy.cuda === undefined) throw noCudaGraph(policy.path);
  const problems = cudaProblems(await find(), choice.deviceId);
  if (problems.length === 0) return { device: choice, reason: 'asked for' };
  const fixes = [...new Set(problems.map(({ fix }) => fix))];
  throw new RredcotError(
    `--device ${deviceName(choice)} cannot be had: ${problems.map(({ what }) => what).join('; ')}`,
    { exitCode: EXIT.device, hint: `${fixes.join('; then ')}; or --device cpu` },
  );
}

/** What `auto` takes where the policy has a graph for CUDA: CUDA where nothing is in its way, else the CPU. */
export function autoDevice(cuda: CudaFindings): ResolvedDevice {
  const problem = cudaProblems(cuda, 0)[0];
  if (problem !== undefined) return { device: { name: 'cpu' }, reason: `CUDA lacks: ${problem.what}` };
  return { device: { name: 'cuda', deviceId: 0 }, reason: `${cuda.gpus[0]}, driver ${cuda.driver}` };
}

/** The refusal of a folder that an earlier version has built. */
export function noCudaGraph(path: string): RredcotError {
  return new RredcotError(`--device cuda: ${path} has no graph for CUDA; an earlier version has built it`, {
    exitCode: EXIT.device,
    hint: 'build the folder again with: rredcot policy build <checkpoint> -o <folder>; or --device cpu',
  });
}

/** What a session that fails on `device` should be told to try; undefined on the CPU. */
export function sessionHint(device: Device): string | undefined {
  if (device.name === 'cpu') return undefined;
  if (device.name === 'webgpu')
    return "--device cpu; webgpu needs a GPU with Vulkan (libvulkan.so.1), Metal or Direct3D 12; it refuses Mesa's lavapipe 22.3";
  return '--device cpu; rredcot doctor shows what CUDA lacks';
}
