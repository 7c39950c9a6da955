// How two credits go together inside traces: Pearson and Spearman as sums over traces, with intervals that resample groups.
//
// Pooled over traces, a correlation mixes in the outcome: on right traces most credit is positive, on wrong ones negative.
// So each trace is compared with itself alone, and what is added up over traces is what the coefficients are made of.
import { escapeControls } from '../printable.js';

/** The credits of one trace, segment by segment. */
export interface TracePair {
  /** traces of one group depend on each other, and are resampled together */
  readonly group: string;
  readonly x: Float64Array; // (K)
  readonly y: Float64Array; // (K)
}

/** A coefficient with the 2.5 and 97.5 percentiles of its resamples; null where a credit is constant in every trace, or groups are too few. */
export interface Coefficient {
  readonly value: number | null;
  readonly low: number | null;
  readonly high: number | null;
}

const RESAMPLES = 1000;

/** Σ cross, Σ own of x, Σ own of y: r = cross / √(own · own). */
type Sums = readonly [cross: number, ownX: number, ownY: number];

/** Both coefficients over the traces that have two segments or more. */
export function correlate(traces: Iterable<TracePair>) {
  const counting = Array.from(traces).filter(({ x }) => x.length > 1);
  const groups = new Map<string, number>();
  for (const { group } of counting) if (!groups.has(group)) groups.set(group, groups.size);
  const numbers = counting.map(({ group }) => groups.get(group) as number);
  const over = (sums: (pair: TracePair) => Sums) => withInterval(counting.map(sums), numbers, groups.size);
  return {
    traces: counting.length,
    groups: groups.size,
    segments: counting.reduce((sum, { x }) => sum + x.length, 0),
    pearson: over(({ x, y }) => sumsOf(x, y)),
    // ranks over their number: a trace counts by its length, not by its cube
    spearman: over(({ x, y }) => sumsOf(scaledRanks(x), scaledRanks(y))),
  };
}

function sumsOf(x: Float64Array, y: Float64Array): Sums {
  const [u, v] = [centered(x), centered(y)];
  const dot = (a: Float64Array, b: Float64Array) => a.reduce((sum, value, k) => sum + value * (b[k] ?? 0), 0);
  return [dot(u, v), dot(u, u), dot(v, v)];
}

/** A constant credit is 0, whatever rounding leaves. */
function centered(values: Float64Array): Float64Array {
  if (values.every((value) => value === values[0])) return new Float64Array(values.length);
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return values.map((value) => value - mean);
}

function scaledRanks(values: Float64Array): Float64Array {
  return midranks(values).map((rank) => rank / values.length);
}

/** 1 for the smallest; equal ones get the mean of the ranks they take. */
export function midranks(values: Float64Array): Float64Array {
  const sorted = values.slice().sort();
  return values.map((value) => {
    const first = sorted.indexOf(value);
    const last = sorted.lastIndexOf(value);
    return (first + last) / 2 + 1;
  });
}

function ratio([cross, ownX, ownY]: Sums): number {
  if (!(ownX > 0 && ownY > 0)) return Number.NaN;
  return Math.max(-1, Math.min(1, cross / Math.sqrt(ownX * ownY)));
}

/** @param numbers of each trace's group, @param size how many groups there are, and how many a resample draws */
function withInterval(terms: readonly Sums[], numbers: readonly number[], size: number): Coefficient {
  const sums = Array.from({ length: size }, (): [number, number, number] => [0, 0, 0]);
  for (const [i, own] of terms.entries()) add(sums[numbers[i] as number] as [number, number, number], own);
  const random = randomStream();
  const drawn = Array.from({ length: RESAMPLES }, () => {
    const all: [number, number, number] = [0, 0, 0];
    for (let i = 0; i < size; i++) add(all, sums[Math.floor(random() * size)] as Sums);
    return ratio(all);
  });
  const total: [number, number, number] = [0, 0, 0];
  for (const own of terms) add(total, own);
  const known = Float64Array.from(drawn.filter((value) => !Number.isNaN(value))).sort();
  const isKnown = size >= 2 && known.length > RESAMPLES / 2;
  const at = (share: number) => (isKnown ? quantile(known, share) : null);
  const value = ratio(total);
  return { value: Number.isNaN(value) ? null : value, low: at(0.025), high: at(0.975) };
}

function add(sums: [number, number, number], own: Sums): void {
  for (const j of [0, 1, 2] as const) sums[j] += own[j];
}

/** Of sorted numbers, between neighbors in proportion. */
function quantile(sorted: Float64Array, share: number): number {
  const place = share * (sorted.length - 1);
  const [below, above] = [sorted[Math.floor(place)] as number, sorted[Math.ceil(place)] as number];
  return below + (place - Math.floor(place)) * (above - below);
}

/** The same numbers in [0, 1) each time (mulberry32): a table is the same whenever it is made. */
function randomStream(): () => number {
  let state = 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A pair of credits, by their names. */
export type CreditPair = { readonly a: string; readonly b: string } & ReturnType<typeof correlate>;

/** So few groups make an interval too narrow. */
const FEW_GROUPS = 10;

/** The pairs as a table for a terminal. */
export function correlationsTable(pairs: readonly CreditPair[]): string {
  const two = (value: number | null) => (value === null ? '–' : value.toFixed(2).replace('-', '−'));
  const cell = ({ value, low, high }: Coefficient) =>
    low === null ? two(value) : `${two(value)} [${two(low)}, ${two(high)}]`;
  const rows = [
    ['inside traces', 'traces', 'groups', 'segments', 'Pearson', 'Spearman'],
    ...pairs.map(({ a, b, traces, groups, segments, pearson, spearman }) => [
      escapeControls(`${a} ~ ${b}`),
      ...[traces, groups, segments].map(String),
      ...[cell(pearson), cell(spearman)],
    ]),
  ];
  const widths = (rows[0] as string[]).map((_, n) => Math.max(...rows.map((row) => (row[n] ?? '').length)));
  const line = (row: string[]) =>
    row.map((text, n) => (n === 0 ? text.padEnd(widths[n] ?? 0) : text.padStart(widths[n] ?? 0))).join('  ');
  const isNarrow = pairs.some(({ groups }) => groups < FEW_GROUPS);
  const note = `[ ]: 95 % of 1,000 resamples of groups${isNarrow ? '; of fewer than ten groups too narrow' : ''}`;
  return `${[...rows.map(line), '', note].join('\n')}\n`;
}

/** The pairs as CSV; what is not known is empty. */
export function correlationsCsv(pairs: readonly CreditPair[]): string {
  const quoted = (text: string) => (/[",]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const rows = pairs.map(({ a, b, traces, groups, segments, pearson, spearman }) => [
    ...[a, b].map((name) => quoted(escapeControls(name))),
    ...[traces, groups, segments],
    ...[pearson, spearman].flatMap(({ value, low, high }) => [value ?? '', low ?? '', high ?? '']),
  ]);
  const head =
    'credit,with,traces,groups,segments,pearson,pearson_low,pearson_high,spearman,spearman_low,spearman_high';
  return `${[head, ...rows.map((row) => row.join(','))].join('\n')}\n`;
}
