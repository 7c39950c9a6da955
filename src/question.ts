// What passes between an estimator and whoever answers: questions about a trace, and one log-probability a scored token.
import type { BadRow } from './rows.js';
import type { Pieces, Segmentation } from './segment/segment.js';
import type { Likeliest, Trace } from './trace.js';

/** A trace as a policy reads it. */
export interface TokenizedTrace {
  readonly trace: Trace;
  readonly promptIds: Int32Array;
  readonly completionIds: Int32Array;
  readonly pieces: Pieces;
}

/** Token ids that go on from a state of a trace, and which of them are scored. */
export interface Continuation {
  readonly ids: Int32Array;
  /** ids scoredFrom.. are scored, each given all before it */
  readonly scoredFrom: number;
  /** another token in the place of the last one: its log-probability follows those of the others */
  readonly also?: number;
}

/** How likely a continuation is behind a prefix of the trace: a length, never a copy. */
export interface Question extends Continuation {
  /** tokens of the completion that stand before it */
  readonly after: number;
  /** so many tokens of the completion behind these keep their places, and it does not see them */
  readonly hidden?: number;
}

/** Log-probabilities of the tokens that are scored, nats. */
export type Answer = Float32Array;

/** What is asked about one trace, beside the log-probability and the entropy of each of its own tokens. */
export interface TraceQuestions {
  /** (N) after every exit point of its cut, of the policy */
  readonly atExits: readonly Continuation[];
  /** besides, after an exit by its number of completion tokens: ids that are scored from the first on, such as a peer's tail */
  readonly tails?: TailsAt;
  /** the hidden state at every exit, too */
  readonly states?: true;
  /** what tells the whole distribution before every token, too: the last layer's row, of an engine the likeliest tokens */
  readonly last?: boolean;
  /** other traces of which the same is asked as of this one's own tokens */
  readonly peers?: readonly TokenizedTrace[];
  /** of the policy once the (K+1) exit points are known, which may be many and long */
  readonly whenCut?: (exits: Int32Array) => readonly Question[];
  /** of the policy once all of that is answered */
  readonly samples?: (answers: Answers) => readonly SampleRequest[];
  /** of the estimator's second reader, or of the policy as such: the trace once more, cut as the policy has cut it */
  readonly second?: SecondReading;
}

/** Tails at an exit. @param exit completion tokens before it */
export type TailsAt = (exit: number) => readonly Int32Array[];

/** How a trace is read once more. */
export interface SecondReading {
  /** in the place of its own prompt */
  readonly promptIds?: Int32Array;
  /** besides in the place of its own prompt: its tokens are read behind this one, too */
  readonly otherPromptIds?: Int32Array | undefined;
  /** after every exit point */
  readonly atExits?: readonly Continuation[];
}

/** What a reader says of a trace: T tokens, E exits, N continuations at each. */
export interface ReaderAnswers {
  /** (T) of the completion's own tokens, nats */
  readonly logprobs: Float32Array;
  /** (T) of the predicting distributions, nats; where the answerer knows them */
  readonly entropies: Float32Array;
  /** (E) of (N) */
  readonly branches: readonly (readonly Answer[])[];
  /** (E · d) float16, where they were asked for and the answerer has them */
  readonly states?: Uint16Array;
  /** (T · d) the last layer's rows, where they were asked for */
  readonly last?: Float32Array;
  /** (T) of an engine in their place */
  readonly likeliest?: readonly Likeliest[];
  /** (T) of a second reader that is compared: KL(policy ‖ it), nats */
  readonly kl?: Float32Array;
  /** …where that is a lower bound: Σ over its tokens of the probability that the policy gives to those that were not told of both */
  readonly apart?: number;
  /** standard deviation of an improbable answer's log-probability, nats; of one of probability p (1 − p) times that; absent: rounding */
  readonly noise?: number;
}

/** How the policy is to go on from a state of a trace. */
export interface SampleRequest {
  /** tokens of the completion that stand before it */
  readonly after: number;
  readonly samples: number;
  readonly maxTokens: number;
}

/** The answers to what was asked about a trace, and how it was cut; K segments, K+1 exits. */
export interface Answers extends ReaderAnswers {
  readonly segmentation: Segmentation;
  /** no policy has read the trace: log-probabilities and entropies are zeros that stand for nothing */
  readonly isUnread?: true;
  /** (E) of the tails at each exit */
  readonly tails?: readonly (readonly Answer[])[];
  /** (T) of each peer's own tokens; undefined for one that could not be read */
  readonly peers?: readonly (Float32Array | undefined)[];
  readonly whenCut?: readonly Answer[];
  /** `peers`: (1) behind the other prompt, where there is one */
  readonly second?: ReaderAnswers & Pick<Answers, 'peers'>;
  /** (questions) of (samples) token ids behind the state */
  readonly samples?: readonly (readonly Int32Array[])[];
  /** (K+1) what those of each exit came to: Σζ of so many, and the share that was cut or has no verdict */
  readonly outcomes?: readonly Readonly<Record<'right' | 'count' | 'lost', number>>[];
}

// ------ one after the other

/** A trace about which something is asked; where that is absent, no more than of its own tokens. */
export interface AskedJob extends TokenizedTrace {
  readonly asked?: TraceQuestions;
}

/** A trace with what was answered about it. */
export interface AnsweredJob<T extends TokenizedTrace> {
  readonly job: T;
  readonly trace: Trace;
  readonly result: Answers;
}

/** A window's traces: neighbors, and what was rejected among them. */
export type Windows<T> = AsyncIterable<readonly (T | BadRow)[]>;

/** Who answers: sessions of ONNX Runtime; what else a policy is, such as an engine that takes questions as messages, has this form too. */
export type Answerer =
  /** Answers in input order; what was rejected, and what cannot be read, passes by in its place. */
  <T extends AskedJob>(windows: Windows<T>) => AsyncGenerator<AnsweredJob<T> | BadRow>;
