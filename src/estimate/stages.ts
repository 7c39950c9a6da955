// The stages between cut and credit: what is asked of each trace, who answers, and what the values are.
import type { Nature } from '../credit/nature.js';
import { interruptedError, usageError } from '../errors.js';
import { windowOf } from '../io/files/run-folder.js';
import type { Config } from '../io/write/output.js';
import type { Engine } from '../model/engine/engine.js';
import { engineSession } from '../model/engine/session.js';
import { noteProof } from '../model/onnx/canary.js';
import { withGraphs } from '../model/onnx/folder.js';
import { ModelSession } from '../model/onnx/session.js';
import type { AnsweredJob, Answers, TraceQuestions, Windows } from '../question.js';
import type { Log } from '../report/log.js';
import { type BadRow, eachTrace } from '../rows.js';
import { blankRow, type OutputRow, UNREAD } from '../scored.js';
import { allEnds, mergeSegments, segmentRows, segmentSums } from '../segment/segment.js';
import { THINK_CLOSE } from '../segment/span.js';
import type { Trace } from '../trace.js';
import { type KeptAnswers, openKept } from './answerer/kept.js';
import { answererOf, eachInWindow, WINDOW_ROWS, windowsOf } from './answerer/windows.js';
import type { OpenEstimator, ValueJob } from './estimator.js';
import { atOnce } from './module-place.js';
import { changeNoise } from './noise.js';
import { farPeers, type WholeInput, withPeers } from './peers.js';
import type { Method, preparing } from './ready.js';
import type { Reward, RewardedTrace } from './reward.js';
import { scoredReferences, type TraceValues, utilitiesOf } from './value.js';

export interface StageOptions extends Pick<Method, 'need' | 'estimator' | 'opened'> {
  readonly run: WholeInput['run'];
  readonly source: Pick<WholeInput, 'again'>;
  readonly prepare: Awaited<ReturnType<typeof preparing>>;
  readonly rewardOf: (trace: Trace) => Reward;
  /** who answers in the place of the policy's graph */
  readonly engine: Engine | undefined;
  /** what was answered before: nobody is asked again */
  readonly kept: KeptAnswers | undefined;
  readonly log: Log;
  readonly signal: AbortSignal;
}

type AskedTrace = ValueJob & { readonly asked: TraceQuestions };
type Answered = AsyncIterable<AnsweredJob<AskedTrace> | BadRow>;

/** Those of a policy; what they are made with is open until the end. */
export interface Stages extends AsyncDisposable {
  ask(cut: AsyncIterable<ValueJob | BadRow>): Windows<AskedTrace>;
  /** @throws RredcotError (exit 65) where a model gives numbers that cannot be */
  answer(asked: Windows<AskedTrace>): Answered;
}

/** Of a run in which no policy reads the traces. */
const WITHOUT_PASS: Stages = {
  async *ask(cut) {
    for await (const item of eachTrace(cut, (job) => ({ ...job, asked: { atExits: [] } }))) yield [item];
  },
  async *answer(asked) {
    for await (const window of asked)
      yield* eachTrace(window, (job) => ({ job, trace: job.trace, result: unread(job) }));
  },
  [Symbol.asyncDispose]: async () => {},
};

/** A trace as if it had been read: nothing is said of its tokens. */
function unread({ pieces, completionIds }: ValueJob): Answers {
  const segmentation = mergeSegments(pieces, null);
  const none = new Float32Array(completionIds.length);
  const branches = Array.from(segmentation.exits, () => []);
  return { logprobs: none, entropies: none, isUnread: true, segmentation, branches };
}

/** @throws RredcotError (exit 69) where a model does not prove itself */
export async function openStages(opts: StageOptions): Promise<Stages> {
  const { need, estimator, opened, run, source, prepare, rewardOf, engine, log, signal } = opts;
  if (opts.kept !== undefined) return { ...WITHOUT_PASS, answer: opts.kept.answer };
  if (need !== 'pass') return WITHOUT_PASS;
  const { policy, device } = opened;
  const window = (row: number): number => windowOf(row, run.rowsPerPart);
  const sessions: { close(): Promise<void> }[] = [];
  const close = async (): Promise<void> => {
    for (const session of sessions.toReversed()) await session.close();
  };
  try {
    const { model, engine: served, name = '', isCompared } = estimator.second ?? {};
    const session =
      engine === undefined
        ? await ModelSession.open(withGraphs(policy), device, isCompared && 'own')
        : engineSession(engine, policy, log);
    sessions.push(session);
    if (session instanceof ModelSession) noteProof(log, session, 'policy');
    const most = isCompared && WINDOW_ROWS;
    // compared with what a graph says, it is told that; with what an engine says, it tells its own
    const gives = isCompared && (engine === undefined ? 'teacher' : 'own');
    const other =
      (served && engineSession(served, policy, log)) ??
      (model && (await ModelSession.open(model.policy, model.device, gives)));
    if (other !== undefined) sessions.push(other);
    if (other instanceof ModelSession) noteProof(log, other, name);
    const second = estimator.second && (other ?? session);
    const again = ({ trace }: Pick<RewardedTrace, 'trace'>) =>
      prepare({ trace, reward: rewardOf(trace), groupMean: undefined });
    const whole = { again: source.again, run, prepare: again };
    const { peers } = estimator;
    const far = peers === undefined ? undefined : await farPeers(whole, log, signal);
    return {
      ask(cut) {
        const windows = windowsOf(cut, window, most);
        const shown = peers === undefined ? windows : withPeers(windows, far?.peers, peers);
        return eachInWindow(shown, () => async (job) => {
          const asked = (await estimator.ask?.(job)) ?? { atExits: job.continuations };
          return { ...job, asked: { ...asked, last: isCompared === true } };
        });
      },
      answer: answererOf(session, second, window, most),
      async [Symbol.asyncDispose]() {
        await far?.[Symbol.asyncDispose]();
        await close();
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** From traces to those that can be asked about, and who answers. */
export type Begin = (
  all: AsyncIterable<{ readonly trace: Trace } | BadRow>,
  source: StageOptions['source'],
  run: WholeInput['run'],
) => Promise<{ readonly cut: AsyncIterable<ValueJob | BadRow>; readonly stages: Stages }>;

/** Where values follow from all traces: asks about these before the first row is made, and keeps what was said. */
export function openWhole(
  whole: NonNullable<OpenEstimator['whole']>,
  { log, signal }: Pick<StageOptions, 'log' | 'signal'>,
) {
  let kept: KeptAnswers | undefined;
  let nature: Nature | undefined;
  return {
    /** who answers, and what values are, once that is done */
    ...{ kept: () => kept, nature: () => nature },
    /** @returns what the configuration says of it, and whether earlier attempts have asked some */
    async first(begin: Begin, source: StageOptions['source'], run: WholeInput['run'], config: Config) {
      if (run.prescan === undefined)
        throw usageError('values are fitted to all traces, which a pipe gives once', 'name a file');
      const { lastRow = Number.POSITIVE_INFINITY } = run.prescan;
      const all = source.again((row) => row <= lastRow);
      const { cut, stages } = await begin(all, source, run);
      await using _ = stages;
      const answers = await openKept(run.folder, signal);
      kept = answers;
      try {
        const isResumed = await answers.ask(
          stages.ask(cut),
          stages.answer,
          whole.partOf,
          run.prescan.traces,
          log,
        );
        const found = await whole.fit(answers.parts, config);
        nature = found.nature;
        return { config: found.config, isResumed };
      } catch (error) {
        if (!signal.aborted || run.folder === undefined) throw error;
        const told = `interrupted: what was said so far is kept in ${run.folder}`;
        throw interruptedError(told, 'the same command again, which goes on from there');
      }
    },
    [Symbol.asyncDispose]: async () => kept?.close(),
  };
}

/** The values of what was answered: rows without credit. */
export function valuesOf(answered: Answered, estimator: OpenEstimator) {
  return eachTrace(answered, async ({ job, trace, result }) => {
    const judged = (await estimator.judge?.(job, result)) ?? result;
    const valuesOf = (answers: Answers) => atOnce('values', estimator.values(job, answers, job.asked));
    const noise = changeNoise((answers) => valuesOf(answers).values, judged, job.asked);
    return { job, trace, row: valuedRow(job, judged, valuesOf(judged), noise) };
  });
}

/** A trace's row once its values are known: all that it says but its credit. */
export function valuedRow(
  item: Omit<ValueJob, 'references'>,
  { entropies, logprobs, segmentation, isUnread, ...said }: Answers,
  { values, columns, branches = said.branches, status = [] }: TraceValues,
  noise?: Float32Array,
): OutputRow {
  const { reward, tokens } = item;
  return {
    ...blankRow(item.trace),
    promptIds: item.promptIds.length === 0 ? null : item.promptIds,
    completionIds: item.completionIds,
    ...(isUnread ? { logprobs: null, entropies: null } : { logprobs, entropies }),
    segments: segmentRows({
      ...{ segmentation, values, noise, own: tokens.own, chars: item.chars },
      ...(isUnread ? {} : { entropies: segmentSums(entropies, allEnds(segmentation)) }),
    }),
    valueStart: values[0] as number,
    ...{ ...scoredReferences(branches), reward: reward.reward },
    referenceUtilities: utilitiesOf(item),
    requested: { ...columns },
    closesThought: tokens.text.includes(THINK_CLOSE),
    status: [...item.status, ...reward.status, ...status, ...(isUnread ? [UNREAD] : [])],
  };
}
