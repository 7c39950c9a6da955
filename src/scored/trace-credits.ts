// The credits of a stored row's thought segments.
import { createHash } from 'node:crypto';
import { TraceRejected } from '../errors.js';
import { isList } from '../io/arrow/output-columns.js';
import type { Config } from '../io/write/output.js';
import type { InputRow } from '../rows.js';
import { ownTokens, withoutShown } from '../scored.js';
import { compact } from '../trace.js';
import { oursOf, storedRow } from './columns.js';

/** One trace; K thought segments. */
export type TraceCredits = ReturnType<typeof traceCredits>;

/** What any credit has to beat: outcome by length, in the first third of the tokens, and on the tokens of less than even probability; and the differences at other segments. */
export const PLACEBOS: readonly string[] = ['uniform', 'first_third', 'unlikely', 'shuffled'];
const DELTA = 'delta';
const SIGMA = 'sigma';

/** Those of our columns that are looked at. */
const READ = ['id', 'group', 'segments', 'value_start', 'reward', 'baseline', 'status', 'logprobs'];

/** Whether {@link traceCredits} looks at a column of a file. */
export function isRead(name: string): boolean {
  return READ.includes(name) || name.startsWith(SIGMA);
}

/**
 * @param isMagnitude the row's differences have no sign of their own: they take that of R*
 * @throws TraceRejected naming what is not as it should be
 */
export function traceCredits(row: InputRow, isMagnitude: boolean) {
  const { columns } = row;
  if (!isList(columns.segments) || columns.segments.length === 0)
    throw new TraceRejected('credit', 'no segments, expected a row that was scored or cut');
  const whole = storedRow(oursOf(columns, READ), row);
  const { segments, trace, baseline, reward, logprobs } = withoutShown(whole);
  const own = ownTokens(whole);
  const thoughts = segments.filter(({ kind }) => kind === 'thought');
  const unit = segments[0]?.end === null ? 'charEnd' : 'end';
  const ends = segments.map((segment) => segment[unit]).filter((end) => end !== null);
  if (ends.length < segments.length) throw new TraceRejected('credit', 'its segments have no ends');
  const total = ends.at(-1) as number;
  // R* = ζ − b, which σ shares out: its sign says whether more of σ is good or bad. Without b: ζ − ½
  const weight = (reward ?? Number.NaN) - (baseline ?? 0.5);
  const credits = new Map<string, Float64Array<ArrayBuffer>>();
  const put = (name: string, of: (k: number, from: number, to: number) => number) => {
    const credit = Float64Array.from(thoughts, (_, k) => of(k, ends[k - 1] ?? 0, ends[k] as number));
    if (credit.some(Number.isFinite)) credits.set(name, credit);
  };
  const third = total / 3;
  // a column of the user's may be called so
  const ofTokens = unit === 'end' && logprobs?.length === total ? logprobs : null;
  const unlikely = (from: number, to: number) =>
    ofTokens?.subarray(from, to).reduce((n, logprob) => n + (logprob < -Math.LN2 ? 1 : 0), 0) ?? Number.NaN;
  const shares = [
    (from: number, to: number) => (to - from) / total,
    (from: number, to: number) => Math.max(0, Math.min(to, third) - from) / third,
    (from: number, to: number) => unlikely(from, to) / Math.max(1, unlikely(0, total)),
  ];
  for (const [n, share] of shares.entries())
    put(PLACEBOS[n] as string, (_, from, to) => weight * share(from, to));
  const stored = thoughts.map(({ delta }) => delta ?? Number.NaN);
  const deltas = isMagnitude ? stored.map((delta) => Math.abs(delta) * Math.sign(weight)) : stored;
  const shuffled = shuffledPlaces(trace.id, deltas.length);
  put(PLACEBOS.at(-1) as string, (k) => deltas[shuffled[k] as number] as number);
  put(DELTA, (k) => deltas[k] as number);
  put(SIGMA, (k) => weight * (thoughts[k]?.sigma ?? Number.NaN));
  // further rules, a number a token each
  for (const [name, list] of Object.entries(unit === 'end' ? columns : {}))
    if (name.startsWith('sigma_') && isList(list) && list.length === (own?.length ?? total)) {
      const sigma = compact(Float32Array.from(list, Number), own);
      const shareOf = (from: number, to: number) => sigma.subarray(from, to).reduce((sum, s) => sum + s, 0);
      put(name, (_, from, to) => weight * shareOf(from, to));
    }
  return {
    id: trace.id,
    /** a trace without one is its own */
    group: trace.group ?? trace.id,
    /** ends of all segments in tokens, or in characters where there are no tokens */
    ends: `${unit} ${ends.join(' ')} ${thoughts.length}`,
    /** (K) by name: the placebos, `delta`, `sigma…` */
    credits,
  };
}

/** 0..n−1 in an order that looks random, and is the trace's own whenever it is asked for. */
function shuffledPlaces(id: string, n: number): number[] {
  const keyOf = (k: number) => createHash('sha256').update(`${id} ${k}`).digest('hex');
  const keyed = Array.from({ length: n }, (_, k) => [keyOf(k), k] as const);
  return keyed.sort(([a], [b]) => (a < b ? -1 : 1)).map(([, k]) => k);
}

/** The file's own credits are called after how they were made, where the file says so. */
export function creditName(own: string, { estimator, rule, steps }: Config): string {
  const first: unknown = Array.isArray(rule) ? rule[0] : rule;
  if (own === DELTA && typeof estimator === 'string')
    return typeof steps === 'string' && steps !== 'free' ? `${estimator}_${steps}` : estimator;
  return own === SIGMA && typeof first === 'string' ? `sigma_${first}` : own;
}
