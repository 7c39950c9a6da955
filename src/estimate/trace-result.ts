// What the policy said of a trace: its tokens, where it was cut, and the references after every exit point.
import type { Segmentation } from '../segment/segment.js';

/** What a pass of the policy gives; K segments of T tokens. */
export interface TraceResult {
  /** (T) nats */
  readonly entropies: Float32Array;
  readonly logprobs: Float32Array;
  /** no policy has read the trace: both are zeros that stand for nothing */
  readonly isUnread?: true;
  readonly segmentation: Segmentation;
  /** (K+1) of (N) token log-probabilities */
  readonly branches: readonly (readonly Float32Array[])[];
  /** (K+1) of the same for what else was scored at each exit; absent where nothing was */
  readonly tails?: readonly (readonly Float32Array[])[];
}
