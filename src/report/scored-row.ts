// A row of `score`'s JSONL output back into what the terminal view draws.
import type { OutputRow, SegmentRow } from '../io/output.js';
import type { InputRow } from '../io/rows.js';
import type { Trace } from '../trace.js';

type Fields = Readonly<Record<string, unknown>>;

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
    segments: segments.map((segment: Fields) => segmentOf(segment)),
    valueStart: number(columns.value_start),
    referenceLogprobs: null,
    reward: number(columns.reward),
    baseline: number(columns.baseline),
    referenceUtilities: null,
    sigmaEss: null,
    sigmaMaxWeight: null,
    status: status === 'ok' ? [] : status.split(';'),
  };
}

function segmentOf(segment: Fields): SegmentRow {
  return {
    start: number(segment.start),
    end: number(segment.end),
    charStart: number(segment.char_start),
    charEnd: number(segment.char_end),
    kind: segment.kind === 'answer' ? 'answer' : 'thought',
    entropy: number(segment.entropy),
    value: number(segment.value),
    delta: number(segment.delta),
    sigma: number(segment.sigma),
  };
}

function number(value: unknown): number | null {
  return typeof value === 'number' ? value : null;
}
