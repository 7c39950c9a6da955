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
