// An engine as those see it who put traces to a policy: as a session that reads traces and scores branches of them.
import { usageError } from '../../errors.js';
import type { SampleRequest, TokenizedTrace } from '../../question.js';
import type { Log } from '../../report/log.js';
import type { TextFolder } from '../onnx/folder.js';
import type { Branch, PackedTrace, TraceScores } from '../onnx/placed.js';
import { joinIds } from '../text/encode.js';
import type { Engine, LogprobAnswer, LogprobQuestion, SampleQuestion } from './engine.js';

/** Of the likeliest tokens so many tell an entropy: .08 nats wide in the mean on a language model of half a billion weights. */
const TOP = 20;

/** What was read, whose branches may follow. */
type Read = Pick<PackedTrace, 'ids'> & { readonly name: string };

export class EngineSession {
  readonly vocab: number;
  readonly width: number;
  private readonly kept = new Map<number, readonly Read[]>();
  /** of all entropies that were told by the likeliest tokens */
  private readonly widths = { sum: 0, count: 0 };

  constructor(
    private readonly engine: Engine,
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
    for (const { ids, promptLength, branches, trace } of traces) {
      const name = trace?.id ?? '';
      const whole = { name, ids, shared: ids.length, from: promptLength, top: TOP };
      const asked = branchQuestions({ ids, name }, promptLength, branches);
      const [own, ...answers] = await this.engine.logprobs([whole, ...asked]);
      const {
        logprobs,
        entropies = new Float32Array(logprobs.length),
        entropyWidth = 0,
      } = own as LogprobAnswer;
      if (entropyWidth > 0) {
        this.widths.sum += entropyWidth * logprobs.length;
        this.widths.count += logprobs.length;
      }
      scored.push({ entropies, logprobs, branches: joined(branches, answers) });
    }
    if (keep !== undefined)
      this.kept.set(
        keep,
        traces.map(({ ids, trace }) => ({ ids, name: trace?.id ?? '' })),
      );
    return scored;
  }

  /** Scores branches of what an earlier call has read. */
  async branches(kept: number, branches: readonly (readonly Branch[])[]): Promise<TraceScores[]> {
    const none = new Float32Array(0);
    const scored: TraceScores[] = [];
    for (const [n, own] of branches.entries()) {
      const asked = branchQuestions(this.kept.get(kept)?.[n] as Read, 0, own);
      const answers = asked.length === 0 ? [] : await this.engine.logprobs(asked);
      scored.push({ entropies: none, logprobs: none, branches: joined(own, answers) });
    }
    return scored;
  }

  /** How the policy goes on from states of a trace. @throws as {@link run} */
  sample(
    { trace, promptIds, completionIds }: TokenizedTrace,
    requests: readonly SampleRequest[],
  ): Promise<readonly (readonly Int32Array[])[]> {
    const ids = joinIds(promptIds, completionIds);
    const { stops: stop } = this.folder;
    const questions = requests.map(({ after, samples, maxTokens }): SampleQuestion => {
      const shared = promptIds.length + after;
      const name = `${trace.id}@${after}:mc`;
      return { name, ids: ids.subarray(0, shared), shared, samples, maxTokens, stop };
    });
    return questions.length === 0 ? Promise.resolve([]) : this.engine.samples(questions);
  }

  async keepPrefixes(keep: number, ids: readonly Int32Array[], name = ''): Promise<void> {
    this.kept.set(
      keep,
      ids.map((own) => ({ ids: own, name })),
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
  { ids, name }: Read,
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
      ...{ name: `${name}@${exit - prompt}:${which}`, ids: joinIds(ids.subarray(0, exit), own) },
      ...{ shared: exit, from: exit + scoredFrom },
    });
    if (also === undefined) return [question(behind, `${n}`)];
    const other = Int32Array.from(behind);
    other[other.length - 1] = also;
    return [question(behind, `${n}`), question(other, `${n}b`)];
  });
}

/** The log-probabilities of each branch, and then that of the other token, out of the answers to {@link branchQuestions}. */
function joined(branches: readonly Branch[], answers: readonly LogprobAnswer[]): Float32Array[] {
  let next = 0;
  return branches.map(({ also }) => {
    const { logprobs } = answers[next++] as LogprobAnswer;
    if (also === undefined) return logprobs;
    const { logprobs: other } = answers[next++] as LogprobAnswer;
    return Float32Array.from([...logprobs, other.at(-1) as number]);
  });
}
