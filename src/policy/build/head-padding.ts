// Widens attention heads to a size that ONNX Runtime's GroupQueryAttention takes, by zeros that change no score.
import type { Graph } from './onnx.js';
import { cast, type Precision } from './precision.js';

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
