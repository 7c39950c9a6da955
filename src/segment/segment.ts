// Cuts a completion into its segments: thought segments 1..K by the chosen segmenter, then the answer segment.
import { TraceRejected } from '../errors.js';
import type { SegmentRow } from '../scored.js';
import type { OwnTokens, Trace } from '../trace.js';
import { declarationOf, type SegmentOptions, segmentSums } from './segmenters.js';
import { findThought, type ThoughtSpan, type TokenText } from './span.js';
import { mergePieces, splitAt, type TokenFigures } from './split.js';

export { type SegmentOptions, segmentSums } from './segmenters.js';

/**
 * A completion's segments as token boundaries. What the policy is shown behind a turn goes with the turn's last segment: the state
 * after that is the one in which the policy goes on.
 */
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
  const ends = eachTurn(tokens, thought, (turn, span, from) =>
    endsOf(turn, span, opts, from === 0 ? given : given?.map((end) => end - from)),
  );
  const most = Math.min(ends.length, opts.maxSegments ?? ends.length);
  const segments = Math.min(most, likely?.(ends.length, opts) ?? ends.length);
  return { tokens, thought, ends, segments, opts };
}

/**
 * Piece ends of each turn, which is cut as a completion of its own would be; no piece lies in two turns. What stands behind the closing
 * tag of a turn that is not the last, such as a call, is one piece: no exit could close there what is closed.
 * @param cut piece ends of a turn, and its thought's place in it @param from where the turn begins
 */
function eachTurn(
  tokens: TokenText,
  thought: ThoughtSpan,
  cut: (turn: TokenText, thought: ThoughtSpan, from: number) => Int32Array,
): Int32Array {
  if (thought.turns === undefined) return cut(tokens, thought, 0);
  const all: number[] = [];
  const turns = thought.turns.filter(({ from }) => from < thought.end);
  for (const [n, { turn, from, to, start, close }] of turns.entries()) {
    const span = { ...thought, start: Math.min(start, close) - from, end: close - from };
    for (const cutAt of cut(turn, span, from)) all.push(cutAt + from);
    const end = Math.min(to, thought.end);
    if ((all.at(-1) ?? 0) < end) all.push(end);
    // behind it stands what the policy was shown
    if (end === to) all[all.length - 1] = turns[n + 1]?.from ?? thought.end;
  }
  return Int32Array.from(all);
}

/** Exit points 0..P if no pieces were merged: the segments' exits are among them, whatever the entropies. */
export function candidateExits({
  tokens,
  thought,
  ends,
}: Pick<Pieces, 'tokens' | 'thought' | 'ends'>): Int32Array {
  const exits = Int32Array.from([thought.start, ...ends]); // as many as would not fit on the stack
  // where a turn begins it has been opened, as the first one has
  for (const { from, start } of thought.turns ?? [])
    for (let k = 1; k < exits.length; k++) if (exits[k] === from) exits[k] = start;
  // a trace that ended without an answer: its last exit stands before its end token, which no state comes after
  return exits.map((exit) => Math.min(exit, tokens.textEnd));
}

/** The number of each exit that pieces allow; the first of those that stand at one place. */
export function placesOf(pieces: Parameters<typeof candidateExits>[0]): ReadonlyMap<number, number> {
  const exits = Array.from(candidateExits(pieces), (exit, n) => [exit, n] as const);
  return new Map(exits.reverse());
}

/** Pieces that are the segments already: nothing is left to be merged. */
export function cutAs({ tokens, thought, opts }: Pieces, { thoughtEnds: ends }: Segmentation): Pieces {
  const { fixedLength } = opts;
  return { tokens, thought, ends, segments: ends.length, opts: { segmenter: 'given', fixedLength } };
}

/** @param figures what the policy said of the tokens; null without one: length stands in for entropy in the merge */
export function mergeSegments(pieces: Pieces, figures: TokenFigures | null): Segmentation {
  const { tokens, thought, opts } = pieces;
  const ends = isCutLate(pieces) ? lateEnds(pieces, figures) : pieces.ends;
  const weights =
    figures === null
      ? Float64Array.from(ends, (end, k) => end - (ends[k - 1] ?? 0))
      : segmentSums(figures.entropies, ends);
  const max = opts.maxSegments ?? ends.length;
  const borders = thought.turns && new Set(thought.turns.flatMap(({ from, close }) => [from, close]));
  const thoughtEnds = mergePieces(ends, weights, max, opts.adaptiveLimit, borders);
  const T = tokens.units.length - 1;
  const exits = candidateExits({ ...pieces, ends: thoughtEnds });
  return { exits, thoughtEnds, tokens: T, answered: thought.answered && thought.end < T };
}

/** Piece ends of a segmenter that cuts by the policy's figures; they are among the ends that `cutPieces` gave. */
function lateEnds({ tokens, thought, opts }: Pieces, figures: TokenFigures | null): Int32Array {
  const { cuts } = declarationOf(opts.segmenter);
  if (figures === null || cuts === undefined)
    throw new TypeError(`${opts.segmenter} cuts by the policy's figures, and there are none`);
  return eachTurn(tokens, thought, (turn, span, from) => {
    const to = from + turn.units.length - 1;
    const { entropies, logprobs } = figures;
    const own = { entropies: entropies.subarray(from, to), logprobs: logprobs.subarray(from, to) };
    return splitAt(cuts(turn, span, own, opts), turn, span);
  });
}

/** Ends of all segments, the answer segment included where there is one. */
export function allEnds({ thoughtEnds, tokens, answered }: Segmentation): Int32Array {
  return answered ? Int32Array.from([...thoughtEnds, tokens]) : thoughtEnds;
}

/** The parts of an encoded trace that its segmentation depends on. */
interface Cuttable {
  readonly trace: Trace;
  readonly tokens: TokenText;
  /** (T+1) code points before each token boundary; null where they are not known */
  readonly chars: Int32Array | null;
}

/** @throws TraceRejected (`segments`) for `--segmenter given` without sound ends in the row */
export function cutTrace({ trace, tokens, chars }: Cuttable, opts: SegmentOptions): Pieces {
  if (!declarationOf(opts.segmenter).isOfRow) return cutPieces(tokens, opts);
  const given = givenBoundaries(trace, chars, tokens.units.length - 1);
  const { own } = tokens;
  const inside = given.find((end) => own !== undefined && own[end - 1] === 0 && own[end] === 0);
  if (inside !== undefined)
    throw new TraceRejected(
      'segments',
      `a segment ends before token ${inside}, among tokens that the policy was shown, expected ends in what it wrote: --map segment_ends=<path>`,
    );
  return cutPieces(tokens, opts, given);
}

/**
 * The pieces of a trace whose row tells all of them in tokens, where no tokenizer tells what these spell: what stands behind the
 * last thought is the answer. So many values of states, so many exits: an end too many is the answer's own.
 * @param tokens T
 * @throws TraceRejected (`segments`) for ends that the row has not in tokens, or that do not fit
 */
export function cutByRow(
  { segmentEnds, values, completion }: Trace,
  tokens: number,
  opts: SegmentOptions,
): Pieces {
  if (segmentEnds === undefined)
    throw new TraceRejected(
      'segments',
      'no segment_ends in the row, as the first row has them, and ends in characters need a tokenizer: --map segment_ends=<path>, or --policy <the policy that wrote the traces>',
    );
  checkRising(segmentEnds, 'segment_ends', tokens, 'tokens');
  const isAnswerToo = segmentEnds.length === values?.length && segmentEnds.at(-1) === tokens;
  const ends = isAnswerToo ? segmentEnds.subarray(0, -1) : segmentEnds;
  const end = ends.at(-1) ?? 0;
  return {
    tokens: { text: completion, units: new Int32Array(tokens + 1), textEnd: tokens },
    thought: { start: 0, end, answered: end < tokens },
    ...{ ends, segments: ends.length, opts },
  };
}

/**
 * @param chars (T+1) code points before each token boundary; null where they are not known
 * @param tokens T
 * @returns rising token boundaries
 * @throws TraceRejected (`segments`) where the row has no ends, or ends that do not fit the completion
 */
function givenBoundaries(trace: Trace, chars: Int32Array | null, tokens: number): Int32Array {
  const { segmentEnds, segmentCharEnds } = trace;
  if (segmentEnds !== undefined) {
    checkRising(segmentEnds, 'segment_ends', tokens, 'tokens');
    return segmentEnds;
  }
  if (segmentCharEnds === undefined)
    throw new TraceRejected(
      'segments',
      'no segment ends in the row, expected a list of token indices or of characters: --map segment_ends=<path> or segment_char_ends=<path>',
    );
  if (chars === null)
    throw new TraceRejected(
      'segments',
      'segment_char_ends are given, but the completion_ids spell another text',
    );
  checkRising(segmentCharEnds, 'segment_char_ends', chars[tokens] as number, 'characters');
  let t = 0;
  return segmentCharEnds.map((end) => {
    while ((chars[t] as number) < end) t++;
    return t;
  });
}

function checkRising(ends: Int32Array, field: string, limit: number, unit: string): void {
  const i = ends.findIndex((end, n) => end <= (ends[n - 1] ?? 0) || end > limit);
  if (i >= 0)
    throw new TraceRejected(
      'segments',
      `${field}[${i}] is ${ends[i]}, expected rising ends from 1 to ${limit} (${unit} of the completion)`,
    );
}

interface SegmentParts {
  readonly segmentation: Segmentation;
  /** (T+1) code points before each token boundary; null where they are not known */
  readonly chars: Int32Array | null;
  /** which tokens the policy wrote; absent where it wrote all of them */
  readonly own?: OwnTokens | undefined;
  /** (K or K+1) nats; absent without a policy */
  readonly entropies?: Float64Array;
  /** (K+1) v̂ at exits 0..K */
  readonly values?: Float32Array;
  /** (K) by how much their changes may be off */
  readonly noise?: Float32Array | undefined;
}

/**
 * (K or K+1) segments in order, and between them what the policy was shown; what is absent is null. No value is estimated after the
 * answer: there ζ is known.
 */
export function segmentRows(parts: SegmentParts): SegmentRow[] {
  const { segmentation, chars, own, entropies, values, noise } = parts;
  const ends = allEnds(segmentation);
  const K = segmentation.thoughtEnds.length;
  const rows: SegmentRow[] = [];
  for (let k = 0; k < ends.length; k++) {
    const [from, to] = [k === 0 ? 0 : (ends[k - 1] as number), ends[k] as number];
    for (const [start, end] of own === undefined ? [[from, to] as const] : runsOf(own, from, to)) {
      const isShown = own?.[start] === 0;
      rows.push({
        start,
        end,
        charStart: chars?.[start] ?? null,
        charEnd: chars?.[end] ?? null,
        kind: isShown ? 'shown' : k < K ? 'thought' : 'answer',
        entropy: entropies === undefined ? null : isShown ? 0 : (entropies[k] as number),
        value: k < K && !isShown ? (values?.[k + 1] ?? null) : null,
        ...{ delta: null, noise: isShown ? null : (noise?.[k] ?? null), sigma: null },
      });
    }
  }
  return rows;
}

/** Stretches of tokens that are all the policy's, or that it was all shown. */
function runsOf(own: OwnTokens, from: number, to: number): (readonly [number, number])[] {
  const cuts = [from];
  for (let t = from + 1; t < to; t++) if (own[t] !== own[t - 1]) cuts.push(t);
  return cuts.map((start, n) => [start, cuts[n + 1] ?? to]);
}
