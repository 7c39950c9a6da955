// Cuts a trace where there is no policy: characters stand in for tokens, and their number for entropy.
import { TraceRejected } from '../errors.js';
import { blankRow, type OutputRow } from '../scored.js';
import { isOfTurns, type Trace } from '../trace.js';
import { cutTrace, mergeSegments, type SegmentOptions, segmentRows } from './segment.js';
import { tagStatus } from './span.js';

/** Where characters stand in for tokens: METHOD's 256 tokens at about four characters each. */
const LONG_PIECE_CHARACTERS = 1024;

/** The segments of a trace by length. @throws TraceRejected (`empty_completion`) without a text */
export function byLength(trace: Trace, segments: SegmentOptions): OutputRow {
  if (isOfTurns(trace))
    throw new TraceRejected(
      'turns',
      'it has several turns, and without a policy nobody knows which characters it wrote: leave out --no-policy',
    );
  if (trace.completion === '')
    throw new TraceRejected(
      'empty_completion',
      'no completion text, expected some: leave out --no-policy for token ids',
    );
  const units = codePointBoundaries(trace.completion);
  const T = units.length - 1;
  const chars = counting(units.length);
  const tokens = { text: trace.completion, units, textEnd: T };
  const opts = { ...segments, longPiece: LONG_PIECE_CHARACTERS };
  // token indices mean nothing without a tokenizer: only character ends can be used
  const { segmentEnds: _, ...counted } = trace;
  const pieces = cutTrace({ trace: counted, tokens, chars }, opts);
  const rows = segmentRows({ segmentation: mergeSegments(pieces, null), chars: null });
  const { completion, prompt, status = [] } = trace;
  const tags = tagStatus(completion, pieces.thought.tags, typeof prompt === 'string' ? prompt : '');
  return {
    ...blankRow(trace),
    segments: rows.map((row) => ({ ...row, start: null, end: null, charStart: row.start, charEnd: row.end })),
    status: [...status, 'segments:by-length', ...tags],
  };
}

/** UTF-16 positions of a text's code point boundaries, 0 and the end included. */
function codePointBoundaries(text: string): Int32Array {
  // most text has no character of two units
  if (!SURROGATE.test(text)) return counting(text.length + 1);
  const units = new Int32Array(text.length + 1);
  let n = 0;
  for (let unit = 0; unit < text.length; n++) {
    unit += (text.codePointAt(unit) as number) > 0xffff ? 2 : 1;
    units[n + 1] = unit;
  }
  return units.slice(0, n + 1);
}

const SURROGATE = /[\ud800-\udfff]/;

/** 0, 1, 2, … */
function counting(length: number): Int32Array {
  return new Int32Array(length).map((_, i) => i);
}
