// Opens a graph of a folder in ONNX Runtime on a device; what graphs take and give.
import { join } from 'node:path';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { ownCores } from '../../thread.js';
import { type RopeTables, type Rotary, ropeTables } from '../graph/rope.js';
import type { Device } from './device.js';
import type { PrefixPlace } from './placed.js';

/** Inputs or outputs of a graph by name. */
export type Feeds = Record<string, Tensor>;
/** What a run has kept, under the names of the graph's past inputs. */
export interface Kept {
  /** keys and values of every layer: the prefixes' [B,kvHeads,T,headDim], the suffixes' [N,kvHeads,L,headDim] */
  readonly prefixes: Feeds;
  readonly suffixes: Feeds;
  /** of each trace */
  readonly places: readonly PrefixPlace[];
}

/** Rotary tables of at least so many positions. */
export type RopeFor = (positions: number) => RopeTables;

export function openGraph(folder: string, file: string, device: Device): Promise<InferenceSession> {
  return InferenceSession.create(join(folder, file), {
    executionProviders: [device],
    graphOptimizationLevel: 'all',
    intraOpNumThreads: ownCores(),
    // idle threads that spin take the cores from whatever runs beside: measured seven times slower on a busy machine
    extra: { session: { intra_op: { allow_spinning: '0' } } },
    // warnings about unused initialisers and the like are not for users
    logSeverityLevel: 3,
  });
}

// ------ what graphs take and give

/** Makes cos and sin tables long enough for a number of positions; grown by doubling so that few lengths occur. */
export function growingRope(arch: Rotary): RopeFor {
  let rope = ropeTables(arch, 1024);
  return (positions) => {
    let length = rope.positions;
    while (length < positions) length *= 2;
    if (length > rope.positions) rope = ropeTables(arch, length);
    return rope;
  };
}

/** The tables as a graph's inputs. */
export function ropeFeeds({ positions, cos, sin }: RopeTables): Feeds {
  const dims = [positions, cos.length / positions];
  return { cos: new Tensor('float32', cos, dims), sin: new Tensor('float32', sin, dims) };
}

export function int64(data: BigInt64Array, dims: readonly number[] = [data.length]): Tensor {
  return new Tensor('int64', data, dims);
}

/** The first `length` values of a graph output, in a buffer of their own. */
export function floats(tensor: Tensor | undefined, length: number): Float32Array {
  return (tensor as Tensor).data.slice(0, length) as Float32Array;
}

/** Names of every layer's keys and values. @param part how those begin of which there are several kinds */
export function cacheNames(layers: number, part = ''): string[] {
  return Array.from({ length: layers }, (_, i) => [`${part}k_${i}`, `${part}v_${i}`]).flat();
}
