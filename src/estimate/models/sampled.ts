// Values the exits of traces by completions that are sampled there.
import { TraceRejected } from '../../errors.js';
import type { Begun, PolicyWrites, Start } from '../../policy/run/continue.js';
import type { Written } from '../../policy/run/decoding-run.js';
import { rowKey } from '../../policy/run/random.js';
import type { SamplingOptions } from '../../policy/run/sampling-options.js';
import { spelledText } from '../../policy/text/encode.js';
import type { Spelling } from '../../policy/text/tokenizer.js';
import { type BadRow, eachTrace } from '../../rows.js';
import type { Reference } from '../../trace.js';
import type { PassJob } from '../cut-windows.js';
import { joinIds } from '../references.js';
import type { AnswerMarks } from '../reward.js';
import type { TraceResult } from '../trace-result.js';
import { noReferences } from '../value.js';
import type { Scored, Valued } from '../windows.js';
import { continued } from './continued.js';
import { judged } from './judge.js';
import { type MonteCarloValues, monteCarloValues, type Sample } from './monte-carlo.js';
import type { MonteCarloOptions } from './options.js';

/** What of the policy it takes. */
export interface SampledFrom {
  readonly session: PolicyWrites;
  readonly tokenizer: Spelling;
  readonly marks: AnswerMarks;
  readonly stops: readonly number[];
  /** tokens of the longest sequence */
  readonly maxTokens: number;
}

interface Job extends PassJob {
  /** of the row, by which samples are judged */
  readonly references: readonly Reference[];
}

/** Samples completions from every exit of every trace, and judges them. */
export async function* sampledValues<T extends Job>(
  scored: AsyncIterable<Scored<T> | BadRow>,
  policy: SampledFrom,
  opts: MonteCarloOptions & { readonly signal: AbortSignal; readonly onTokens: (count: number) => void },
  windowOf: (ordinal: number) => number,
): AsyncGenerator<Valued<T> | BadRow> {
  const { session, stops, maxTokens } = policy;
  const { samples, sampling, signal, onTokens } = opts;
  const begun = eachTrace(scored, ({ job, trace, result }) => {
    if (result instanceof TraceRejected) throw result;
    return { job, trace, result, ...begin(job, result, maxTokens, samples, sampling) };
  });
  const how = { ...sampling, stops, signal, onTokens };
  yield* eachTrace(continued(begun, session, how, windowOf), ({ item, written }) => {
    if (written instanceof TraceRejected) throw written;
    const { job, trace, result, exits } = item;
    return { job, trace, result, values: valuesOf(job, result, exits, written, policy, opts) };
  });
}

/** The states of a trace; a state that fills the context has nothing to write. */
function begin(
  { trace, promptIds, completionIds }: PassJob,
  { segmentation }: TraceResult,
  maxTokens: number,
  samples: number,
  sampling: SamplingOptions,
): { begun: Begun; exits: readonly number[] } {
  const starts: Start[] = [];
  const exits: number[] = []; // number of the exit of each start
  for (const [k, end] of segmentation.exits.entries()) {
    const exit = promptIds.length + end;
    const most = Math.min(sampling.maxTokens, maxTokens - exit);
    for (let m = 0; m < samples && most > 0; m++) {
      starts.push({ exit, key: rowKey(sampling.seed, trace.id, k, m), most });
      exits.push(k);
    }
  }
  return { begun: { ids: joinIds(promptIds, completionIds), starts }, exits };
}

function valuesOf(
  { references, trace, completionIds }: Job,
  { segmentation }: TraceResult,
  exits: readonly number[],
  written: readonly Written[],
  { tokenizer, marks }: SampledFrom,
  { judge, unfinished, keep, samples: M }: MonteCarloOptions,
): MonteCarloValues {
  const prompt = typeof trace.prompt === 'string' ? trace.prompt : '';
  const samples = written.map(({ ids, finish }, i): Sample => {
    const exit = exits[i] as number;
    const whole = joinIds(completionIds.subarray(0, segmentation.exits[exit]), ids);
    const text = spelledText(whole, tokenizer);
    const utility = finish === 'length' ? null : judged(text, references, marks, judge, prompt).reward;
    return { exit, completion: spelledText(ids, tokenizer), ids, finish, utility };
  });
  const utilities = Array.from(segmentation.exits, (_, k) => {
    const own = samples.filter(({ exit }) => exit === k).map(({ utility }) => utility);
    // a state without room for one more token has lost all of them
    return own.length > 0 ? own : new Array<null>(M).fill(null);
  });
  const { columns, ...values } = monteCarloValues(utilities, unfinished);
  return {
    ...values,
    ...noReferences(segmentation.exits.length),
    columns: keep ? { ...columns, samples } : columns,
  };
}
