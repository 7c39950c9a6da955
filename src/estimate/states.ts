// What the calibrated value knows of a state: v̂ there, where something was scored, and how surprising the thought up to it was (METHOD §3).

const OF_VALUE = ['logit_value', 'value'];
const OF_THOUGHT = ['tokens', 'lowest_logprob', 'logprob_sum', 'improbable_tokens', 'two_lowest_logprobs'];

/** φ(s_k) of `pr`, in the order in which weights stand: a calibration file names them. */
export const FEATURES: readonly string[] = [...OF_VALUE, ...OF_THOUGHT, 'logit_geo_value', 'geo_value'];

/** What values are calibrated: `pr`; P(yes) of `ask`, which needs no reference; or none, where nothing was scored and the thought has to tell. */
export type Base = 'pr' | 'ask' | 'none';

/** What a fit is made of: the values of one of these, or `probe`, which has hidden states beside them. */
export type FitKind = Base | 'probe';

/** The features of each, in the order in which weights stand; a value's logarithmic odds and itself come first. */
export const FEATURES_OF: Readonly<Record<FitKind, readonly string[]>> = {
  pr: FEATURES,
  // what was doubted once may still be wrong; before anything is written P(yes) is of another kind
  ask: [...OF_VALUE, ...OF_THOUGHT, 'entropy_sum', 'lowest_value', 'start'],
  none: [...OF_THOUGHT, 'entropy_sum'],
  // what stands beside hidden states
  probe: [...FEATURES, 'entropy_sum', 'largest_entropy', 'start'],
};

/** v̂ is held this far from 0 and 1 where a logarithm is taken of it. */
const CLIP = 1e-4;
/** nats: a token less likely than about one in ten */
const IMPROBABLE = -2.3;

/** A trace's states: K+1 of them, the last after `ends[K−1]` tokens. */
export interface States {
  /** (K+1) v̂(s_0..K): the probability of the references now (`pr`), or of yes (`ask`); not read where nothing was scored */
  readonly values: Float32Array;
  /** (K+1) the same of one token of them (`pr-geo`): a long reference is improbable whatever the thought was worth */
  readonly geoValues: Float32Array;
  /** (K) tokens before s_1..s_K; s_0 has none, whatever opens the thought */
  readonly ends: Int32Array;
  /** (T) log p of the completion's tokens, nats; nothing behind `ends[k−1]` is read for s_k */
  readonly logprobs: Float32Array;
  /** (T) entropies there, nats; of `pr` not read */
  readonly entropies?: Float32Array;
}

/** v̂ within 1e-4 of neither 0 nor 1. */
export function clipped(value: number): number {
  return Math.min(1 - CLIP, Math.max(CLIP, value));
}

/** φ(s_0..K), one state after the other: (K+1)·F. */
export function stateFeatures(
  { values, geoValues, ends, logprobs, entropies }: States,
  base: FitKind = 'pr',
): Float64Array {
  const names = FEATURES_OF[base];
  const F = names.length;
  const features = new Float64Array(values.length * F);
  let [lowest, second, sum, improbable, unsure, doubted, unsurest] = [0, 0, 0, 0, 0, 1, 0];
  let t = 0;
  for (let k = 0; k < values.length; k++) {
    for (const end = k === 0 ? 0 : (ends[k - 1] as number); t < end; t++) {
      const logprob = logprobs[t] as number;
      sum += logprob;
      unsure += entropies?.[t] ?? 0;
      unsurest = Math.max(unsurest, entropies?.[t] ?? 0);
      if (logprob < IMPROBABLE) improbable++;
      if (logprob < lowest) [lowest, second] = [logprob, lowest];
      else if (logprob < second) second = logprob;
    }
    const [value, geo] = [values[k] as number, geoValues[k] as number];
    doubted = Math.min(doubted, value);
    const all: Readonly<Record<string, number>> = {
      ...{ logit_value: heldLogit(value), value, logit_geo_value: heldLogit(geo), geo_value: geo },
      ...{ tokens: t, lowest_logprob: lowest, logprob_sum: sum, improbable_tokens: improbable },
      ...{ two_lowest_logprobs: lowest + second, entropy_sum: unsure, largest_entropy: unsurest },
      ...{ lowest_value: doubted, start: k === 0 ? 1 : 0 },
    };
    for (const [f, name] of names.entries()) features[k * F + f] = all[name] as number;
  }
  return features;
}

function heldLogit(value: number): number {
  const held = clipped(value);
  return Math.log(held / (1 - held));
}
