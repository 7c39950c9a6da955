// One record of a scored trace, which terminal and page show: its segments with their texts and weights, and which of them turned it.
import { shortNumber } from '../plural.js';
import { changesOf, NOTHING } from '../scored/choose.js';
import type { OutputRow, SegmentRow } from '../scored.js';

/** A thought segment and what it changed. */
export interface TurningPoint {
  /** number of the segment, from 0 */
  readonly segment: number;
  /** v̂ after it less v̂ before it; of what has no sign of its own, with the sign of R* */
  readonly change: number;
  /** σ summed over it, and as a multiple of what uniform σ would give it */
  readonly sigma: number | null;
  readonly weight: number | null;
}

/** The thought segments in order. @param isMagnitude as of {@link changesOf} */
export function turnsOf(
  row: Pick<OutputRow, 'segments' | 'reward' | 'baseline'>,
  isMagnitude: boolean,
): TurningPoint[] {
  const tokens = ownCount(row.segments);
  return changesOf(row, isMagnitude).map(({ segment, change }) => {
    const { sigma, start, end } = row.segments[segment] as SegmentRow;
    return { segment, change, sigma, weight: weightOf(sigma, start, end, tokens) };
  });
}

/** T: the policy's tokens; null without a tokenizer. */
function ownCount(segments: DrawnTrace['segments']): number | null {
  const all = segments.at(-1)?.end ?? null;
  const shown = segments.filter(({ kind }) => kind === 'shown');
  return all && shown.reduce((left, { start, end }) => left - ((end ?? 0) - (start ?? 0)), all);
}

/** Mean σ·T of a segment, in tokens; null where that is unknown. */
function weightOf(
  sigma: number | null,
  start: number | null,
  end: number | null,
  tokens: number | null,
): number | null {
  if (sigma === null || tokens === null || start === null || end === null || end === start) return null;
  return sigma / ((end - start) / tokens);
}

/** Those that raised the value the most, and those that lowered it the most. @param most of each */
export function outstanding(turns: readonly TurningPoint[], most = 3) {
  const sorted = turns.toSorted((a, b) => b.change - a.change || a.segment - b.segment);
  return {
    decisive: sorted.filter(({ change }) => change > NOTHING).slice(0, most),
    harmful: sorted
      .filter(({ change }) => change < -NOTHING)
      .reverse()
      .slice(0, most),
  };
}

/** Steps of the shade on each side. */
const SHADES = 5;
/** Up to here a weight is taken for uniform. */
const EVEN = 1.02;

/**
 * How strongly a segment is shaded, on one scale for all traces, so that a flat trace looks flat: from −5 to 5, 0 at uniform weight or
 * less, a step for each doubling of |σ·T|. The sign is what training does with the segment: above 0 it becomes likelier, below 0 less likely.
 * @param weight mean σ·T of the segment
 * @param isLowered R* is below 0
 */
export function shadeOf(weight: number | null, isLowered: boolean): number {
  if (weight === null || !(Math.abs(weight) > EVEN)) return 0;
  const step = Math.min(SHADES, Math.max(1, Math.round(Math.log2(Math.abs(weight)) + 0.3)));
  return Math.sign(weight) * (isLowered ? -step : step);
}

/** What of a scored trace is shown. */
export type DrawnTrace = Pick<OutputRow, 'segments' | 'valueStart' | 'reward' | 'baseline' | 'status'> & {
  readonly trace: Pick<OutputRow['trace'], 'id' | 'group' | 'completion'>;
};

/** σ of a rule. */
export interface NamedSigma {
  readonly name: string;
  readonly sigma: Float32Array; // (T)
}

/** What is known of a trace beside its row. */
export interface TraceContext {
  readonly prompt?: string;
  readonly references?: readonly string[];
  readonly isMagnitude?: boolean;
  /** further credits of the same trace */
  readonly credits?: readonly NamedSigma[];
  /** turns of each kind */
  readonly turns?: number;
}

export type TraceRecord = ReturnType<typeof traceRecord>;

/** Texts and numbers as they are: who shows them makes them inert, and short. */
export function traceRecord(row: DrawnTrace, beside: TraceContext = {}) {
  const { prompt = '', references = [], isMagnitude = false, turns = 3 } = beside;
  const { trace, segments, reward, baseline, status, valueStart } = row;
  const isLowered = reward !== null && baseline !== null && reward < baseline;
  return {
    id: trace.id,
    group: trace.group ?? null,
    reward,
    baseline,
    /** R* is below 0: what takes σ gets less likely */
    isLowered,
    status: status.join(';') || 'ok',
    /** null without a tokenizer */
    tokens: segments.at(-1)?.end ?? null,
    prompt,
    references,
    start: valueStart,
    ...segmentsOf(row, beside, isLowered),
    ...outstanding(turnsOf(row, isMagnitude), turns),
  };
}

function segmentsOf({ trace, segments }: DrawnTrace, { credits = [] }: TraceContext, isLowered: boolean) {
  const characters = [...trace.completion];
  const tokens = ownCount(segments);
  const shown = segments.map((segment) => {
    const { start: from, end: to, charStart, charEnd, kind, value, delta, entropy } = segment;
    const sigma = [
      segment.sigma,
      ...credits.map((credit) =>
        from === null || to === null ? null : credit.sigma.subarray(from, to).reduce((sum, s) => sum + s, 0),
      ),
    ];
    const weight = sigma.map((share) => weightOf(share, from, to, tokens));
    return {
      /** empty where nobody knows it */
      text: charEnd === null ? '' : characters.slice(charStart ?? 0, charEnd).join(''),
      /** tokens, end exclusive; null without a tokenizer */
      from,
      to,
      answer: kind === 'answer',
      /** tokens that the policy was shown; absent of its own */
      ...(kind === 'shown' && { shown: true as const }),
      value,
      delta,
      entropy,
      /** of each credit: summed σ, σ·T on average, and its {@link shadeOf} */
      sigma,
      weight,
      shade: weight.map((each) => shadeOf(each, isLowered)),
    };
  });
  // the trace's own answer stands behind the tag that closes the thought, whichever the policy writes; empty where it has none
  const own = shown.find(({ answer }) => answer)?.text ?? '';
  return { segments: shown, answer: own.replace(/^<[/|][^>]*>/, '').trim() };
}

/** A number with its sign. */
export function signed(value: number): string {
  return `${value < 0 ? '−' : '+'}${shortNumber(Math.abs(value))}`;
}
