// Cuts a thought by what the policy said of its tokens: before those of high entropy, or before every m-th unlikely one.
import type { ThoughtSpan, TokenText } from './span.js';

/** What the policy said of a completion's tokens. */
export interface TokenFigures {
  /** (T) nats */
  readonly entropies: Float32Array;
  /** (T) nats */
  readonly logprobs: Float32Array;
}

/** Tokens before which a cut can stand: all of the thought's but its first, and no end token that the text does not show. */
function cuttable({ textEnd }: TokenText, { start, end }: ThoughtSpan): { from: number; to: number } {
  return { from: start + 1, to: Math.min(end, textEnd) };
}

/** How high the entropy is before which a thought is cut: a bound in nats, or the share of tokens that lie highest. */
export type EntropyCut = { readonly threshold: number } | { readonly share: number };

/**
 * Boundaries before the tokens of at least `threshold` nats; or before the `share` of the thought's tokens with most
 * entropy (rounded down), the earlier one of equals.
 */
export function entropyCuts(
  tokens: TokenText,
  thought: ThoughtSpan,
  { entropies }: TokenFigures,
  cut: EntropyCut,
): number[] {
  const { from, to } = cuttable(tokens, thought);
  const inside = Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i);
  if ('threshold' in cut) return inside.filter((t) => (entropies[t] as number) >= cut.threshold);
  const ranked = inside.sort((a, b) => (entropies[b] as number) - (entropies[a] as number) || a - b);
  return ranked.slice(0, Math.floor(cut.share * ranked.length)).sort((a, b) => a - b);
}

/** Which tokens are cutpoints (SPO, arXiv 2505.23564), and before every how many of them is cut. */
export interface CutpointCut {
  /** a cutpoint is a token to which the policy gave less */
  readonly probability: number;
  readonly every: number;
}

/** Boundaries before every `every`-th of the thought's cutpoints. */
export function cutpointCuts(
  tokens: TokenText,
  thought: ThoughtSpan,
  { logprobs }: TokenFigures,
  { probability, every }: CutpointCut,
): number[] {
  const { to } = cuttable(tokens, thought);
  const limit = Math.log(probability);
  const cuts: number[] = [];
  let cutpoints = 0;
  for (let t = thought.start; t < to; t++)
    if ((logprobs[t] as number) < limit && ++cutpoints % every === 0) cuts.push(t);
  return cuts;
}
