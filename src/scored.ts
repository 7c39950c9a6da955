// A scored trace and its segments, as the last stage hands them to what writes or draws them.
import { compact, type OwnTokens, ownBefore, type Trace } from './trace.js';

/** A segment as it is written; token indices are null without a tokenizer. */
export interface SegmentRow {
  /** token indices, end exclusive */
  readonly start: number | null;
  readonly end: number | null;
  /** code points of `completion`, end exclusive */
  readonly charStart: number | null;
  readonly charEnd: number | null;
  /** `shown`: tokens that the policy was shown between its turns, which have no credit */
  readonly kind: 'thought' | 'answer' | 'shown';
  /** nats, summed over the segment's tokens */
  readonly entropy: number | null;
  /** v̂ after the segment, what the segment changed, and by how much the values' difference may be off, where that is known */
  readonly value: number | null;
  readonly delta: number | null;
  readonly noise: number | null;
  /** summed over the segment's tokens */
  readonly sigma: number | null;
}

/** A scored trace; T tokens, K exits after the one before any thought, N references. */
export interface OutputRow {
  readonly trace: Trace;
  readonly promptIds: Int32Array | null;
  readonly completionIds: Int32Array | null; // (T)
  readonly logprobs: Float32Array | null; // (T)
  readonly entropies: Float32Array | null; // (T)
  readonly sigma: Float32Array | null; // (T)
  readonly segments: readonly SegmentRow[]; // (K) or (K+1)
  readonly valueStart: number | null;
  readonly referenceLogprobs: readonly Float32Array[] | null; // (K+1) of (N)
  readonly reward: number | null;
  /** b of R* = ζ − b; null where the trace has none */
  readonly baseline: number | null;
  readonly referenceUtilities: Float32Array | null; // (N)
  /** scored tokens of each */
  readonly referenceTokens: Int32Array | null; // (N)
  readonly sigmaEss: number | null;
  readonly sigmaMaxWeight: number | null;
  readonly sigmaGain: number | null;
  /** codes, written sorted; none means `ok` */
  readonly status: readonly string[];
  /** whether the completion has `</think>` in it; absent where nobody has looked */
  readonly closesThought?: boolean;
  /** what the columns hold that were asked for beside ours, or in their place, by name; absent where none were */
  readonly requested?: Readonly<Record<string, unknown>>;
}

/** Whether a status code says that σ is uniform although its rule is not. */
export function isFallback(code: string): boolean {
  return code.startsWith('uniform:') || code === 'reward:unknown';
}

/** The code of a trace that no policy has read, since its values and segments are its row's own: it has no log-probabilities. */
export const UNREAD = 'policy:none';

/** The code of a trace whose text no tokenizer was named for: what is called a token of it is a byte. */
export const BYTES = 'tokens:bytes';

/** A row with nothing in it but its trace. */
export function blankRow(trace: Trace): OutputRow {
  return {
    trace,
    ...{ promptIds: null, completionIds: null, logprobs: null, entropies: null, sigma: null, segments: [] },
    ...{ valueStart: null, referenceLogprobs: null, referenceUtilities: null, referenceTokens: null },
    ...{ reward: null, baseline: null, sigmaEss: null, sigmaMaxWeight: null, sigmaGain: null },
    status: [],
  };
}

/** Which tokens of a row the policy wrote; undefined where it wrote all of them. */
export function ownTokens({ segments }: Pick<OutputRow, 'segments'>): OwnTokens | undefined {
  const shown = segments.filter(({ kind }) => kind === 'shown');
  if (shown.length === 0) return undefined;
  const own = new Uint8Array(segments.at(-1)?.end ?? 0).fill(1);
  for (const { start, end } of shown) own.fill(0, start ?? 0, end ?? 0);
  return own;
}

/** The row as if the policy had been shown nothing: what its credit and all figures of it are counted by. */
export function withoutShown<Row extends Partial<OutputRow> & Pick<OutputRow, 'segments'>>(row: Row): Row {
  const own = ownTokens(row);
  if (own === undefined) return row;
  const before = ownBefore(own);
  const at = (boundary: number | null) => (boundary === null ? null : (before[boundary] ?? boundary));
  const of = (list: Float32Array | null | undefined) => list && compact(list, own);
  const { completionIds, segments } = row;
  return {
    ...row,
    ...(completionIds && { completionIds: compact(completionIds, own) }),
    ...{ logprobs: of(row.logprobs), entropies: of(row.entropies), sigma: of(row.sigma) },
    segments: segments
      .filter(({ kind }) => kind !== 'shown')
      .map((segment) => ({ ...segment, start: at(segment.start), end: at(segment.end) })),
  };
}

/** The segments anew; k counts those of the policy, and one that it was shown has neither value nor credit. */
export function withOwn(
  segments: readonly SegmentRow[],
  of: (segment: SegmentRow, k: number) => SegmentRow,
): SegmentRow[] {
  let k = 0;
  return segments.map((segment) =>
    segment.kind === 'shown' ? { ...segment, value: null, delta: 0, sigma: 0 } : of(segment, k++),
  );
}

export function codePoints(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}

/** (K) ends of a row's thought segments, in tokens, or in characters where it has no tokens. @param row without what was shown */
export function thoughtEnds({ segments }: Pick<OutputRow, 'segments'>): Int32Array {
  const thoughts = segments.filter(({ kind }) => kind === 'thought');
  return Int32Array.from(thoughts, ({ end, charEnd }) => end ?? charEnd ?? 0);
}
