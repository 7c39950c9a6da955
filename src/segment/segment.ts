// Cuts a completion into its segments: thought segments 1..K by the chosen segmenter, then the answer segment.
import { mergePieces } from './merge.js';
import { declarationOf, type SegmentOptions, segmentSums } from './segmenters.js';
import { findThought, type ThoughtSpan, type TokenText } from './span.js';
import { splitAt } from './split.js';
import type { TokenFigures } from './token-cuts.js';

export { type SegmentOptions, segmentSums } from './segmenters.js';

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
  /** (P) piece ends as token boundaries, the last one the thought's end; every one that may be, where that shows late */
  readonly ends: Int32Array;
  /** thought segments that will be left after merging, at most */
  readonly segments: number;
  readonly opts: SegmentOptions;
}

/** Whether the policy has to read the trace before its pieces are known. */
export function isCutLate({ opts }: Pieces): boolean {
  return declarationOf(opts.segmenter).cuts !== undefined;
}

/** @param given segment ends (token boundaries) that the row brings along */
export function cutPieces(tokens: TokenText, opts: SegmentOptions, given?: Int32Array): Pieces {
  const thought = findThought(tokens, opts.thoughtTags);
  const { ends: endsOf, likely } = declarationOf(opts.segmenter);
  const ends = endsOf(tokens, thought, opts, given);
  const most = Math.min(ends.length, opts.maxSegments ?? ends.length);
  const segments = Math.min(most, likely?.(ends.length, opts) ?? ends.length);
  return { tokens, thought, ends, segments, opts };
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

/** @param figures what the policy said of the tokens; null without one: length stands in for entropy in the merge */
export function mergeSegments(pieces: Pieces, figures: TokenFigures | null): Segmentation {
  const { tokens, thought, opts } = pieces;
  const ends = isCutLate(pieces) ? lateEnds(pieces, figures) : pieces.ends;
  const weights = figures === null ? lengths(ends) : segmentSums(figures.entropies, ends);
  const max = opts.maxSegments ?? ends.length;
  const thoughtEnds = mergePieces(ends, weights, max, opts.adaptiveLimit);
  const T = tokens.units.length - 1;
  const exits = candidateExits({ ...pieces, ends: thoughtEnds });
  return { exits, thoughtEnds, tokens: T, answered: thought.answered && thought.end < T };
}

/** Piece ends of a segmenter that cuts by the policy's figures; they are among the ends that `cutPieces` gave. */
function lateEnds({ tokens, thought, opts }: Pieces, figures: TokenFigures | null): Int32Array {
  const { cuts } = declarationOf(opts.segmenter);
  if (figures === null || cuts === undefined)
    throw new TypeError(`${opts.segmenter} cuts by the policy's figures, and there are none`);
  return splitAt(cuts(tokens, thought, figures, opts), tokens, thought);
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
