// Cuts a trace into pieces, by segment ends that its row brings along where the segmenter asks for them.
import { TraceRejected } from '../errors.js';
import type { Trace } from '../trace.js';
import { cutPieces, type Pieces, type SegmentOptions } from './segment.js';
import type { TokenText } from './span.js';

/** The parts of an encoded trace that its segmentation depends on. */
export interface Cuttable {
  readonly trace: Trace;
  readonly tokens: TokenText;
  /** (T+1) code points before each token boundary; null where they are not known */
  readonly chars: Int32Array | null;
}

/** @throws TraceRejected (`segments`) for `--segmenter given` without sound ends in the row */
export function cutTrace({ trace, tokens, chars }: Cuttable, opts: SegmentOptions): Pieces {
  if (opts.segmenter !== 'given') return cutPieces(tokens, opts);
  return cutPieces(tokens, opts, givenBoundaries(trace, chars, tokens.units.length - 1));
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
  for (let i = 0; i < ends.length; i++) {
    const end = ends[i] as number;
    if (end <= (i === 0 ? 0 : (ends[i - 1] as number)) || end > limit)
      throw new TraceRejected(
        'segments',
        `${field}[${i}] is ${end}, expected rising ends from 1 to ${limit} (${unit} of the completion)`,
      );
  }
}
