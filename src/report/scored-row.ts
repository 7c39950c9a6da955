// A row of `score`'s JSONL output back into what the terminal view draws.
import type { InputRow } from '../rows.js';
import type { OutputRow, SegmentRow } from '../scored.js';

/** Whether a row was scored. */
export function isScored({ segments, status, sigma }: InputRow['columns']): boolean {
  return Array.isArray(segments) && Array.isArray(sigma) && typeof status === 'string';
}

/**
 * @param completion the text that the segments cut; empty where the file has it no longer
 * @returns undefined where the row was not scored
 */
export function scoredRow(row: InputRow, completion: string): OutputRow | undefined {
  const { columns } = row;
  if (!isScored(columns)) return undefined;
  const { segments, status, id } = columns as { segments: []; status: string; id: unknown };
  return {
    trace: {
      id: typeof id === 'string' ? id : `${row.stem}:${row.row}`,
      prompt: '',
      completion,
      references: [],
      reward: null,
      source: row,
    },
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
    referenceTokens: null,
    sigmaEss: null,
    sigmaMaxWeight: null,
    status: status === 'ok' ? [] : status.split(';'),
  };
}

/** A segment as it is stored. */
export function segmentOf(segment: Readonly<Record<string, unknown>>): SegmentRow {
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
