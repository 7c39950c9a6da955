// R* = ζ − b of a scored trace, and what an export must have to be made of it.

import { TraceRejected } from '../../errors.js';
import type { OutputRow } from '../../scored.js';
import type { OutputColumn } from '../arrow/output-columns.js';
import type { ColumnType } from '../arrow/schema.js';

/** A scored trace with all that an export reads; T tokens. */
export interface CreditedRow {
  readonly promptIds: Int32Array;
  readonly completionIds: Int32Array; // (T)
  readonly logprobs: Float32Array; // (T)
  readonly sigma: Float32Array; // (T)
  /** ζ */
  readonly reward: number;
  /** R* = ζ − b: the advantage of the whole trace, which σ spreads over its tokens */
  readonly advantage: number;
}

/**
 * Checks that a scored trace has an advantage.
 * @throws TraceRejected (`export`) where the reward or the baseline is not known: there is nothing to train on
 */
export function credited(row: OutputRow): CreditedRow {
  const { promptIds, completionIds, logprobs, sigma, reward, baseline } = row;
  if (promptIds === null || completionIds === null || logprobs === null || sigma === null)
    throw new Error(`${row.trace.id}: a row without σ cannot be exported`);
  if (reward === null)
    throw notExported('the reward is not known, and an advantage needs one: --map reward=<path>');
  if (baseline === null)
    throw notExported(
      'the trace has no baseline, and an advantage needs one: --baseline value or <number>, or --map group=<path>',
    );
  return { promptIds, completionIds, logprobs, sigma, reward, advantage: reward - baseline };
}

/** Turns a trace down for an export. */
export function notExported(reason: string): TraceRejected {
  return new TraceRejected('export', reason);
}

/** (T) R*·σ_t, which sums to R*: for losses that sum over tokens. */
export function sumAdvantages({ sigma, advantage }: CreditedRow): Float32Array {
  return sigma.map((s) => advantage * s);
}

/** (T) σ_t·T, which has mean 1. */
export function tokenWeights({ sigma }: CreditedRow): Float32Array {
  return sigma.map((s) => s * sigma.length);
}

/** (T) R*·σ_t·T, whose mean is R*: for losses that average over tokens. */
export function meanAdvantages({ sigma, advantage }: CreditedRow): Float32Array {
  return sigma.map((s) => advantage * s * sigma.length);
}

/** A column that an export's row function fills. */
export function exportColumn(name: string, type: ColumnType): OutputColumn {
  return { name, type, value: ({ exported }) => exported?.[name] ?? null };
}
