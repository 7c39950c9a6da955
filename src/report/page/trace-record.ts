// Makes the record that a trace's page shows: texts that are inert, numbers of a few digits, token lines of bounded length.
import type { OutputRow } from '../../scored.js';
import type { Kind } from '../counted/choice.js';
import { advantageOf, shadeOf } from '../counted/shade.js';
import { outstanding, type Turn, turnsOf } from '../counted/turns.js';
import { ownAnswer } from '../own-answer.js';
import { visible } from './html.js';

/** Texts of a trace, as far as they are known. */
export interface TraceTexts {
  readonly prompt: string;
  readonly completion: string;
  readonly references: readonly string[];
}

/** A further credit of the same trace. */
export interface NamedSigma {
  readonly name: string;
  readonly sigma: Float32Array; // (T)
}

export interface TraceSource {
  readonly row: OutputRow;
  readonly texts: TraceTexts;
  readonly kinds: readonly Kind[];
  /** the first is the one in the segments */
  readonly credits: readonly NamedSigma[];
  readonly isMagnitude: boolean;
  /** code points of the completion at which the thought might have been cut; none where they are not known */
  readonly candidates: ArrayLike<number>;
}

/** A segment: its text, and what is known of it. */
interface SegmentRecord {
  readonly text: string;
  /** tokens, end exclusive; null without a tokenizer */
  readonly from: number | null;
  readonly to: number | null;
  readonly answer: boolean;
  readonly value: number | null;
  readonly delta: number | null;
  readonly entropy: number | null;
  /** of each credit: summed σ, and σ·T on average */
  readonly sigma: readonly (number | null)[];
  readonly weight: readonly (number | null)[];
  /** of each credit, as {@link shadeOf} */
  readonly shade: readonly number[];
  /** places in the text, in UTF-16 units, at which it might have been cut */
  readonly cuts: readonly number[];
}

/** What stands in the page for a trace. */
export interface TraceRecord {
  readonly id: string;
  readonly row: number;
  readonly group: string | null;
  readonly reward: number | null;
  readonly baseline: number | null;
  readonly status: string;
  readonly kinds: readonly Kind[];
  readonly tokens: number;
  readonly prompt: string;
  readonly references: readonly string[];
  /** the trace's own; empty where it has none */
  readonly answer: string;
  readonly start: number | null;
  readonly credits: readonly string[];
  readonly segments: readonly SegmentRecord[];
  readonly decisive: readonly Turn[];
  readonly harmful: readonly Turn[];
  /** a point for `each` tokens: their highest entropy, and the mean σ·T by credit */
  readonly line: {
    readonly each: number;
    readonly entropy: readonly number[] | null;
    readonly weights: readonly (readonly number[])[];
  };
}

/** Points of a line: more than a screen has. */
const POINTS = 2048;

export function traceRecord(source: TraceSource): TraceRecord {
  const { row, texts, kinds, credits, isMagnitude } = source;
  const { trace, segments, reward, baseline, status, valueStart, entropies } = row;
  const T = credits[0]?.sigma.length ?? segments.at(-1)?.end ?? 0;
  const each = Math.max(1, Math.ceil(T / POINTS));
  const { decisive, harmful } = outstanding(turnsOf(row, isMagnitude), 5);
  return {
    id: visible(trace.id),
    row: trace.source.row,
    group: trace.group === undefined ? null : visible(trace.group),
    reward: short(reward),
    baseline: short(baseline),
    status: status.join(';') || 'ok',
    kinds,
    tokens: T,
    prompt: visible(texts.prompt),
    references: texts.references.map(visible),
    answer: visible(ownAnswer(row, [...texts.completion])),
    start: short(valueStart),
    credits: credits.map(({ name }) => name),
    segments: segmentRecords(source, T),
    decisive: decisive.map(shortTurn),
    harmful: harmful.map(shortTurn),
    line: {
      each,
      entropy: entropies === null ? null : points(entropies, each, highest),
      weights: credits.map(({ sigma }) => points(sigma, each, (part) => mean(part) * T)),
    },
  };
}

function segmentRecords({ row, texts, credits, candidates }: TraceSource, T: number): SegmentRecord[] {
  const characters = [...texts.completion];
  const advantage = advantageOf(row);
  let next = 0;
  return row.segments.map((segment) => {
    const { start, end, charStart, charEnd, kind, value, delta, entropy } = segment;
    const own = charStart === null || charEnd === null ? [] : characters.slice(charStart, charEnd);
    const cuts: number[] = [];
    for (; next < candidates.length && (candidates[next] as number) < (charEnd ?? 0); next++) {
      const at = (candidates[next] as number) - (charStart ?? 0);
      if (at > 0) cuts.push(visible(own.slice(0, at).join('')).length);
    }
    while (candidates[next] === charEnd && charEnd !== null) next++;
    // the first credit's is stored with the segment, where inspect reads it too
    const shares = credits.map(({ sigma }, c) =>
      start === null || end === null
        ? null
        : c === 0 && segment.sigma !== null
          ? segment.sigma
          : sigma.subarray(start, end).reduce((sum, s) => sum + s, 0),
    );
    const weights = shares.map((share) =>
      share === null || start === null || end === null || end === start ? null : (share * T) / (end - start),
    );
    return {
      text: visible(own.join('')),
      ...{ from: start, to: end },
      answer: kind === 'answer',
      ...{ value: short(value), delta: short(delta), entropy: short(entropy) },
      sigma: shares.map(short),
      weight: weights.map(short),
      shade: weights.map((weight) => shadeOf(weight, advantage)),
      cuts,
    };
  });
}

function shortTurn({ segment, change, sigma, weight }: Turn): Turn {
  return { segment, change: short(change) as number, sigma: short(sigma), weight: short(weight) };
}

function points(list: Float32Array, each: number, of: (part: Float32Array) => number): number[] {
  return Array.from({ length: Math.ceil(list.length / each) }, (_, k) =>
    Number(of(list.subarray(k * each, (k + 1) * each)).toPrecision(3)),
  );
}

function highest(part: Float32Array): number {
  return part.reduce((most, x) => Math.max(most, x), Number.NEGATIVE_INFINITY);
}

function mean(part: Float32Array): number {
  return part.reduce((sum, x) => sum + x, 0) / part.length;
}

/** As many digits as a float32 has, so that it is written as everywhere; what JSON cannot hold (log v̂ of −∞) is null. */
function short(x: number | null): number | null {
  return x === null || !Number.isFinite(x) ? null : Number(x.toPrecision(9));
}
