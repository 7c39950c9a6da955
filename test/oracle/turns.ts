/** σ of a trace of several turns by the formulas of METHOD 4, each sum over all its tokens with the mask as a factor. */

export interface TurnsInput {
  mask: readonly number[]; // (T) 1: the policy's token
  segments: readonly number[]; // (T) number of the segment that a token of the policy's lies in
  deltas: readonly number[]; // (K) of the thought; a segment more is the answer, with 0
  entropies: ArrayLike<number>; // (T)
  logprobs: ArrayLike<number>; // (T)
  advantage: number; // R*, not 0
}

export const TURN_RULES = ['share', 'rudder', 'uniform', 'surprise', 'entropy', 'discounted'] as const;

/** @param within weights of a segment's tokens, of mean 1 over the policy's; @returns (T) */
export function sigmaOfTurns(
  rule: (typeof TURN_RULES)[number],
  input: TurnsInput,
  within: 'uniform' | 'entropy',
): number[] {
  const { mask, segments, deltas, entropies: H, logprobs, advantage } = input;
  const over = (of: (t: number) => number) => mask.reduce((sum, m, t) => sum + m * (m === 1 ? of(t) : 0), 0);
  const T = over(() => 1);
  const inSegment = (k: number) => (t: number) => (segments[t] === k ? 1 : 0);
  const weight = (t: number) => {
    if (within === 'uniform') return 1;
    const own = inSegment(segments[t] as number);
    const mean = over((s) => own(s) * (H[s] as number)) / over(own);
    return mean === 0 ? 1 : (H[t] as number) / mean;
  };
  const delta = (t: number) => deltas[segments[t] as number] ?? 0;
  const n = (t: number) => over(inSegment(segments[t] as number));
  const gain = (d: number) => Math.max(0, Math.sign(advantage) * d);
  const gains = deltas.reduce((sum, d) => sum + gain(d), 0);
  const rho = advantage - deltas.reduce((sum, d) => sum + d, 0);
  const after = (t: number) => over((s) => (s > t ? 1 : 0));
  const proportional = (of: (t: number) => number) => (t: number) => of(t) / over(of);
  const sigma = {
    share: (t: number) => (0.9 * weight(t) * gain(delta(t))) / gains / n(t) + 0.1 / T,
    rudder: (t: number) => (weight(t) * (delta(t) / n(t) + rho / T)) / advantage,
    uniform: () => 1 / T,
    surprise: proportional((t) => -(logprobs[t] as number)),
    entropy: proportional((t) => H[t] as number),
    discounted: proportional((t) => 0.99 ** after(t)),
  }[rule];
  return mask.map((m, t) => (m === 1 ? sigma(t) : 0));
}
