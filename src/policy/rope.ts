// Rotary position tables, computed in float64 outside the graph.
import type { Architecture } from './architecture.js';

/** cos and sin of position × inverse frequency, each (positions, headDim/2) float32. */
export interface RopeTables {
  readonly positions: number;
  readonly cos: Float32Array;
  readonly sin: Float32Array;
}

/** Tables for `positions` positions from 0 (RoFormer, arXiv 2104.09864, eq. 15; half-split order). */
export function ropeTables(arch: Architecture, positions: number): RopeTables {
  const half = arch.headDim / 2;
  const cos = new Float32Array(positions * half);
  const sin = new Float32Array(positions * half);
  for (let i = 0; i < half; i++) {
    const frequency = arch.ropeTheta ** (-i / half);
    for (let p = 0; p < positions; p++) {
      cos[p * half + i] = Math.cos(p * frequency);
      sin[p * half + i] = Math.sin(p * frequency);
    }
  }
  return { positions, cos, sin };
}
