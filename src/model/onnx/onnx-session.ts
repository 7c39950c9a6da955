// Opens a graph of a folder in ONNX Runtime on a device; what graphs take and give.
import { join } from 'node:path';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { ownCores } from '../../cores.js';
import { CPU_ENTRIES } from '../graph/head.js';
import type { Precision } from '../graph/onnx.js';
import { type Rotary, ropeTables } from '../graph/rope.js';
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

/** Rotary tables of at least so many positions, as a graph's inputs. */
export type RopeFor = (positions: number) => Feeds;

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
  let rope: Feeds = {};
  let length = 0;
  return (positions) => {
    if (positions <= length) return rope;
    length ||= 1024;
    while (length < positions) length *= 2;
    const { cos, sin } = ropeTables(arch, length);
    const dims = [length, cos.length / length];
    rope = { cos: new Tensor('float32', cos, dims), sin: new Tensor('float32', sin, dims) };
    return rope;
  };
}

/** Logits held at once: 4 MB a core's cache can keep; a GPU wants large products, and has the memory for 256 MB. */
const LOGITS = { cpu: 2 ** 20, gpu: 2 ** 26 } as const;
const LEAST_ROWS = 32;
const MOST_ROWS = 1024;

/**
 * The rows that the head reads out, and the token that follows each, as its [n,C] inputs: C as many as memory allows, in blocks of like size,
 * the last one padded with 0.
 */
export function readOut(
  rows: readonly number[],
  targets: readonly number[],
  vocab: number,
  precision: Precision,
): Feeds {
  const isCpu = precision === 'f32';
  // a large vocabulary comes block by block on a CPU
  const entries = isCpu && vocab >= 2 * CPU_ENTRIES ? CPU_ENTRIES : vocab;
  const allowed = Math.floor(LOGITS[isCpu ? 'cpu' : 'gpu'] / entries);
  const most = Math.max(LEAST_ROWS, Math.min(MOST_ROWS, allowed));
  const n = Math.max(1, Math.ceil(rows.length / most));
  const C = Math.max(1, Math.ceil(rows.length / n));
  const [ofRows, ofTargets] = [rows, targets].map((values) => {
    const padded = new BigInt64Array(n * C);
    padded.set(values.map(BigInt));
    return int64(padded, [n, C]);
  }) as [Tensor, Tensor];
  return { rows: ofRows, targets: ofTargets };
}

export function int64(data: BigInt64Array, dims: readonly number[] = [data.length]): Tensor {
  return new Tensor('int64', data, dims);
}

/** Names of every layer's keys and values. @param part how those begin of which there are several kinds */
export function cacheNames(layers: number, part = ''): string[] {
  return Array.from({ length: layers }, (_, i) => [`${part}k_${i}`, `${part}v_${i}`]).flat();
}
