// Values the exits of traces by completions that are sampled there.

import { TraceRejected } from '../../errors.js';
import type { AnswerMarks } from '../../estimate/answer-text.js';
import { noReferences, type TraceValues } from '../../estimate/value.js';
import type { AnsweredJob, Answers, TokenizedTrace } from '../../question.js';
import { type BadRow, eachTrace } from '../../rows.js';
import type { Reference } from '../../trace.js';
import { joinIds, spelledText } from '../text/encode.js';
import type { Spelling } from '../text/tokenizer.js';
import type { PolicyWrites } from './continue.js';
import {
  assertOneConversation,
  type Continuable,
  continued,
  type Episode,
  type EpisodeState,
  type Players,
  standingAt,
} from './episodes.js';
import { type Judge, judged, rowKey, type SamplingOptions, type Start, type Written } from './sampling.js';

/** How states are sampled from. */
export interface MonteCarloOptions {
  /** completions an exit */
  readonly samples: number;
  readonly sampling: SamplingOptions;
  readonly judge: Judge;
  /** what a sample without a verdict counts: 0, or nothing */
  readonly unfinished: 'zero' | 'drop';
  /** write the samples themselves */
  readonly keep: boolean;
}

/** What of the policy it takes. */
export interface SampledFrom {
  readonly session: PolicyWrites;
  readonly stops: readonly number[];
  /** tokens of the longest sequence */
  readonly maxTokens: number;
  /** who answers what it writes; absent: a completion is one turn */
  readonly players?: Players | undefined;
}

/** Answers with what was written from the exits. */
interface SampledResult extends Answers {
  readonly written: readonly (Written & Partial<Episode>)[];
  /** number of the exit of each */
  readonly writtenAt: readonly number[];
}

/** Samples completions from every exit of every trace. */
export async function* sampledAnswers<T extends TokenizedTrace>(
  answered: AsyncIterable<AnsweredJob<T> | BadRow>,
  from: SampledFrom,
  opts: MonteCarloOptions & { readonly signal: AbortSignal; readonly onTokens: (count: number) => void },
  windowOf: (ordinal: number) => number,
): AsyncGenerator<(AnsweredJob<T> & { readonly result: SampledResult }) | BadRow> {
  const { session, stops, players } = from;
  const { samples, sampling, signal, onTokens } = opts;
  const begun = eachTrace(answered, ({ job, trace, result }) => {
    return { job, trace, result, ...begin(job, result, from, samples, sampling) };
  });
  const how = { ...sampling, stops, signal, onTokens, players };
  yield* eachTrace(continued(begun, session, how, windowOf), ({ item, written }) => {
    if (written instanceof TraceRejected) throw written;
    const { job, trace, result, exits } = item;
    return { job, trace, result: { ...result, written, writtenAt: exits } };
  });
}

/** The states of a trace; a state that fills the context has nothing to write. */
function begin(
  { trace, promptIds, completionIds, pieces }: TokenizedTrace,
  { segmentation }: Answers,
  { maxTokens, players }: SampledFrom,
  samples: number,
  sampling: SamplingOptions,
): Omit<Continuable, 'trace'> & { exits: readonly number[] } {
  const { own } = pieces.tokens;
  if (own !== undefined && players === undefined)
    throw new TraceRejected(
      'turns',
      'it has several turns, and nobody answers what is sampled in their place: --environment <file>, or another --estimator',
    );
  if (players !== undefined) assertOneConversation(trace, promptIds, completionIds, players.tokenizer);
  const starts: Start[] = [];
  const standings: EpisodeState[] = [];
  const exits: number[] = []; // number of the exit of each start
  for (const [k, end] of segmentation.exits.entries()) {
    const exit = promptIds.length + end;
    const most = Math.min(sampling.maxTokens, maxTokens - exit);
    const standing = players && standingAt(trace, completionIds, own, end);
    for (let m = 0; m < samples && most > 0; m++) {
      starts.push({ exit, key: rowKey(sampling.seed, trace.id, k, m), most });
      exits.push(k);
      if (standing !== undefined) standings.push(standing);
    }
  }
  return { begun: { ids: joinIds(promptIds, completionIds), starts }, standings, exits };
}

/** Values by how what was written is judged. */
export function sampledValues(
  { references, trace, completionIds }: TokenizedTrace & { readonly references: readonly Reference[] },
  answers: Answers,
  { tokenizer, marks }: { readonly tokenizer: Spelling; readonly marks: AnswerMarks },
  { judge, unfinished, keep, samples: M }: MonteCarloOptions,
): TraceValues {
  const { segmentation, written, writtenAt: exits } = answers as SampledResult;
  const prompt = typeof trace.prompt === 'string' ? trace.prompt : '';
  const samples = written.map(({ ids, finish, messages, reward = null }, i): Sample => {
    const exit = exits[i] as number;
    const whole = () => joinIds(completionIds.subarray(0, segmentation.exits[exit]), ids);
    // of several turns the answer stands in the last
    const text = messages?.at(-1)?.content ?? spelledText(whole(), tokenizer);
    const found = () => judged(text, references, marks, judge, prompt).reward;
    const utility = finish === 'length' ? null : (reward ?? found());
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

// ------ values of samples (METHOD §3)

/** One completion from a state. */
export interface Sample {
  /** number of the exit it was sampled from, 0..K */
  readonly exit: number;
  readonly completion: string;
  readonly ids: Int32Array;
  readonly finish: 'stop' | 'length';
  /** ζ; null where it was cut before it ended, or nobody can tell */
  readonly utility: number | null;
}

/** Half of a state's samples without a verdict: its value is of those that end soon, or of whoever can be judged. */
const MUCH_LOST = 0.5;

/**
 * Values of the exits of one trace.
 * @param utilities (K+1) of (M) ζ, null where there is no verdict
 */
export function monteCarloValues(
  utilities: readonly (readonly (number | null)[])[],
  unfinished: MonteCarloOptions['unfinished'],
) {
  const judged = utilities.map((each) => each.filter((utility) => utility !== null));
  const counted = unfinished === 'drop' ? judged : utilities.map((each) => each.map((u) => u ?? 0));
  const lost = utilities.map((each, k) => 1 - (judged[k] as number[]).length / Math.max(1, each.length));
  return {
    values: Float32Array.from(counted, mean),
    columns: {
      value_sd: Float32Array.from(counted, deviationOfMean),
      lost_fraction: Float32Array.from(lost),
    },
    status: lost.some((share) => share >= MUCH_LOST) ? ['mc:lost'] : [],
  };
}

/** 0 of nothing. */
function mean(x: readonly number[]): number {
  return x.length === 0 ? 0 : x.reduce((sum, value) => sum + value, 0) / x.length;
}

/**
 * Standard deviation of the mean under the bootstrap: of M values drawn again from these M, √(Σ(x − x̄)²/M)/√M. It has this
 * closed form, to which resampling converges.
 */
function deviationOfMean(x: readonly number[]): number {
  const middle = mean(x);
  return x.length === 0 ? 0 : Math.sqrt(mean(x.map((value) => (value - middle) ** 2)) / x.length);
}
