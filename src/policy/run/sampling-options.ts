// How a policy samples: what the flags say, in a file that loads no ONNX Runtime.
import type { Choosing } from './decoding-run.js';

/** Rows that write at once, by default: beyond, a CPU gains nothing (bench/decode.mjs). */
export const DEFAULT_BATCH = 64;

/** How a policy samples. */
export interface SamplingOptions extends Omit<Choosing, 'stops'> {
  /** new tokens at most */
  readonly maxTokens: number;
  readonly seed: number;
  /** a token that ends a completion, beside the policy's own: its text, or its id */
  readonly stop?: string;
  /** rows that write at once: no part of what is written */
  readonly batch: number;
}
