// What ONNX Runtime's kernels take: the number type that a graph computes in, and attention heads of certain widths.
import { DTYPE, type Dtype, type Graph } from './onnx.js';

export const CUDA_PRECISIONS = ['bf16', 'f16'] as const;
export type CudaPrecision = (typeof CUDA_PRECISIONS)[number];

/**
 * What the heavy nodes compute in. ONNX Runtime's CPU has float32 kernels for all of them; its CUDA provider has
 * GroupQueryAttention in float16 and bfloat16 only.
 */
export type Precision = 'f32' | CudaPrecision;

/** A value as another type; itself where it is of that type. */
export function cast(g: Graph, value: string, from: Dtype, to: Dtype): string {
  return from === to ? value : g.node('Cast', [value], { to: DTYPE[to] });
}

/**
 * The type that a checkpoint's CUDA graph computes in where none is asked for: its own. A float32 checkpoint gets
 * bfloat16, whose range no activation of a float32 model can leave; float16 is eight times finer, and ends at 65,504.
 */
export function cudaPrecisionOf(dtypes: Iterable<Dtype>): CudaPrecision {
  const stored = new Set(dtypes);
  return stored.has('f16') && !stored.has('bf16') && !stored.has('f32') ? 'f16' : 'bf16';
}

// ------ widths

/** head sizes that the operator takes are multiples of this; a few checkpoints have others, such as 100 */
const MULTIPLE = 8;

export function paddedHeadDim(headDim: number): number {
  return Math.ceil(headDim / MULTIPLE) * MULTIPLE;
}

/** x [B,S,heads·headDim] → [B,S,heads·paddedHeadDim]; x itself where nothing is missing. */
export function padHeads(g: Graph, x: string, heads: number, headDim: number, precision: Precision): string {
  const padded = paddedHeadDim(headDim);
  if (padded === headDim) return x;
  const apart = g.node('Reshape', [x, g.ints([0, 0, heads, headDim])]);
  // in float32: CUDA has no kernel of Pad in bfloat16
  const float = cast(g, apart, precision, 'f32');
  const wide = g.node('Pad', [float, g.ints([0, padded - headDim]), '', g.ints([3])]);
  return g.node('Reshape', [cast(g, wide, 'f32', precision), g.ints([0, 0, heads * padded])]);
}

/** Cuts the last axis of x [B,heads,S,paddedHeadDim] back to headDim. */
export function cutHeads(g: Graph, x: string, headDim: number): string {
  if (paddedHeadDim(headDim) === headDim) return x;
  return g.node('Slice', [x, g.ints([0]), g.ints([headDim]), g.ints([3])]);
}

/** x [B,S,heads·paddedHeadDim] → [B,S,heads,headDim], to be flattened by the caller; x itself where nothing was added. */
export function cutFlatHeads(g: Graph, x: string, heads: number, headDim: number): string {
  const padded = paddedHeadDim(headDim);
  if (padded === headDim) return x;
  return cutHeads(g, g.node('Reshape', [x, g.ints([0, 0, heads, padded])]), headDim);
}
