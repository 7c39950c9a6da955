// `--export prm`: a trace as steps with a label each, for training a process reward model.

import type { OutputRow, SegmentRow } from '../../scored.js';
import type { OutputColumn } from '../arrow/output-columns.js';
import { credited, exportColumn, notExported } from './advantage.js';

/** A row of TRL's PRMTrainer. */
export interface PrmRow {
  readonly prompt: string;
  /** the segments' texts, which together are the completion; the answer is the last */
  readonly completions: readonly string[];
  /** whether the segment's part of the return, R*·σ, is positive */
  readonly labels: readonly boolean[];
}

export const PRM_COLUMNS: readonly OutputColumn[] = [
  exportColumn('prompt', { kind: 'string' }),
  exportColumn('completions', { kind: 'list', element: { kind: 'string' } }),
  exportColumn('labels', { kind: 'list', element: { kind: 'bool' } }),
];

/**
 * Labels a trace's segments. A segment of a wrong trace (R* < 0) is good where σ is negative: it raised the value.
 * @throws TraceRejected where σ tells no segment from another, or a segment's text is not known
 */
export function prmRow(row: OutputRow): PrmRow {
  const { advantage } = credited(row);
  const fallback = row.status.find((code) => code.startsWith('uniform:'));
  if (fallback !== undefined || advantage === 0)
    throw notExported(`σ tells no step from another (${fallback ?? 'the advantage is 0'})`);
  const { prompt, completion } = row.trace;
  // messages are rendered, unless the row has their ids
  if (typeof prompt !== 'string' || prompt === '')
    throw notExported('the row has no prompt text, expected some: --map prompt=<path>');
  const steps = row.segments.filter(({ charStart, charEnd }) => charStart !== charEnd || charStart === null);
  return {
    prompt,
    completions: stepTexts(completion, steps),
    labels: steps.map(({ sigma }) => advantage * (sigma ?? 0) > 0),
  };
}

/** Cuts a text at segment ends, which count code points while JavaScript counts UTF-16 units. */
function stepTexts(text: string, steps: readonly SegmentRow[]): string[] {
  let [unit, point] = [0, 0];
  return steps.map(({ charEnd }) => {
    if (charEnd === null || text === '')
      throw notExported('the segments have no text: the ids spell another one than the completion');
    const start = unit;
    for (; point < charEnd; point++) unit += (text.codePointAt(unit) as number) > 0xffff ? 2 : 1;
    return text.slice(start, unit);
  });
}
