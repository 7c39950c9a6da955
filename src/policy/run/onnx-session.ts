// Opens a graph of a folder in ONNX Runtime on a device, and holds what sessions of all kinds share in their threads.
import { join } from 'node:path';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { ownCores } from '../../cores.js';
import { OutOfMemoryError } from '../../errors.js';
import { trunkAttentionNodes } from '../build/attention.js';
import { type RopeTables, type Rotary, ropeTables } from '../build/rope.js';
import { type Device, deviceName } from '../device.js';
import { placementCheck } from '../placement.js';

/** How a graph's session differs from what is usual on its device. */
export interface Placed {
  /** layers whose attention over traces runs on the CPU (WebGPU alone knows this option) */
  readonly attentionOnCpu?: number;
}

/**
 * Opens a session.
 * @param tinyRun of the session, on a device whose placement is checked
 */
export async function openGraph(
  folder: string,
  file: string,
  device: Device,
  tinyRun: (made: InferenceSession) => Promise<void>,
  { attentionOnCpu = 0 }: Placed = {},
): Promise<InferenceSession> {
  const placement = device.name === 'cuda' ? placementCheck(deviceName(device)) : undefined;
  const made = await InferenceSession.create(join(folder, file), {
    executionProviders: [providerOf(device, attentionOnCpu)],
    graphOptimizationLevel: 'all',
    intraOpNumThreads: ownCores(),
    // idle threads that spin take the cores from whatever runs beside: measured seven times slower on a busy machine
    extra: { session: { intra_op: { allow_spinning: '0' } } },
    // warnings about unused initialisers and the like are nobody's business on stderr
    logSeverityLevel: 3,
    ...placement?.options(file),
  });
  await placement?.verify([made], () => tinyRun(made));
  return made;
}

function providerOf(device: Device, attentionOnCpu: number): InferenceSession.ExecutionProviderConfig {
  if (device.name !== 'webgpu' || attentionOnCpu === 0) return device;
  return { ...device, forceCpuNodeNames: trunkAttentionNodes(attentionOnCpu) };
}

/** A run's failure as the main thread tells it apart. @param what ran, e.g. `the policy's run` */
export function failedRun(what: string, error: unknown): never {
  const text = String((error as Error).message ?? error);
  const Kind = /bad_alloc|allocat|out of memory|\bOOM\b/i.test(text) ? OutOfMemoryError : Error;
  throw new Kind(`${what} failed: ${text}`);
}

/** Makes cos and sin tables long enough for a number of positions; grown by doubling so that few lengths occur. */
export function growingRope(arch: Rotary): (positions: number) => RopeTables {
  let rope = ropeTables(arch, 1024);
  return (positions) => {
    let length = rope.positions;
    while (length < positions) length *= 2;
    if (length > rope.positions) rope = ropeTables(arch, length);
    return rope;
  };
}

/** The tables as a graph's inputs. */
export function ropeFeeds({ positions, cos, sin }: RopeTables, headDim: number) {
  const dims = [positions, headDim / 2];
  return { cos: new Tensor('float32', cos, dims), sin: new Tensor('float32', sin, dims) };
}

export function int64(data: BigInt64Array, dims: readonly number[]): Tensor {
  return new Tensor('int64', data, dims);
}

/** The first `length` values of a graph output, in a buffer of their own. */
export function floats(tensor: Tensor | undefined, length: number): Float32Array {
  return (tensor as Tensor).data.slice(0, length) as Float32Array;
}
