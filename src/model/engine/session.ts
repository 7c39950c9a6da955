// An engine as those see it who put traces to a policy: as a session that reads traces and scores branches of them.
import { TraceRejected, usageError } from '../../errors.js';
import type { SampleRequest, TokenizedTrace } from '../../question.js';
import type { Log } from '../../report/log.js';
import type { TextFolder } from '../onnx/folder.js';
import type { Branch, PackedTrace, TraceScores } from '../onnx/placed.js';
import { joinIds } from '../text/encode.js';
import type { Engine, EngineQuestion, LogprobQuestion } from './engine.js';
import { type AnswerTo, checked, type LogprobAnswer, UNANSWERED } from './wire.js';

/** Of the likeliest tokens so many tell an entropy: .08 nats wide in the mean on a language model of half a billion weights. */
const TOP = 20;
const NONE = new Float32Array(0);
const UNREAD: LogprobAnswer = { logprobs: NONE };

/** What was read, whose branches may follow. */
type Read = Pick<PackedTrace, 'ids' | 'promptLength' | 'trace' | 'last'>;

/** @param engine is closed by whoever has opened it */
export function engineSession(
  engine: Pick<Engine, 'name' | 'width' | 'noise' | 'answer'>,
  folder: TextFolder,
  log: Log,
) {
  const { stops: stop } = folder;
  const { vocab } = folder.architecture;
  const keptReads = new Map<number, readonly Read[]>();
  /** of all entropies that were told by the likeliest tokens */
  const widths = { sum: 0, count: 0 };

  /** What can be believed of what it says. @throws TraceRejected for what cannot be answered; RredcotError (exit 69) where nothing can be any more */
  async function ask<Q extends EngineQuestion>(questions: readonly Q[]): Promise<AnswerTo<Q>[]> {
    const said = questions.length === 0 ? [] : await engine.answer(questions);
    return questions.map((question, n) => {
      const found = checked(said[n], question, vocab);
      if (typeof found !== 'string') return found;
      throw new TraceRejected(UNANSWERED, `${engine.name}: ${question.name}: ${found}`);
    });
  }
  /** @param isWhole its own tokens are scored too */
  async function scoresOf(read: Read, branches: readonly Branch[], isWhole: boolean): Promise<TraceScores> {
    const { ids, promptLength: from, trace, last } = read;
    const whole = { name: trace?.id ?? '', ids, shared: ids.length, from, top: TOP };
    const answers = (await ask([...(isWhole ? [whole] : []), ...questionsOf(read, branches)])).values();
    const next = () => answers.next().value as LogprobAnswer;
    const { logprobs, entropies = NONE, entropyWidth = 0, likeliest } = isWhole ? next() : UNREAD;
    widths.sum += entropyWidth * logprobs.length;
    widths.count += entropyWidth > 0 ? logprobs.length : 0;
    const scored = branches.map(({ also }) => {
      const own = next().logprobs;
      return also === undefined ? own : Float32Array.of(...own, ...next().logprobs.subarray(-1));
    });
    return { entropies, logprobs, branches: scored, ...(last && likeliest && { likeliest }) };
  }
  return {
    ...{ folder, vocab, width: engine.width, noise: engine.noise, ask },

    run(traces: readonly PackedTrace[], keep?: number): Promise<TraceScores[]> {
      if (keep !== undefined) keptReads.set(keep, traces);
      return Promise.all(traces.map((each) => scoresOf(each, each.branches, true)));
    },

    /** Scores branches of what an earlier call has read. */
    branches(kept: number, branches: readonly (readonly Branch[])[]): Promise<TraceScores[]> {
      const reads = keptReads.get(kept) ?? [];
      return Promise.all(branches.map((own, n) => scoresOf(reads[n] as Read, own, false)));
    },

    /** How the policy goes on from states of a trace: (requests) of (samples). */
    sample({ trace, promptIds, completionIds }: TokenizedTrace, requests: readonly SampleRequest[]) {
      const all = joinIds(promptIds, completionIds);
      const questions = requests.map(({ after, samples, maxTokens }) => {
        const ids = all.subarray(0, promptIds.length + after);
        return { name: `${trace.id}@${after}:mc`, ids, shared: ids.length, samples, maxTokens, stop };
      });
      return ask(questions);
    },

    keepPrefixes: async (keep: number, reads: readonly Read[]): Promise<void> =>
      void keptReads.set(keep, reads),

    release: async (kept: number): Promise<void> => void keptReads.delete(kept),

    /** Tells what its answers were worth. */
    async close(): Promise<void> {
      const { sum, count } = widths;
      if (count > 0)
        log.info(
          `${engine.name}: entropies are told by the ${TOP} likeliest tokens: the middles of intervals that are ${(sum / count).toPrecision(2)} nats wide in the mean`,
        );
    },
  };
}

/** Each branch as a question; one with another token in the place of its last is two. */
function questionsOf({ ids, promptLength, trace }: Read, branches: readonly Branch[]): LogprobQuestion[] {
  return branches.flatMap(({ exit, ids: behind, scoredFrom, also, gap }, n) => {
    if (gap !== undefined)
      throw usageError('--loo masked: an engine hides no token', '--loo deleted, or a policy folder');
    const name = `${trace?.id ?? ''}@${exit - promptLength}:${n}`;
    const own = joinIds(ids.subarray(0, exit), behind);
    const question = { name, ids: own, shared: exit, from: exit + scoredFrom };
    const other = also === undefined ? [] : [{ ...question, name: `${name}b`, ids: own.with(-1, also) }];
    return [question, ...other];
  });
}
