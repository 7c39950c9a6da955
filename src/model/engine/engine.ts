// What an engine is to the program: it answers questions about token ids with log-probabilities, or with samples, however it computes them.

/** Who answers: a file of answers, or a server. */
export interface Engine extends AsyncDisposable {
  /** e.g. `vllm 0.32.0`; said in the run, and in every error */
  readonly name: string;
  /** what decides its numbers, for the identity of a run: no address, no time */
  readonly config: Readonly<Record<string, unknown>>;
  /** traces of which questions are at work at a time */
  readonly width: number;
  /** of its answers, as `answerNoise` measures it; absent: nobody has looked */
  readonly noise?: number | undefined;
  /**
   * Answers all questions of a call, in their order. They are of one trace: where the whole of it is asked too, that comes first,
   * since what follows begins as it does; exits ascend.
   * @throws TraceRejected where one cannot be answered, and the others of the run can
   * @throws RredcotError (exit 69) where none can be any more
   */
  logprobs(questions: readonly LogprobQuestion[]): Promise<readonly LogprobAnswer[]>;
  /** The same with samples: (questions) of (samples) token ids. Ids behind a token that stops are not there; that token is. */
  samples(questions: readonly SampleQuestion[]): Promise<readonly (readonly Int32Array[])[]>;
}

/** What every question says. */
interface OfTrace {
  /** names trace, exit and question for people: top-0003@120:0 */
  readonly name: string;
  /** the whole list: a trace up to an exit, and what goes on from there */
  readonly ids: Int32Array;
  /** of `ids`, so many are the trace's own, which other questions of it begin with too */
  readonly shared: number;
}

/** How likely `ids[from..]` are, each given all before it. */
export interface LogprobQuestion extends OfTrace {
  readonly from: number;
  /** the entropy at each of these places is wanted too: so many of the most likely tokens tell it, where it is not known */
  readonly top?: number;
  /** to be computed anew, alone, with nothing that is cached: the answerer's proof compares it */
  readonly fresh?: true;
}

/** How the policy goes on from `ids`, T = 1. */
export interface SampleQuestion extends OfTrace {
  readonly samples: number;
  readonly maxTokens: number;
  /** token ids that end a sample */
  readonly stop: readonly number[];
}

/** (n) of `ids[from..]`, nats. */
export interface LogprobAnswer {
  readonly logprobs: Float32Array;
  /** (n) of the predicting distributions, nats; where they were asked for */
  readonly entropies?: Float32Array;
  /** by how much those can be off, nats, in the mean; 0 where they are exact */
  readonly entropyWidth?: number;
  /** tokens that were not computed again, where the engine says so */
  readonly cached?: number;
}
