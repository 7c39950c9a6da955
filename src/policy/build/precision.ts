// The number type that a scoring graph computes in, and casts to it and from it.
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
