// A set of the benchmark in: its traces with their cuts, rewards, true values and labels; the credit of their segments that somebody gives, and what would be from the set alone.
import { randomStream } from '../compare/bootstrap.js';
import { dataError } from '../errors.js';
import { parsePath } from '../io/map/fields.js';
import { type BadRow, type InputRow, isBad } from '../rows.js';
import { isList } from './stored-rows.js';
import {
  type CreditColumn,
  CreditFault,
  columnCredit,
  DELTA,
  listAt,
  traceCredits,
} from './trace-credits.js';

/** One trace of a set: K thought segments of T tokens, or of T characters where the set has none. */
export type BenchTrace = ReturnType<typeof traceOf>;

export type BenchSet = Awaited<ReturnType<typeof readBenchSet>>;

const NAME = /^[\w.-]+@\d+$/;

/**
 * Reads a set.
 * @throws RredcotError (exit 65) naming the row of what is no set: a trace cannot be left out of it
 */
export async function readBenchSet(path: string, rows: AsyncIterable<InputRow | BadRow>) {
  const traces = new Map<string, BenchTrace>();
  const names = new Set<string>();
  let isExact = true;
  for await (const row of rows) {
    const fault = (why: string) =>
      dataError(`${path}:${row.row}: ${why}`, 'rredcot bench puzzles prints the rows of a set');
    if (isBad(row)) throw fault(row.rejection.reason);
    const { set, exact } = row.columns;
    if (typeof set !== 'string' || !NAME.test(set))
      throw fault(`is no row of a set: column set has ${JSON.stringify(set)}, expected name@version`);
    names.add(set);
    if (names.size > 1) throw fault(`is of another set: ${[...names].join(' and ')}`);
    isExact &&= exact === true;
    const trace = traceOf(row, fault);
    if (traces.has(trace.id)) throw fault(`id ${JSON.stringify(trace.id)} is there twice`);
    traces.set(trace.id, trace);
  }
  const [name] = names;
  if (name === undefined) throw dataError(`${path}: has no rows`, 'name a set of the benchmark');
  return {
    /** `name@version` */
    name,
    /** whether its values are computed, not sampled */
    isExact,
    traces: [...traces.values()],
  };
}

function traceOf({ columns }: InputRow, fault: (why: string) => Error) {
  const list = (name: string, length?: number): number[] | undefined => {
    const found = columns[name] ?? undefined;
    if (found === undefined) return undefined;
    const numbers = isList(found) ? Array.from(found, (x) => (x === null ? Number.NaN : Number(x))) : [];
    if (length !== undefined && numbers.length !== length)
      throw fault(`${name} has ${numbers.length} numbers, expected ${length}`);
    return numbers;
  };
  const { id, group, half, reward, completion, completions_a_half: n, first_wrong: wrong } = columns;
  if (typeof id !== 'string' || typeof half !== 'string' || typeof reward !== 'number')
    throw fault('expected id, half and reward');
  const tokens = list('segment_ends');
  const cuts = tokens ?? list('segment_char_ends') ?? [];
  const T = tokens === undefined ? String(completion ?? '').length : (list('completion_ids')?.length ?? 0);
  if (cuts.length === 0 || cuts.some((end, k) => !(end > (cuts[k - 1] ?? 0) && end <= T)))
    throw fault(`expected segment_ends or segment_char_ends that rise to ${T} at most`);
  const [first, second] = ['wins_first', 'wins_second'].map((name) =>
    list(name, cuts.length + 1)?.map((wins) => wins / Number(n)),
  );
  if ([first, second].some((of) => of?.some((x) => !(x >= 0 && x <= 1))))
    throw fault('expected wins between 0 and completions_a_half');
  const halves = first && second && ([first, second] as const);
  const firstWrong = wrong === undefined ? undefined : wrong === null ? -1 : Number(wrong);
  if (
    firstWrong !== undefined &&
    !(Number.isInteger(firstWrong) && firstWrong >= -1 && firstWrong < cuts.length)
  )
    throw fault(
      `first_wrong is ${String(wrong)}, expected a segment from 0 to ${cuts.length - 1}, null or -1`,
    );
  return {
    ...{ id, group: typeof group === 'string' ? group : id, half, reward },
    unit: tokens === undefined ? ('charEnd' as const) : ('end' as const),
    /** (K) ends of the thought segments */
    cuts,
    T,
    /** (T) nats; undefined where the set has none */
    logprobs: list('logprobs', T),
    entropies: list('entropies', T),
    /** (K+1) NaN where nobody knows; undefined in a set of labels */
    values: halves?.[0].map((x, k) => (x + (halves[1][k] as number)) / 2) ?? list('values', cuts.length + 1),
    /** (K+1) of either half of the completions */
    halves,
    /** −1 where no segment is wrong; undefined where nobody has said */
    firstWrong,
  };
}

/** Sums of a number a token over the segments. @returns (K) */
export function bySegment(cuts: readonly number[], tokens: ArrayLike<number>): Float64Array {
  return Float64Array.from(cuts, (end, k) => {
    let sum = 0;
    for (let t = cuts[k - 1] ?? 0; t < end; t++) sum += tokens[t] as number;
    return sum;
  });
}

/**
 * What always stands beside a credit, from the set alone, (K) by name; `surprise` and `entropy` where it has what they read.
 * `uniform` and `entropy` share R* = ζ − b out by length and by the tokens' entropies, `outcome` is its sign for every segment, and
 * `surprise` its sign with the least likely token's −log π.
 * @param baseline b, the mean reward of the trace's group
 */
export function besideCredits(
  { reward, cuts, T, logprobs, entropies }: BenchTrace,
  baseline: number,
): Map<string, Float64Array> {
  const weight = reward - baseline;
  const found = new Map([
    ['uniform', bySegment(cuts, new Float64Array(T).fill(weight / T))],
    ['outcome', new Float64Array(cuts.length).fill(Math.sign(weight))],
  ]);
  if (logprobs !== undefined) {
    const least = (from: number, to: number) => -Math.min(0, ...logprobs.slice(from, to));
    found.set(
      'surprise',
      Float64Array.from(cuts, (end, k) => Math.sign(weight) * least(cuts[k - 1] ?? 0, end)),
    );
  }
  if (entropies !== undefined) {
    const total = entropies.reduce((sum, h) => sum + h, 0);
    found.set(
      'entropy',
      bySegment(
        cuts,
        entropies.map((h) => (weight * h) / total),
      ),
    );
  }
  return found;
}

/** The same credits at other segments of their trace, drawn by a seed. @param traces (K) each */
export function shuffledCredits(traces: readonly Float64Array[], seed: number): Float64Array[] {
  const random = randomStream(seed);
  return traces.map((credit) => {
    const drawn = credit.slice();
    for (let k = drawn.length - 1; k > 0; k--) {
      const other = Math.floor((random() / 2 ** 32) * (k + 1));
      [drawn[k], drawn[other]] = [drawn[other] as number, drawn[k] as number];
    }
    return drawn;
  });
}

/** `credit` (K), a number a segment; `values` (K+1), of its exits; `tokens` (T), a number a token, summed over a segment. */
export const MEANINGS = ['credit', 'values', 'tokens'] as const;

/** Where a row's credits are, and what its numbers are. */
export type BenchColumn = Omit<CreditColumn, 'meaning'> & { readonly meaning: (typeof MEANINGS)[number] };

export interface BenchCredit {
  readonly credit: Float64Array; // (K)
  /** (K+1) on the reward's scale, where values were given */
  readonly values?: ArrayLike<number>;
  /** another policy than the one that wrote the trace has read it */
  readonly isForeign: boolean;
}

/** Mean difference of a token's log p in nats: a policy's own differ by .01 where it runs in bfloat16. */
const FOREIGN = 0.05;

/**
 * @param made what the differences of a scored file are
 * @throws CreditFault, TraceRejected for a row whose numbers are not those of the trace's segments
 */
export function benchCredit(
  row: InputRow,
  trace: BenchTrace,
  column: BenchColumn | undefined,
  made: { readonly isMagnitude: boolean; readonly hasLevel: boolean },
): BenchCredit {
  const { columns } = row;
  const name = column?.path.text;
  const isOurs = isList(columns.segments) && columns.segments.length > 0;
  if (isOurs && (name === undefined || name === DELTA || name.startsWith('sigma')))
    return ofScored(row, trace, name ?? DELTA, made);
  const meaning = column?.meaning ?? MEANINGS.find((each) => columns[each] !== undefined);
  if (meaning === undefined)
    throw new CreditFault(
      `has none of the columns ${MEANINGS.join(', ')}: --credit, --values or --tokens <path>`,
    );
  const path = column?.path ?? parsePath(meaning);
  const numbers = listAt(columns, path, `--${meaning}`);
  if (numbers === null) throw new CreditFault(`has nothing at ${path.text}`);
  if (meaning === 'tokens') {
    if (numbers.length !== trace.T)
      throw new CreditFault(`${path.text} has ${numbers.length} numbers, expected ${trace.T}, one a token`);
    return { credit: bySegment(trace.cuts, numbers), isForeign: false };
  }
  const found = columnCredit(columns, { name: path.text, meaning, path }, trace.cuts.length);
  const values = meaning === 'values' && { values: numbers };
  return { credit: found as Float64Array, ...values, isForeign: false };
}

/** The credit of a scored row, cut at the set's own places. */
function ofScored(
  row: InputRow,
  { cuts, unit, logprobs }: BenchTrace,
  name: string,
  { isMagnitude, hasLevel }: Parameters<typeof benchCredit>[3],
): BenchCredit {
  const own = traceCredits(row, { columns: [], firstWrong: undefined, reward: undefined }, { isMagnitude });
  const ends = `${unit} ${cuts.join(' ')}`;
  if (own.segments !== cuts.length || !`${own.ends} `.startsWith(`${ends} `))
    throw new CreditFault('is cut at other places than the set: score it with --segmenter given');
  const credit = own.credits.get(name);
  if (credit === undefined) throw new CreditFault(`has no ${name}, and its status says why`);
  const { logprobs: read } = row.columns;
  const off = logprobs?.reduce((sum, lp, t) => sum + Math.abs(lp - Number(isList(read) ? read[t] : lp)), 0);
  const isForeign = logprobs !== undefined && (off as number) / logprobs.length > FOREIGN;
  return { credit, ...(hasLevel && name === DELTA && { values: own.values }), isForeign };
}
