// Why a row or a trace does not map; thrown inside the mapping, where it gets the trace's id.
import { TraceRejected } from '../../errors.js';

/** A row or a trace that does not map. */
export class Mismatch extends TraceRejected {
  /** the trace's own id where it got that far */
  id: string | undefined;
}
