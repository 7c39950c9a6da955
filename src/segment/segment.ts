// Cuts a completion into its segments: thought segments 1..K by the chosen segmenter, then the answer segment.
import { mergePieces } from './merge.js';
import { findThought, type ThoughtSpan, type TokenText } from './span.js';
import {
  splitAt,
  splitFixed,
  splitGiven,
  splitHybrid,
  splitKeyword,
  splitNewline,
  splitSentence,
} from './split.js';
import { cutpointCuts, entropyCuts, type TokenFigures } from './token-cuts.js';

export const SEGMENTERS = [
  ...([
    'hybrid',
    'newline',
    'sentence',
    'keyword',
    'fixed',
    'entropy',
    'cutpoint',
    'adaptive',
    'given',
  ] as const),
] as const;
export type Segmenter = (typeof SEGMENTERS)[number];

/** The segmenters that cut by what the policy says of the tokens: where, shows when it has read the trace. */
export const LATE_SEGMENTERS: readonly Segmenter[] = ['entropy', 'cutpoint'];

export interface SegmentOptions {
  readonly segmenter: Segmenter;
  /** merge down to so many thought segments; absent: as many as the segmenter makes */
  readonly maxSegments?: number;
  /** tokens a segment of `fixed` */
  readonly fixedLength: number;
  /** tokens beyond which `hybrid` and `adaptive` split a piece at sentence ends */
  readonly longPiece?: number;
  /** words that open a piece, for `hybrid`, `keyword` and `adaptive`; absent: METHOD's transition words */
  readonly keywords?: readonly string[];
  /** share of the thought's tokens before which `entropy` cuts */
  readonly entropyShare?: number;
  /** in its place: nats from which on a token is cut before */
  readonly entropyThreshold?: number;
  /** `cutpoint`: tokens of a lower probability are cutpoints, before every so many of which is cut */
  readonly cutpointProbability?: number;
  readonly cutpointEvery?: number;
  /** `adaptive`: neighbours are merged while the lowest sum of two is at most so much (nats; characters without a policy) */
  readonly adaptiveLimit?: number;
}

/** METHOD §2, but for the share, which is ours: a piece for twenty tokens. */
export const DEFAULT_ENTROPY_SHARE = 0.05;
export const DEFAULT_CUTPOINT = { probability: 0.9, every: 5 };

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
  return LATE_SEGMENTERS.includes(opts.segmenter);
}

/** @param given segment ends (token boundaries) for the `given` segmenter */
export function cutPieces(tokens: TokenText, opts: SegmentOptions, given?: Int32Array): Pieces {
  const thought = findThought(tokens);
  const { longPiece, keywords } = opts;
  const everyToken = () => splitFixed(1, thought);
  const hybrid = () => splitHybrid(tokens, thought, longPiece, keywords);
  const ends = {
    hybrid,
    newline: () => splitNewline(tokens, thought),
    sentence: () => splitSentence(tokens, thought),
    keyword: () => splitKeyword(tokens, thought, keywords),
    fixed: () => splitFixed(opts.fixedLength, thought),
    entropy: everyToken,
    cutpoint: everyToken,
    adaptive: hybrid,
    given: () => splitGiven(given ?? new Int32Array(0), tokens, thought),
  }[opts.segmenter]();
  const most = Math.min(ends.length, opts.maxSegments ?? ends.length);
  return { tokens, thought, ends, segments: Math.min(most, likelyPieces(ends.length, opts)), opts };
}

/** Of `tokens` places for a cut, those that a late segmenter takes, where its options tell. */
function likelyPieces(tokens: number, opts: SegmentOptions): number {
  if (opts.segmenter === 'cutpoint')
    return Math.min(tokens, 1 + Math.ceil(tokens / (opts.cutpointEvery ?? DEFAULT_CUTPOINT.every)));
  if (opts.segmenter !== 'entropy' || opts.entropyThreshold !== undefined) return tokens;
  return Math.min(tokens, 1 + Math.ceil(tokens * (opts.entropyShare ?? DEFAULT_ENTROPY_SHARE)));
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
  const limit = opts.segmenter === 'adaptive' ? opts.adaptiveLimit : undefined;
  const thoughtEnds = mergePieces(ends, weights, max, limit);
  const T = tokens.units.length - 1;
  const exits = candidateExits({ ...pieces, ends: thoughtEnds });
  return { exits, thoughtEnds, tokens: T, answered: thought.answered && thought.end < T };
}

/** Piece ends of a segmenter that cuts by the policy's figures; they are among the ends that `cutPieces` gave. */
function lateEnds({ tokens, thought, opts }: Pieces, figures: TokenFigures | null): Int32Array {
  if (figures === null)
    throw new TypeError(`${opts.segmenter} cuts by the policy's figures, and there are none`);
  const { entropyShare: share = DEFAULT_ENTROPY_SHARE, entropyThreshold: threshold } = opts;
  const {
    cutpointProbability: probability = DEFAULT_CUTPOINT.probability,
    cutpointEvery: every = DEFAULT_CUTPOINT.every,
  } = opts;
  const cuts =
    opts.segmenter === 'entropy'
      ? entropyCuts(tokens, thought, figures, threshold === undefined ? { share } : { threshold })
      : cutpointCuts(tokens, thought, figures, { probability, every });
  return splitAt(cuts, tokens, thought);
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
