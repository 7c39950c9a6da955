// What the scoring graph takes and gives, as ONNX Runtime's tensors; and its rotary tables.
import { Tensor } from 'onnxruntime-node';
import type { Architecture } from '../graph/architecture.js';
import { CPU_ENTRIES } from '../graph/head.js';
import type { Precision } from '../graph/onnx.js';
import type { RopeScaling } from '../graph/rope.js';
import type { PrefixPlace } from './placed.js';

/** Inputs or outputs of a graph by name. */
export type Feeds = Record<string, Tensor>;
/** What a run has kept. */
export interface Kept {
  /** the graph's past inputs: keys and values of every layer, the prefixes' [B,kvHeads,T,headDim], the suffixes' [N,kvHeads,L,headDim] */
  readonly past: Feeds;
  /** of each trace */
  readonly places: readonly PrefixPlace[];
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

export function int64(data: BigInt64Array, dims: readonly number[]): Tensor {
  return new Tensor('int64', data, dims);
}

/** Lists as one input [count, L], as wide as the longest, `least` at least: padded with 0. */
export function padded(lists: readonly Int32Array[], count: number, least = 0): Tensor {
  const L = lists.reduce((most, { length }) => Math.max(most, length), least);
  const table = new BigInt64Array(count * L);
  for (const [n, list] of lists.entries())
    for (let t = 0; t < list.length; t++) table[n * L + t] = BigInt(list[t] as number);
  return int64(table, [count, L]);
}

/** What the graph calls keys and values of prefixes and of suffixes begins so. */
export const PREFIX = '';
export const SUFFIX = 'suffix_';

/** Names of every layer's keys and values. */
export function cacheNames(layers: number, part: string): string[] {
  return Array.from({ length: layers }, (_, i) => [`${part}k_${i}`, `${part}v_${i}`]).flat();
}

// ------ rotary positions, with the scaling rules of long-context checkpoints, in float64 outside the graph

/**
 * Makes tables of cos and sin of position × inverse frequency, [length, headDim/2] each (RoFormer, arXiv 2104.09864, eq. 15; half-split order),
 * long enough for a number of positions from 0; grown by doubling so that few lengths occur.
 */
export function growingRope(arch: Architecture): (positions: number) => Feeds {
  const frequencies = inverseFrequencies(arch);
  const half = frequencies.length;
  const factor = arch.ropeScaling?.type === 'yarn' ? arch.ropeScaling.attentionFactor : 1;
  let rope: Feeds = {};
  let length = 0;
  return (positions) => {
    if (positions <= length) return rope;
    length ||= 1024;
    while (length < positions) length *= 2;
    const cos = new Float32Array(length * half);
    const sin = new Float32Array(length * half);
    for (const [i, frequency] of frequencies.entries())
      for (let p = 0; p < length; p++) {
        cos[p * half + i] = factor * Math.cos(p * frequency);
        sin[p * half + i] = factor * Math.sin(p * frequency);
      }
    const dims = [length, half];
    rope = { cos: new Tensor('float32', cos, dims), sin: new Tensor('float32', sin, dims) };
    return rope;
  };
}

/** (headDim/2) radians a position, from the fastest to the slowest. */
function inverseFrequencies({ headDim, ropeTheta, ropeScaling }: Architecture): Float64Array {
  const half = headDim / 2;
  const plain = Float64Array.from({ length: half }, (_, i) => ropeTheta ** (-i / half));
  if (ropeScaling === undefined) return plain;
  // 1: as trained, 0: stretched by the factor; linear (position interpolation, arXiv 2306.15595) stretches all alike
  let kept: (frequency: number, i: number) => number = () => 0;
  if (ropeScaling.type === 'llama3') kept = llama3Kept(ropeScaling);
  if (ropeScaling.type === 'yarn') kept = yarnKept(ropeScaling, headDim, ropeTheta);
  return plain.map((frequency, i) => {
    const share = kept(frequency, i);
    return share * frequency + ((1 - share) * frequency) / ropeScaling.factor;
  });
}

/** Llama 3.1: waves that fit highFreqFactor times into the original context stay, those under lowFreqFactor do not. */
function llama3Kept(scaling: Extract<RopeScaling, { type: 'llama3' }>) {
  const { lowFreqFactor: low, highFreqFactor: high, originalMaxTokens } = scaling;
  return (frequency: number) => {
    const waves = (originalMaxTokens * frequency) / (2 * Math.PI);
    return Math.min(1, Math.max(0, (waves - low) / (high - low)));
  };
}

/** YaRN (arXiv 2309.00071, §3.2): a ramp over dimensions between betaFast and betaSlow turns in the original context. */
function yarnKept(scaling: Extract<RopeScaling, { type: 'yarn' }>, headDim: number, theta: number) {
  /** the (fractional) dimension that makes so many turns */
  const dimension = (turns: number) =>
    (headDim * Math.log(scaling.originalMaxTokens / (turns * 2 * Math.PI))) / (2 * Math.log(theta));
  let [low, high] = [dimension(scaling.betaFast), dimension(scaling.betaSlow)];
  if (scaling.truncate) [low, high] = [Math.floor(low), Math.ceil(high)];
  low = Math.max(low, 0);
  high = Math.min(high, headDim - 1);
  if (low === high) high += 0.001; // a step: as in transformers, the published code divides by the width
  return (_: number, i: number) => 1 - Math.min(1, Math.max(0, (i - low) / (high - low)));
}
