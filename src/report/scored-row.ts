// A row of `score`'s JSONL output back into what the terminal view draws.
import type { InputRow } from '../rows.js';
import type { OutputRow, SegmentRow } from '../scored.js';
import type { Trace } from '../trace.js';

/**
 * @param trace as the row maps; its completion is the text that the segments cut, where the row still has it
 * @returns undefined where the row was not scored
 */
export function scoredRow({ columns }: InputRow, trace: Trace | null): OutputRow | undefined {
  const { segments, status, sigma } = columns;
  if (!Array.isArray(segments) || !Array.isArray(sigma) || typeof status !== 'string') return undefined;
  if (trace === null) return undefined;
  const id = typeof columns.id === 'string' ? columns.id : trace.id;
  return {
    trace: { ...trace, id },
    promptIds: null,
    completionIds: null,
    logprobs: null,
    entropies: null,
    sigma: null,
    segments: segments.map(segmentOf),
    valueStart: numberOrNull(columns.value_start),
    referenceLogprobs: null,
    reward: numberOrNull(columns.reward),
    baseline: numberOrNull(columns.baseline),
    referenceUtilities: null,
    sigmaEss: null,
    sigmaMaxWeight: null,
    status: status === 'ok' ? [] : status.split(';'),
  };
}

function segmentOf(segment: Readonly<Record<string, unknown>>): SegmentRow {
  return {
    start: numberOrNull(segment.start),
    end: numberOrNull(segment.end),
    charStart: numberOrNull(segment.char_start),
    charEnd: numberOrNull(segment.char_end),
    kind: segment.kind === 'answer' ? 'answer' : 'thought',
    entropy: numberOrNull(segment.entropy),
    value: numberOrNull(segment.value),
    delta: numberOrNull(segment.delta),
    sigma: numberOrNull(segment.sigma),
  };
}

function numberOrNull(value: unknown): number | null {
  return typeof value === 'number' ? value : null;
}
