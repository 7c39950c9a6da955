// Puts a trace's segments together for writing.

import type { SegmentRow } from '../scored.js';
import { allEnds, type Segmentation } from './segment.js';

export interface SegmentParts {
  readonly segmentation: Segmentation;
  /** (T+1) code points before each token boundary; null where they are not known */
  readonly chars: Int32Array | null;
  /** (K or K+1) nats; absent without a policy */
  readonly entropies?: Float64Array;
  /** (K+1) v̂ at exits 0..K */
  readonly values?: Float32Array;
  /** (K or K+1) */
  readonly deltas?: Float32Array;
  /** (T) */
  readonly sigma?: Float32Array;
}

/** (K or K+1) segments in order; what is absent is null. No value is estimated after the answer: there ζ is known. */
export function segmentRows({
  segmentation,
  chars,
  entropies,
  values,
  deltas,
  sigma,
}: SegmentParts): SegmentRow[] {
  const ends = allEnds(segmentation);
  const K = segmentation.thoughtEnds.length;
  const rows: SegmentRow[] = [];
  for (let k = 0; k < ends.length; k++) {
    const start = k === 0 ? 0 : (ends[k - 1] as number);
    const end = ends[k] as number;
    rows.push({
      start,
      end,
      charStart: chars?.[start] ?? null,
      charEnd: chars?.[end] ?? null,
      kind: k < K ? 'thought' : 'answer',
      entropy: entropies?.[k] ?? null,
      value: k < K ? (values?.[k + 1] ?? null) : null,
      delta: deltas?.[k] ?? null,
      sigma: sigma === undefined ? null : sigma.subarray(start, end).reduce((sum, s) => sum + s, 0),
    });
  }
  return rows;
}
