// `--dry-run`: counts traces and what they cost, and runs a few of them for the time that they take.
import type { PolicyRuns } from '../model/onnx/session.js';
import { type BadRow, isBad } from '../rows.js';
import { candidateExits } from '../segment/segment.js';
import { type PassJob, type ScoredJob, scoreWindows, type Window } from './windows.js';

/** What a run would do. */
export interface Forecast {
  readonly traces: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** prompt and completion of the longest trace */
  readonly longest: number;
  readonly exits: number;
  /** references, over all exits */
  readonly branches: number;
  /** text up to the first trace's first exit after a thought; undefined without a trace */
  readonly state: string | undefined;
  /** traces that were run, the seconds that all of them would take, and the most bytes that this process has held */
  readonly sample: number;
  readonly seconds: number;
  readonly bytes: number;
}

/** Traces that are run; the longest one besides. */
const SAMPLE = 16;

/** A trace's positions in the graphs: its own for each policy that reads it, and every reference's at every exit. */
function work({ promptIds, completionIds, pieces, continuations, again }: PassJob): number {
  const branch = [...continuations, ...(again?.continuations ?? [])].reduce(
    (sum, { ids }) => sum + ids.length,
    0,
  );
  const readers = again === undefined ? 1 : 2;
  return readers * (promptIds.length + completionIds.length) + (pieces.segments + 1) * branch;
}

const length = ({ promptIds, completionIds }: PassJob): number => promptIds.length + completionIds.length;

/** What some traces cost: their positions, and the positions times the trace's length, since each looks at all before it. */
interface Cost {
  readonly positions: number;
  readonly looks: number;
}

function costOf(jobs: readonly PassJob[]): Cost {
  return {
    positions: jobs.reduce((sum, job) => sum + work(job), 0),
    looks: jobs.reduce((sum, job) => sum + work(job) * length(job), 0),
  };
}

/** Some traces that ran, and the seconds that they took. */
interface MeasuredCost extends Cost {
  readonly seconds: number;
}

/**
 * Seconds for all traces: so many a position and so many a look, as two samples of different lengths have taken them. A single
 * long trace has most of the looks: taken as so much a position, it would make all others as slow as itself.
 */
export function secondsFor(all: Cost, short: MeasuredCost, long: MeasuredCost | undefined): number {
  const even = (all.positions * short.seconds) / short.positions;
  if (long === undefined) return even;
  const det = short.positions * long.looks - long.positions * short.looks;
  const perPosition = (short.seconds * long.looks - long.seconds * short.looks) / det;
  const perLook = (short.positions * long.seconds - long.positions * short.seconds) / det;
  // the long one was no slower for its length, or all of it was looks
  if (!(perLook > 0)) return even;
  if (perPosition < 0) return (all.looks * (short.seconds + long.seconds)) / (short.looks + long.looks);
  return all.positions * perPosition + all.looks * perLook;
}

/** How traces are run. */
export interface ForecastBy<T extends PassJob> {
  readonly session: PolicyRuns;
  /** makes one window of some traces */
  together(items: AsyncIterable<T | BadRow>): AsyncIterable<Window<T>>;
  /** a second pass over them */
  readonly again?: ((scored: AsyncIterable<ScoredJob<T> | BadRow>) => AsyncIterable<object>) | undefined;
}

/**
 * Counts all traces, then runs the first ones and the longest.
 * @param by undefined where nothing runs them
 * @param setAside told of every trace that would be rejected
 */
export async function forecast<T extends PassJob>(
  items: AsyncIterable<T | BadRow>,
  by: ForecastBy<T> | undefined,
  setAside: (bad: BadRow) => void,
): Promise<Forecast> {
  const sums = { traces: 0, promptTokens: 0, completionTokens: 0, longest: 0, exits: 0, branches: 0 };
  let all: Cost = { positions: 0, looks: 0 };
  const first: T[] = [];
  let longest: T | undefined;
  for await (const item of items) {
    if (isBad(item)) {
      setAside(item);
      continue;
    }
    const exits = item.pieces.segments + 1;
    sums.traces++;
    sums.promptTokens += item.promptIds.length;
    sums.completionTokens += item.completionIds.length;
    sums.exits += exits;
    sums.branches += exits * (item.continuations.length + (item.again?.continuations?.length ?? 0));
    const own = costOf([item]);
    all = { positions: all.positions + own.positions, looks: all.looks + own.looks };
    if (first.length < SAMPLE) first.push(item);
    if (longest === undefined || length(item) > length(longest)) longest = item;
  }
  const begin = first[0];
  if (begin === undefined || longest === undefined || by === undefined)
    return { ...sums, state: undefined, sample: 0, seconds: 0, bytes: 0 };
  // the first run of a graph takes longer than all others
  await run([begin], by, setAside);
  const measured = async (jobs: readonly T[]): Promise<MeasuredCost> => {
    const started = performance.now();
    await run(jobs, by, setAside);
    return { ...costOf(jobs), seconds: (performance.now() - started) / 1000 };
  };
  const short = await measured(first);
  const long = first.includes(longest) ? undefined : await measured([longest]);
  return {
    ...sums,
    longest: length(longest),
    state: stateText(begin),
    sample: first.length + (long === undefined ? 0 : 1),
    seconds: secondsFor(all, short, long),
    bytes: process.resourceUsage().maxRSS * 1024,
  };
}

async function run<T extends PassJob>(
  jobs: readonly T[],
  { session, together, again }: ForecastBy<T>,
  setAside: (bad: BadRow) => void,
): Promise<void> {
  async function* items() {
    yield* jobs;
  }
  // what the graph turns down (out of memory) is counted as the run itself would count it
  const scored = scoreWindows(together(items()), session);
  for await (const item of again?.(scored) ?? scored) if (isBad(item)) setAside(item);
}

function stateText({ trace, pieces }: PassJob): string {
  const { text, units } = pieces.tokens;
  const exit = candidateExits(pieces)[1] ?? 0;
  const prompt = typeof trace.prompt === 'string' ? trace.prompt : '';
  return prompt + text.slice(0, units[exit]);
}
