// `--device`: which execution provider the policy runs on.
import { EXIT, RredcotError, usageError } from '../../errors.js';
import { type CudaFindings, cudaProblems, findCuda } from './cuda.js';

/** An execution provider in the form that ONNX Runtime's session options take. */
export type Device = { readonly name: 'cpu' } | { readonly name: 'cuda'; readonly deviceId: number };

export type DeviceChoice = 'auto' | Device;

export interface ResolvedDevice {
  readonly device: Device;
  /** why, as half a sentence for people */
  readonly reason: string;
}

/**
 * Reads `--device`.
 * @param flag the one that the user gave
 * @throws RredcotError (exit 2)
 */
export function parseDevice(text: string, flag = '--device'): DeviceChoice {
  if (text === 'auto') return 'auto';
  if (text === 'cpu') return { name: text };
  const cuda = /^cuda(?::(\d{1,3}))?$/.exec(text);
  if (cuda !== null) return { name: 'cuda', deviceId: Number(cuda[1] ?? 0) };
  throw usageError(`${flag} ${text}: expected auto, cpu, cuda or cuda:<number of the GPU>`, `${flag} auto`);
}

/** As it is written on the command line. */
export function deviceName(device: Device): string {
  return device.name === 'cuda' ? `cuda:${device.deviceId}` : device.name;
}

/**
 * The device to run a policy on. Nothing is looked for where the CPU is asked for.
 * @throws RredcotError (exit 69) where CUDA is asked for and cannot be had, naming what is missing
 */
export async function resolveDevice(
  choice: DeviceChoice,
  find: () => Promise<CudaFindings> = findCuda,
): Promise<ResolvedDevice> {
  if (choice === 'auto') return autoDevice(await find());
  if (choice.name !== 'cuda') return { device: choice, reason: 'asked for' };
  const problems = cudaProblems(await find(), choice.deviceId);
  if (problems.length === 0) return { device: choice, reason: 'asked for' };
  const fixes = [...new Set(problems.map(({ fix }) => fix))];
  throw new RredcotError(
    `--device ${deviceName(choice)} cannot be had: ${problems.map(({ what }) => what).join('; ')}`,
    { exitCode: EXIT.device, hint: `${fixes.join('; then ')}; or --device cpu` },
  );
}

/** What `auto` takes: CUDA where nothing is in its way, else the CPU. */
export function autoDevice(cuda: CudaFindings): ResolvedDevice {
  const problem = cudaProblems(cuda, 0)[0];
  if (problem !== undefined) return { device: { name: 'cpu' }, reason: `CUDA lacks: ${problem.what}` };
  return { device: { name: 'cuda', deviceId: 0 }, reason: `${cuda.gpus[0]}, driver ${cuda.driver}` };
}

/** What a session that fails on `device` should be told to try; undefined on the CPU. */
export function sessionHint(device: Device): string | undefined {
  if (device.name === 'cpu') return undefined;
  return '--device cpu; rredcot doctor shows what CUDA lacks';
}
