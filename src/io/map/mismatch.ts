// Why a row or a trace does not map; thrown inside the mapping, never leaves it.

import type { Rejection } from '../../errors.js';

/** A row or a trace that does not map. */
export class Mismatch extends Error implements Rejection {
  readonly code: string;
  readonly reason: string;
  /** the trace's own id where it got that far */
  id: string | undefined;

  constructor(code: string, reason: string) {
    super(reason);
    this.code = code;
    this.reason = reason;
  }
}
