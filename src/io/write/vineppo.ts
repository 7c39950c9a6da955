// `--export vineppo`: a trace as an episode with an advantage for every response token.

import type { OutputRow } from '../../scored.js';
import { FLOAT32_LIST, INT32_LIST, type OutputColumn } from '../arrow/output-columns.js';
import { credited, exportColumn, meanAdvantages } from './advantage.js';

/** An episode of VinePPO and SPO. */
export interface VineppoRow {
  readonly query_token_ids: Int32Array;
  readonly response_token_ids: Int32Array; // (T)
  /** ζ */
  readonly scores: number;
  /** (T) R*·σ·T: their PPO loss averages over tokens, so a trace with uniform σ has R* everywhere */
  readonly advantages: Float32Array;
}

export const VINEPPO_COLUMNS: readonly OutputColumn[] = [
  exportColumn('query_token_ids', INT32_LIST),
  exportColumn('response_token_ids', INT32_LIST),
  exportColumn('scores', { kind: 'float32' }),
  exportColumn('advantages', FLOAT32_LIST),
];

/** @throws TraceRejected for a trace without an advantage */
export function vineppoRow(row: OutputRow): VineppoRow {
  const trace = credited(row);
  return {
    query_token_ids: trace.promptIds,
    response_token_ids: trace.completionIds,
    scores: trace.reward,
    advantages: meanAdvantages(trace),
  };
}
