// `mc`: the mean reward of completions that an engine samples behind each exit; with a calibration of those that tell most, and V given all of it.

import { certainty, smoothedValues } from '../credit/martingale.js';
import { sum } from '../credit/rules.js';
import { TraceRejected, usageError } from '../errors.js';
import { positiveInteger } from '../flag-values.js';
import { endOf, joinIds, spelledText } from '../model/text/encode.js';
import { count } from '../plural.js';
import type { Answers, SampleRequest } from '../question.js';
import { CALIBRATION, calibratedValues, calibrationFacts, ofBase } from './calibrated.js';
import { type Calibration, readCalibration, storedModel } from './calibration.js';
import type { Estimator, LoadContext, OpenEstimator, ValueJob } from './estimator.js';
import { openJudge } from './judge.js';
import { compareAnswer } from './reward.js';
import { listColumn, type TraceValues } from './value.js';

export const mc: Estimator = {
  name: 'mc',
  scores: 'answers',
  onRewardScale: true,
  card: 'the mean reward of going on from there, over completions that an engine sampled (one that was cut counts 0); with a calibration the mean of V given these, the calibrated values, and how certain the policy was of each segment',
  creditFlags: [CALIBRATION],
  flags: [
    ['--mc-samples <n>', 'of mc: completions an exit point, with --mc-tokens at most (default: 4)'],
    ['--mc-tokens <n>x', "of mc: tokens of all, so many times the trace's, as foreseen (default: any)"],
    ['--mc-max-tokens <n>', 'of mc: tokens of a completion at most (default: 2048)'],
    ['--judge-command <cmd>', 'of mc: JSON lines in, a number 0..1 a line out (default: compares answers)'],
  ],
  columns: () => [
    listColumn('mc_samples', 'completions that were sampled at each exit point'),
    listColumn('mc_right', 'what these earned together'),
    listColumn('lost_fraction', 'share of them that were cut, or could not be judged'),
  ],
  // without one nothing is scored
  withFlags: ({ calibration }) => (calibration === undefined ? { ...mc, scores: 'nothing' } : mc),
  stored: ({ calibration }) => ofBase(mc, storedModel(calibration) ?? { estimator: 'none' }),
  async setUp({ mcSamples = 4, mcMaxTokens = 2048, mcTokens, judgeCommand, calibration: path }, call) {
    const samples = positiveInteger('--mc-samples', `${mcSamples}`, 4);
    const maxTokens = positiveInteger('--mc-max-tokens', `${mcMaxTokens}`, 2048);
    const budget = mcTokens === undefined ? Infinity : Number(/^(.+)x$/.exec(`${mcTokens}`)?.[1]);
    if (!(budget > 0))
      throw usageError(`--mc-tokens ${mcTokens}: expected a number above 0 and an x`, '--mc-tokens 2x');
    const calibration = path === undefined ? undefined : await readCalibration(`${path}`);
    if (calibration?.standsBack)
      throw usageError(`--calibration stands back (${calibration.file.why})`, 'leave it out');
    const facts = calibration && calibrationFacts(calibration, mc, call);
    return {
      ...facts,
      config: { mcSamples: samples, mcMaxTokens: maxTokens, mcTokens, judgeCommand },
      ...(judgeCommand === undefined && { readsReferences: true }),
      async open(context): Promise<OpenEstimator> {
        const { engine, signal, log, policy } = context;
        if (engine === undefined)
          throw usageError(
            "--estimator mc: an engine samples, the policy's graph does not",
            '--policy-url <server>; or rredcot requests with the same flags, and --answers takes what was said',
          );
        if (policy.stops.length === 0)
          throw usageError(`--estimator mc: ${policy.path} names no end token`, 'policy build: eos_token_id');
        const judge = judgeCommand === undefined ? undefined : openJudge(`${judgeCommand}`, signal);
        const limits = { samples, maxTokens, budget, context: policy.architecture.maxTokens };
        const plan = (trace: ValueJob, answers: Answers) => planned(trace, answers, calibration, limits);
        const told = { tokens: 0, own: 0, states: 0, varied: 0 };
        return {
          ...(await facts?.open(context)),
          ask(trace) {
            if (trace.tokens.own !== undefined && judge === undefined)
              throw new TraceRejected('turns', 'it has several turns: --judge-command <one that plays on>');
            return { atExits: trace.continuations, samples: (answers) => plan(trace, answers).requests };
          },
          async judge(trace, answers) {
            told.tokens += sum(answers.samples?.flat().map(({ length }) => length) ?? []);
            told.own += trace.completionIds.length;
            for (const each of answers.samples ?? []) {
              told.states += each.length > 1 ? 1 : 0;
              told.varied += new Set(each.map(String)).size > 1 ? 1 : 0;
            }
            const outcomes = await outcomesOf(trace, answers.samples, plan(trace, answers), context, judge);
            return { ...answers, outcomes };
          },
          values: (trace, answers) => mcValues(plan(trace, answers), answers.outcomes ?? []),
          async [Symbol.asyncDispose]() {
            await judge?.[Symbol.asyncDispose]();
            const times = (told.tokens / told.own).toFixed(2);
            if (told.states >= ENOUGH && told.varied === 0)
              log.warn(
                'mc_alike',
                'each state has one completion again and again: sampled at temperature 0, or by one seed?',
              );
            if (told.tokens > 0) log.info(`sampled ${count(told.tokens)} tokens, ${times} times the traces'`);
          },
        };
      },
    };
  },
};

/** States with several completions after which it is no chance that these are equal. */
const ENOUGH = 16;

/**
 * What is known of a trace before its completions: π of its segments, the calibrated values, and how many of each exit to ask for.
 * @throws TraceRejected (`budget`) without a calibration, where that is not one
 */
function planned(
  job: ValueJob,
  answers: Answers,
  calibration: Calibration | undefined,
  limits: Readonly<Record<'samples' | 'maxTokens' | 'budget' | 'context', number>>,
) {
  const { exits, thoughtEnds: ends } = answers.segmentation;
  const { promptIds, tokens } = job;
  const T = job.completionIds.length;
  const shownBehind = Array.from(ends, (end) => tokens.own?.[end - 1] === 0);
  const pi = certainty({ ends, logprobs: answers.logprobs, shownBehind }, ends.length);
  const found = calibration && calibratedValues(job, answers, calibration);
  // where nothing was scored, nothing is known
  const prior = found?.isMade === false ? { ...found, values: found.values.map(() => 0.5) } : found;
  // a completion is foreseen to take what the trace still had, and a few tokens at least
  const expected = exits.map((exit) => Math.min(Math.max(16, T - exit), limits.maxTokens));
  const each = Math.min(limits.samples, Math.floor((limits.budget * T) / sum(expected)));
  if (!prior && each < 1)
    throw new TraceRejected(
      'budget',
      `a completion at each of its ${exits.length} exits takes ${(sum(expected) / T).toFixed(1)} times its ${T} tokens: a larger --mc-tokens, fewer --max-segments, or a --calibration`,
    );
  const counts = prior
    ? allotted(telling(prior.values, pi), expected, limits.samples, limits.budget * T)
    : exits.map(() => each);
  const requests = Array.from(exits, (after, exit): SampleRequest & { readonly exit: number } => {
    const room = limits.context - promptIds.length - after;
    return { exit, after, samples: counts[exit] as number, maxTokens: Math.min(limits.maxTokens, room) };
  });
  return { pi, prior, counts, requests: requests.filter((one) => one.samples > 0 && one.maxTokens > 0) };
}

type Plan = ReturnType<typeof planned>;

/** (K+1) how much each value may still move: V (1 − V), by how much a segment beside it can have changed it. */
function telling(values: Float32Array, pi: Float64Array): Float64Array {
  return Float64Array.from(values, (value, k) => {
    return value * (1 - value) * Math.max(1 - (pi[k - 1] ?? 1), 1 - (pi[k] ?? 1));
  });
}

/** (K+1) completions of each exit: the n-th by worth/(n (n + 1)) for its tokens, as the variance of a mean falls, until these are spent. */
export function allotted(worth: Float64Array, lengths: Int32Array, most: number, tokens: number): Int32Array {
  const counts = new Int32Array(worth.length);
  for (let left = tokens; ; ) {
    let [best, highest] = [-1, 0];
    for (const [k, length] of lengths.entries()) {
      const n = (counts[k] as number) + 1;
      const gain = n > most || length > left ? 0 : (worth[k] as number) / (n * (n + 1) * length);
      if (gain > highest) [best, highest] = [k, gain];
    }
    if (best < 0) return counts;
    counts[best] = (counts[best] as number) + 1;
    left -= lengths[best] as number;
  }
}

type Outcomes = NonNullable<Answers['outcomes']>;

/** @param judge in the place of the comparison with the references */
async function outcomesOf(
  { trace: { id, prompt }, promptIds, completionIds, references }: ValueJob,
  samples: Answers['samples'],
  { counts, requests }: Plan,
  { policy: { stops }, tokenizer, marks }: LoadContext,
  judge: ReturnType<typeof openJudge> | undefined,
): Promise<Outcomes> {
  const ended = requests.flatMap(({ exit, after }, n) => {
    const own = samples?.[n]?.filter((ids) => stops.includes(ids.at(-1) ?? -1)) ?? [];
    const textOf = (ids: Int32Array) =>
      spelledText(joinIds(completionIds.subarray(0, after), ids), tokenizer);
    return own.map((ids) => ({ id, exit, prompt, completion: textOf(ids), references }));
  });
  const opening = endOf(promptIds, tokenizer);
  const verdicts = judge
    ? await judge.verdicts(ended)
    : ended.map((one) => compareAnswer(one.completion, references, { ...marks, opening }).reward);
  return Array.from(counts, (count, k) => {
    const own = verdicts.filter((verdict, n) => verdict !== null && ended[n]?.exit === k) as number[];
    return { count, right: sum(own), lost: count === 0 ? 0 : 1 - own.length / count };
  });
}

/** Values by what completions have earned. @param outcomes (K+1) */
export function mcValues({ pi, prior }: Pick<Plan, 'pi' | 'prior'>, outcomes: Outcomes): TraceValues {
  const seen = outcomes.map(({ right, count }) => [right, count] as const);
  const values = prior ? smoothedValues(prior.values, pi, seen) : seen.map(([right, count]) => right / count);
  const list = (name: keyof Outcomes[number]) => Float32Array.from(outcomes, (each) => each[name]);
  return {
    ...prior,
    values: Float32Array.from(values),
    columns: { mc_samples: list('count'), mc_right: list('right'), lost_fraction: list('lost') },
    // a value of half of them is one of those that end soon
    status: [...(prior?.status ?? []), ...(outcomes.some(({ lost }) => lost >= 0.5) ? ['mc:lost'] : [])],
  };
}
