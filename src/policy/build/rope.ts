// Rotary position tables with the scaling rules of long-context checkpoints, computed in float64 outside the graph.
import { z } from 'zod';

export const positive = z.number().positive();
export const tokenCount = z.number().int().positive();

/** How a checkpoint stretches its rotary frequencies; absent: not at all. Stored in policy.json. */
export const RopeScalingSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('linear'), factor: positive }),
  z.strictObject({
    type: z.literal('llama3'),
    factor: positive,
    lowFreqFactor: positive,
    highFreqFactor: positive,
    originalMaxTokens: tokenCount,
  }),
  z.strictObject({
    type: z.literal('yarn'),
    factor: positive,
    originalMaxTokens: tokenCount,
    /** multiplies cos and sin, hence every attention score by its square */
    attentionFactor: positive,
    betaFast: positive,
    betaSlow: positive,
    /** the ramp's ends are whole dimensions */
    truncate: z.boolean(),
  }),
]);
export type RopeScaling = z.infer<typeof RopeScalingSchema>;

/** The part of an architecture that rotary tables depend on. */
export interface Rotary {
  readonly headDim: number;
  readonly ropeTheta: number;
  readonly ropeScaling?: RopeScaling;
}

/** cos and sin of position × inverse frequency, each (positions, headDim/2) float32. */
export interface RopeTables {
  readonly positions: number;
  readonly cos: Float32Array;
  readonly sin: Float32Array;
}

/** Tables for `positions` positions from 0 (RoFormer, arXiv 2104.09864, eq. 15; half-split order). */
export function ropeTables(arch: Rotary, positions: number): RopeTables {
  const frequencies = inverseFrequencies(arch);
  const factor = arch.ropeScaling?.type === 'yarn' ? arch.ropeScaling.attentionFactor : 1;
  const half = frequencies.length;
  const cos = new Float32Array(positions * half);
  const sin = new Float32Array(positions * half);
  for (const [i, frequency] of frequencies.entries()) {
    for (let p = 0; p < positions; p++) {
      cos[p * half + i] = factor * Math.cos(p * frequency);
      sin[p * half + i] = factor * Math.sin(p * frequency);
    }
  }
  return { positions, cos, sin };
}

/** (headDim/2) radians a position, from the fastest to the slowest. */
export function inverseFrequencies({ headDim, ropeTheta, ropeScaling }: Rotary): Float64Array {
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
