// `--dry-run`: traces that are ready for the policy in, their number and cost out, with a few of them run for the time they take.
import type { PolicyRuns } from '../../policy/run/session.js';
import { type BadRow, isBad } from '../../rows.js';
import { candidateExits } from '../../segment/segment.js';
import type { PassJob, Window } from './cut-windows.js';
import { type Scored, scoreWindows } from './windows.js';

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
function work({ promptIds, completionIds, pieces, continuations, proved, hinted }: PassJob): number {
  const branch = [...continuations, ...(proved ?? [])].reduce((sum, { ids }) => sum + ids.length, 0);
  const readers = proved === undefined && hinted === undefined ? 1 : 2;
  return readers * (promptIds.length + completionIds.length) + (pieces.segments + 1) * branch;
}

const length = ({ promptIds, completionIds }: PassJob): number => promptIds.length + completionIds.length;

/** How traces are run. */
export interface ForecastBy<T extends PassJob> {
  readonly session: PolicyRuns;
  /** makes one window of some traces */
  together(items: AsyncIterable<T | BadRow>): AsyncIterable<Window<T>>;
  /** a second pass over them */
  readonly again?: ((scored: AsyncIterable<Scored<T> | BadRow>) => AsyncIterable<object>) | undefined;
}

/**
 * Counts all traces, then runs the first ones and the longest.
 * @param setAside told of every trace that would be rejected
 */
export async function forecast<T extends PassJob>(
  items: AsyncIterable<T | BadRow>,
  by: ForecastBy<T>,
  setAside: (bad: BadRow) => void,
): Promise<Forecast> {
  const sums = { traces: 0, promptTokens: 0, completionTokens: 0, longest: 0, exits: 0, branches: 0 };
  let all = 0;
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
    sums.branches += exits * (item.continuations.length + (item.proved?.length ?? 0));
    all += work(item);
    if (first.length < SAMPLE) first.push(item);
    if (longest === undefined || length(item) > length(longest)) longest = item;
  }
  const begin = first[0];
  if (begin === undefined || longest === undefined)
    return { ...sums, state: undefined, sample: 0, seconds: 0, bytes: 0 };
  // the first run of a graph takes longer than all others
  await run([begin], by, setAside);
  const sample = first.includes(longest) ? first : [...first, longest];
  const started = performance.now();
  await run(sample, by, setAside);
  const taken = (performance.now() - started) / 1000;
  const done = sample.reduce((sum, job) => sum + work(job), 0);
  return {
    ...sums,
    longest: length(longest),
    state: stateText(begin),
    sample: sample.length,
    seconds: (taken * all) / done,
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
