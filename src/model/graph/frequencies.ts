// The frequencies of rotary positions, in float64 outside the graph.
import type { RopeScaling } from './rope.js';

/** (headDim/2) radians a position, from the fastest to the slowest. */
export function inverseFrequencies(headDim: number, theta: number, scaling?: RopeScaling): Float64Array {
  const half = headDim / 2;
  const plain = Float64Array.from({ length: half }, (_, i) => theta ** (-i / half));
  if (scaling === undefined) return plain;
  // 1: as trained, 0: stretched by the factor; linear (position interpolation, arXiv 2306.15595) stretches all alike
  let kept: (frequency: number, i: number) => number = () => 0;
  if (scaling.type === 'llama3') kept = llama3Kept(scaling);
  if (scaling.type === 'yarn') kept = yarnKept(scaling, headDim, theta);
  return plain.map((frequency, i) => {
    const share = kept(frequency, i);
    return share * frequency + ((1 - share) * frequency) / scaling.factor;
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
