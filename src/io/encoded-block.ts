// Rows that another thread has made bytes of, with what the run has to know of them.
import type { BadRow } from './rows.js';

/** The output of a block of input rows that follow each other in one chunk. */
export interface EncodedBlock {
  readonly kind: 'block';
  /** number over all inputs of the first input row */
  readonly ordinal: number;
  /** traces written of each input row */
  readonly counts: readonly number[];
  readonly rejects: readonly BadRow[];
  /** in the order of the rows; none where no trace is written */
  readonly parts: readonly EncodedRows[];
  /** before compression, as `rowBytes` counts them */
  readonly rawBytes: number;
  /** how many traces have each status code */
  readonly codes: ReadonlyMap<string, number>;
}

/** Traces as a `RowEncoder` makes bytes of them. */
export interface EncodedRows {
  readonly traces: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Tells a block from a row. */
export function isBlock(item: object): item is EncodedBlock {
  return 'kind' in item && item.kind === 'block';
}

/** Traces that are written of a block. */
export function tracesOf({ parts }: EncodedBlock): number {
  return parts.reduce((sum, { traces }) => sum + traces, 0);
}
