// Lets the policy continue traces from the states that are asked for: rows in waves, block by block.
import { OutOfMemoryError, throwIfInterrupted } from '../../errors.js';
import { type Choosing, type RowStart, TRUNK_MULTIPLE, type Written } from './decoding-run.js';
import type { RowKey } from './random.js';
import type { SamplingOptions } from './sampling-options.js';
import type { PolicySession } from './session.js';

/** One continuation that is wanted. */
export interface Start {
  /** tokens of the trace in its state, 1 to all of them */
  readonly exit: number;
  /** the same key writes the same, whatever is written beside it */
  readonly key: RowKey;
  /** tokens at most; at least 1 */
  readonly most: number;
}

/** A trace that is continued. */
export interface Begun {
  /** prompt and completion, as far as a state reaches */
  readonly ids: Int32Array;
  readonly starts: readonly Start[];
}

/** What writing asks of a policy. */
export type PolicyWrites = Pick<
  PolicySession,
  'keepTrunks' | 'release' | 'beginRows' | 'advanceRows' | 'endRows'
>;

export interface ContinueOptions extends Choosing, Pick<SamplingOptions, 'batch'> {
  readonly signal?: AbortSignal;
  /** told of tokens as they are written */
  readonly onTokens?: ((count: number) => void) | undefined;
}

let lastNumber = 0;

/**
 * Continues traces. Each is read once, whatever many continuations it has.
 * @returns what was written, a list a trace in the order of its starts
 * @throws RredcotError (exit 75) where the signal has come; OutOfMemoryError for a row that has no room alone
 */
export async function continueTraces(
  session: PolicyWrites,
  traces: readonly Begun[],
  opts: ContinueOptions,
): Promise<Written[][]> {
  const written = traces.map((): Written[] => []);
  for (const together of inTurn(traces, opts.batch)) {
    const kept = ++lastNumber;
    try {
      await session.keepTrunks(
        kept,
        together.map((b) => trunkOf(traces[b] as Begun)),
      );
      const starts = together.flatMap((b, trace) =>
        (traces[b] as Begun).starts.map((start, n) => ({
          b,
          n,
          row: rowOf(traces[b] as Begun, start, trace),
        })),
      );
      for (let from = 0; from < starts.length; from += opts.batch) {
        const wave = starts.slice(from, from + opts.batch);
        const results = await writeRows(
          session,
          kept,
          wave.map(({ row }) => row),
          opts,
        );
        for (const [i, { b, n }] of wave.entries()) (written[b] as Written[])[n] = results[i] as Written;
      }
    } finally {
      await session.release(kept).catch(() => {}); // a session that has failed keeps nothing
    }
  }
  return written;
}

/** Traces whose rows share a batch: neighbours, as long as all their rows fit into it. */
function inTurn(traces: readonly Begun[], batch: number): number[][] {
  const turns: number[][] = [];
  let free = 0;
  for (const [b, { starts }] of traces.entries()) {
    if (starts.length === 0) continue;
    if (starts.length > free) {
      turns.push([]);
      free = Math.max(batch, starts.length);
    }
    (turns.at(-1) as number[]).push(b);
    free -= starts.length;
  }
  return turns;
}

/** The ids that states may see, padded: a row reads the last token of its state itself. */
function trunkOf({ ids, starts }: Begun): Int32Array {
  const longest = starts.reduce((most, { exit }) => Math.max(most, exit - 1), 1);
  const padded = new Int32Array(Math.ceil(longest / TRUNK_MULTIPLE) * TRUNK_MULTIPLE);
  padded.set(ids.subarray(0, longest));
  return padded;
}

function rowOf({ ids }: Begun, { exit, key, most }: Start, trace: number): RowStart {
  if (exit < 1 || exit > ids.length || most < 1)
    throw new RangeError(`a state of ${exit} of ${ids.length} tokens that may write ${most} more`);
  return { trace, exit, token: ids[exit - 1] as number, key, most };
}

/** Rows of one wave; where memory runs out, the two halves are tried by themselves. */
async function writeRows(
  session: PolicyWrites,
  kept: number,
  rows: readonly RowStart[],
  opts: ContinueOptions,
): Promise<Written[]> {
  const { temperature, topP, stops, signal, onTokens } = opts;
  const id = ++lastNumber;
  const written: Written[] = [];
  try {
    await session.beginRows(id, { kept, rows, temperature, topP, stops });
    for (let isDone = false; !isDone; ) {
      if (signal !== undefined) throwIfInterrupted(signal);
      const { ended, tokens, ...step } = await session.advanceRows(id);
      onTokens?.(tokens);
      for (const { row, ...own } of ended) written[row] = own;
      isDone = step.isDone;
    }
    return written;
  } catch (error) {
    if (!(error instanceof OutOfMemoryError) || rows.length < 2) throw error;
    const half = Math.ceil(rows.length / 2);
    const first = await writeRows(session, kept, rows.slice(0, half), opts);
    return [...first, ...(await writeRows(session, kept, rows.slice(half), opts))];
  } finally {
    await session.endRows(id).catch(() => {});
  }
}
