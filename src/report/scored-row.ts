// A row of `score` or `segment` back into what the terminal view draws.
import type { InputRow } from '../rows.js';
import type { OutputRow, SegmentRow } from '../scored.js';

/** Whether a row was scored. */
export function isScored({ segments, status, sigma }: InputRow['columns']): boolean {
  return Array.isArray(segments) && Array.isArray(sigma) && typeof status === 'string';
}

/** Whether it was cut by `segment`, and not scored. */
export function isCut({ segments, status, sigma }: InputRow['columns']): boolean {
  return (
    Array.isArray(segments) && segments.length > 0 && typeof status === 'string' && !Array.isArray(sigma)
  );
}

/**
 * A row that was scored, or cut.
 * @param completion the text that the segments cut; empty where the file has it no longer
 */
export function scoredRow(row: InputRow, completion: string): OutputRow {
  const { columns } = row;
  const { segments, status, id, group } = columns as {
    segments: [];
    status: string;
    id: unknown;
    group: unknown;
  };
  return {
    trace: {
      id: typeof id === 'string' ? id : `${row.stem}:${row.row}`,
      ...(typeof group === 'string' ? { group } : {}),
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
    sigmaGain: null,
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
