// Cuts a completion into its segments: thought segments 1..K by the chosen segmenter, then the answer segment.
import { mergePieces } from './merge.js';
import { findThought, type ThoughtSpan, type TokenText } from './span.js';
import { splitFixed, splitGiven, splitHybrid, splitNewline } from './split.js';

export const SEGMENTERS = ['hybrid', 'newline', 'fixed', 'given'] as const;
export type Segmenter = (typeof SEGMENTERS)[number];

export interface SegmentOptions {
  readonly segmenter: Segmenter;
  /** merge down to so many thought segments; absent: as many as the segmenter makes */
  readonly maxSegments?: number;
  /** tokens a segment of `fixed` */
  readonly fixedLength: number;
  /** tokens beyond which the hybrid segmenter splits a piece at sentence ends */
  readonly longPiece?: number;
}

/** A completion's segments as token boundaries. */
export interface Segmentation {
  /** K+1 exit points: exits[0] before the first thought, exits[k] after thought segment k */
  readonly exits: Int32Array;
  /** K ends of the thought segments, exclusive; segment 1 starts at token 0 */
  readonly thoughtEnds: Int32Array;
  /** tokens of the completion */
  readonly tokens: number;
  /** whether tokens from the last thought end on are an answer segment */
  readonly answered: boolean;
}

/** A completion cut into pieces, of which the segments are made by merging. */
export interface Pieces {
  readonly tokens: TokenText;
  readonly thought: ThoughtSpan;
  /** (P) piece ends as token boundaries, the last one the thought's end */
  readonly ends: Int32Array;
  /** thought segments that will be left after merging */
  readonly segments: number;
}

/** @param given segment ends (token boundaries) for the `given` segmenter */
export function cutPieces(tokens: TokenText, opts: SegmentOptions, given?: Int32Array): Pieces {
  const thought = findThought(tokens);
  const ends = {
    hybrid: () => splitHybrid(tokens, thought, opts.longPiece),
    newline: () => splitNewline(tokens, thought),
    fixed: () => splitFixed(opts.fixedLength, thought),
    given: () => splitGiven(given ?? new Int32Array(0), tokens, thought),
  }[opts.segmenter]();
  return { tokens, thought, ends, segments: Math.min(ends.length, opts.maxSegments ?? ends.length) };
}

/** Exit points 0..P if no pieces were merged: the segments' exits are among them, whatever the entropies. */
export function candidateExits({
  tokens,
  thought,
  ends,
}: Pick<Pieces, 'tokens' | 'thought' | 'ends'>): Int32Array {
  const exits = new Int32Array(ends.length + 1);
  exits[0] = Math.min(thought.start, tokens.textEnd);
  // a trace that ended without an answer: its last exit stands before its end token, which no state comes after
  for (let k = 0; k < ends.length; k++) exits[k + 1] = Math.min(ends[k] as number, tokens.textEnd);
  return exits;
}

/** @param entropies (T) nats, what the merge keeps apart; null where length stands in for them */
export function mergeSegments(pieces: Pieces, entropies: Float32Array | null): Segmentation {
  const { tokens, thought, ends } = pieces;
  const weights = entropies === null ? lengths(ends) : segmentSums(entropies, ends);
  const thoughtEnds = mergePieces(ends, weights, pieces.segments);
  const T = tokens.units.length - 1;
  const exits = candidateExits({ ...pieces, ends: thoughtEnds });
  return { exits, thoughtEnds, tokens: T, answered: thought.answered && thought.end < T };
}

/** Sum of per-token values over each segment, accumulated in float64: values (T), ends (K) → (K). */
export function segmentSums(values: Float32Array, ends: Int32Array): Float64Array {
  const sums = new Float64Array(ends.length);
  let t = 0;
  for (let k = 0; k < ends.length; k++)
    for (; t < (ends[k] as number); t++) sums[k] = (sums[k] as number) + (values[t] as number);
  return sums;
}

function lengths(ends: Int32Array): Float64Array {
  const found = new Float64Array(ends.length);
  for (let k = 0; k < ends.length; k++)
    found[k] = (ends[k] as number) - (k === 0 ? 0 : (ends[k - 1] as number));
  return found;
}

/** Ends of all segments, the answer segment included where there is one. */
export function allEnds({ thoughtEnds, tokens, answered }: Segmentation): Int32Array {
  if (!answered) return thoughtEnds;
  const ends = new Int32Array(thoughtEnds.length + 1);
  ends.set(thoughtEnds);
  ends[thoughtEnds.length] = tokens;
  return ends;
}
