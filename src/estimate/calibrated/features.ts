// What the calibrated value knows of a state: v̂ there, two ways, how surprising the thought up to it was (METHOD §3), and further columns.
import type { ColumnFeature } from './columns.js';

/** φ(s_k), in the order in which weights stand: a calibration file names them. Further ones stand behind them. */
export const FEATURES = [
  'logit_value',
  'value',
  'tokens',
  'lowest_logprob',
  'logprob_sum',
  'improbable_tokens',
  'two_lowest_logprobs',
  'logit_geo_value',
  'geo_value',
] as const;

/** v̂ is held this far from 0 and 1 where a logarithm is taken of it. */
const CLIP = 1e-4;
/** nats: a token less likely than about one in ten */
const IMPROBABLE = -2.3;

/** A trace's states: K+1 of them, the last after `ends[K−1]` tokens. */
export interface States {
  /** (K+1) v̂(s_0..K): the probability of the references now (`pr`) */
  readonly values: Float32Array;
  /** (K+1) the same of one token of them (`pr-geo`): a long reference is improbable whatever the thought was worth */
  readonly geoValues: Float32Array;
  /** (K) tokens before s_1..s_K; s_0 has none, whatever opens the thought */
  readonly ends: Int32Array;
  /** (T) log p of the completion's tokens, nats; nothing behind `ends[k−1]` is read for s_k */
  readonly logprobs: Float32Array;
  /** (K+1) by column, for features that read one; NaN where nothing is known */
  readonly columns?: ReadonlyMap<string, Float64Array>;
}

/** v̂ within 1e-4 of neither 0 nor 1. */
export function clipped(value: number): number {
  return Math.min(1 - CLIP, Math.max(CLIP, value));
}

/**
 * φ(s_0..K), one state after the other: (K+1)·F; NaN where a column has no number for a state.
 * @param further features behind {@link FEATURES}
 */
export function stateFeatures(
  { values, geoValues, ends, logprobs, columns }: States,
  further: readonly ColumnFeature[] = [],
): Float64Array {
  const F = FEATURES.length + further.length;
  const features = new Float64Array(values.length * F);
  let [lowest, second, sum, improbable] = [0, 0, 0, 0];
  let t = 0;
  for (let k = 0; k < values.length; k++) {
    for (const end = k === 0 ? 0 : (ends[k - 1] as number); t < end; t++) {
      const logprob = logprobs[t] as number;
      sum += logprob;
      if (logprob < IMPROBABLE) improbable++;
      if (logprob < lowest) [lowest, second] = [logprob, lowest];
      else if (logprob < second) second = logprob;
    }
    const [value, geo] = [values[k] as number, geoValues[k] as number];
    const surprise = [t, lowest, sum, improbable, lowest + second];
    features.set([heldLogit(value), value, ...surprise, heldLogit(geo), geo], k * F);
  }
  for (const [n, { column, isLowest }] of further.entries()) {
    const numbers = columns?.get(column);
    let least = Number.NaN;
    for (let k = 0; k < values.length; k++) {
      const own = numbers?.[k] ?? Number.NaN;
      // what is not known is no number to be lower than
      if (!(own >= least)) least = Number.isNaN(own) ? least : own;
      features[k * F + FEATURES.length + n] = isLowest ? least : own;
    }
  }
  return features;
}

function heldLogit(value: number): number {
  const held = clipped(value);
  return Math.log(held / (1 - held));
}
