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

/** What was read, whose branches may follow. */
type Read = Pick<PackedTrace, 'ids' | 'trace'>;

export class EngineSession {
  readonly vocab: number;
  readonly width: number;
  private readonly kept = new Map<number, readonly Read[]>();
  /** of all entropies that were told by the likeliest tokens */
  private readonly widths = { sum: 0, count: 0 };

  constructor(
    private readonly engine: Pick<Engine, 'name' | 'width' | 'noise' | 'answer'>,
    readonly folder: TextFolder,
    private readonly log: Log,
  ) {
    this.vocab = folder.architecture.vocab;
    this.width = engine.width;
  }

  get noise(): number | undefined {
    return this.engine.noise;
  }

  /** @throws TraceRejected for what cannot be answered; RredcotError (exit 69) where nothing can be any more */
  async run(traces: readonly PackedTrace[], keep?: number): Promise<TraceScores[]> {
    const scored: TraceScores[] = [];
    for (const read of traces) {
      const { ids, promptLength: from, branches, trace } = read;
      const whole = { name: trace?.id ?? '', ids, shared: ids.length, from, top: TOP };
      const [own, ...answers] = await this.ask([whole, ...branchQuestions(read, from, branches)]);
      const { logprobs, entropies = NONE, entropyWidth = 0 } = own as LogprobAnswer;
      this.widths.sum += entropyWidth * logprobs.length;
      this.widths.count += entropyWidth > 0 ? logprobs.length : 0;
      scored.push({ entropies, logprobs, branches: joined(branches, answers) });
    }
    if (keep !== undefined) this.kept.set(keep, traces);
    return scored;
  }

  /** Scores branches of what an earlier call has read. */
  async branches(kept: number, branches: readonly (readonly Branch[])[]): Promise<TraceScores[]> {
    const scored: TraceScores[] = [];
    for (const [n, own] of branches.entries()) {
      const answers = await this.ask(branchQuestions(this.kept.get(kept)?.[n] as Read, 0, own));
      scored.push({ entropies: NONE, logprobs: NONE, branches: joined(own, answers) });
    }
    return scored;
  }

  /** How the policy goes on from states of a trace. @throws as {@link run} */
  sample(
    { trace, promptIds, completionIds }: TokenizedTrace,
    requests: readonly SampleRequest[],
  ): Promise<readonly (readonly Int32Array[])[]> {
    const all = joinIds(promptIds, completionIds);
    const { stops: stop } = this.folder;
    const questions = requests.map(({ after, samples, maxTokens }) => {
      const ids = all.subarray(0, promptIds.length + after);
      return { name: `${trace.id}@${after}:mc`, ids, shared: ids.length, samples, maxTokens, stop };
    });
    return this.ask(questions);
  }

  /** What can be believed of what the engine says. @throws as {@link run} */
  async ask<Q extends EngineQuestion>(questions: readonly Q[]): Promise<AnswerTo<Q>[]> {
    const said = questions.length === 0 ? [] : await this.engine.answer(questions);
    return questions.map((question, n) => {
      const found = checked(said[n], question, this.vocab);
      if (typeof found !== 'string') return found;
      throw new TraceRejected(UNANSWERED, `${this.engine.name}: ${question.name}: ${found}`);
    });
  }

  async keepPrefixes(keep: number, prefixes: readonly Int32Array[]): Promise<void> {
    this.kept.set(
      keep,
      prefixes.map((ids) => ({ ids })),
    );
  }

  async release(kept: number): Promise<void> {
    this.kept.delete(kept);
  }

  /** Tells what its answers were worth; the engine is closed by whoever has opened it. */
  async close(): Promise<void> {
    const { sum, count } = this.widths;
    if (count > 0)
      this.log.info(
        `entropies are told by the ${TOP} likeliest tokens: the middles of intervals that are ${(sum / count).toPrecision(2)} nats wide in the mean`,
      );
  }
}

/** Each branch as a question; one with another token in the place of its last is two. @param prompt tokens before the completion, by which exits are named */
function branchQuestions(
  { ids, trace }: Read,
  prompt: number,
  branches: readonly Branch[],
): LogprobQuestion[] {
  return branches.flatMap(({ exit, ids: behind, scoredFrom, also, gap }, n) => {
    if (gap !== undefined)
      throw usageError(
        '--loo masked: an engine hides no token from another',
        '--loo deleted, or a policy folder',
      );
    const question = (own: Int32Array, which: string): LogprobQuestion => ({
      ...{ name: `${trace?.id ?? ''}@${exit - prompt}:${which}`, ids: joinIds(ids.subarray(0, exit), own) },
      ...{ shared: exit, from: exit + scoredFrom },
    });
    const other = Int32Array.from(behind);
    if (also !== undefined) other[other.length - 1] = also;
    return [question(behind, `${n}`), ...(also === undefined ? [] : [question(other, `${n}b`)])];
  });
}

/** The log-probabilities of each branch, and then that of the other token, out of the answers to {@link branchQuestions}. */
function joined(branches: readonly Branch[], answers: readonly LogprobAnswer[]): Float32Array[] {
  const next = answers.values();
  const logprobs = () => (next.next().value as LogprobAnswer).logprobs;
  return branches.map(({ also }) => {
    const own = logprobs();
    return also === undefined ? own : Float32Array.of(...own, ...logprobs().subarray(-1));
  });
}
