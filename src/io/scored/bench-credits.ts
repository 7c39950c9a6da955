// Reads the credit of each segment that somebody gives a trace of the benchmark: numbers of anybody's, or a scored file's own.
import type { InputRow } from '../../rows.js';
import { parsePath } from '../map/sources.js';
import { type BenchTrace, bySegment } from './bench-set.js';
import { isList } from './stored-rows.js';
import {
  type CreditColumn,
  CreditFault,
  columnCredit,
  DELTA,
  listAt,
  traceCredits,
} from './trace-credits.js';

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
