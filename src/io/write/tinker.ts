// `--export tinker`: a trace as the token lists of a Tinker Datum, every list one entry a model input token.

import type { OutputRow } from '../../scored.js';
import { FLOAT32_LIST, INT32_LIST, type OutputColumn } from '../arrow/output-columns.js';
import { credited, exportColumn, sumAdvantages, tokenWeights } from './advantage.js';

/** Lists of N = P + T − 1 entries: position i reads token i of prompt and completion and predicts token i + 1. */
export interface TinkerRow {
  readonly model_input: Int32Array;
  readonly target_tokens: Int32Array;
  /** nats; 0 where a prompt token is predicted */
  readonly logprobs: Float32Array;
  /** R*·σ; 0 where a prompt token is predicted. Tinker's losses sum over tokens, so this is σ and not σ·T */
  readonly advantages: Float32Array;
  /** σ·T, mean 1 over the completion: for σ-weighted `cross_entropy`; 0 where a prompt token is predicted */
  readonly weights: Float32Array;
}

export const TINKER_COLUMNS: readonly OutputColumn[] = [
  exportColumn('model_input', INT32_LIST),
  exportColumn('target_tokens', INT32_LIST),
  exportColumn('logprobs', FLOAT32_LIST),
  exportColumn('advantages', FLOAT32_LIST),
  exportColumn('weights', FLOAT32_LIST),
];

/** @throws TraceRejected for a trace without an advantage */
export function tinkerRow(row: OutputRow): TinkerRow {
  const trace = credited(row);
  const { promptIds, completionIds } = trace;
  const P = promptIds.length; // at least 1: the policy reads no completion without a prompt
  const N = P + completionIds.length - 1;
  const ids = new Int32Array(N + 1);
  ids.set(promptIds);
  ids.set(completionIds, P);
  // the first completion token is predicted where the last prompt token is read
  const afterPrompt = (values: Float32Array): Float32Array => {
    const shifted = new Float32Array(N);
    shifted.set(values, P - 1);
    return shifted;
  };
  return {
    model_input: ids.subarray(0, N),
    target_tokens: ids.subarray(1),
    logprobs: afterPrompt(trace.logprobs),
    advantages: afterPrompt(sumAdvantages(trace)),
    weights: afterPrompt(tokenWeights(trace)),
  };
}
