// What an estimator is: questions about a trace, and values from the answers. Its file declares all of it, and nothing outside knows its name.

import type { GroupMean } from '../credit/credit.js';
import type { Nature } from '../credit/nature.js';
import type { Flag } from '../flag-values.js';
import type { OutputColumn } from '../io/arrow/output-columns.js';
import type { Shard } from '../io/files/run-folder.js';
import type { Config } from '../io/write/output.js';
import type { Engine } from '../model/engine/engine.js';
import type { DeviceChoice } from '../model/onnx/device.js';
import type { OpenModel, OpenPolicy } from '../model/onnx/open-model.js';
import type { EncodedTrace } from '../model/text/encode.js';
import type { Answers, TraceQuestions } from '../question.js';
import type { Log } from '../report/log.js';
import type { Pieces, SegmentOptions } from '../segment/segment.js';
import type { Reference, Trace } from '../trace.js';
import type { AnswerMarks } from './answer-text.js';
import type { KeptAnswers } from './answerer/kept.js';
import type { Peers } from './peers.js';
import type { ScoredReferences } from './references.js';
import type { RewardedTrace } from './reward.js';
import type { TraceValues } from './value.js';

/** Raw values of flags, by their names in camel case; absent where nobody has given one. */
export type FlagValues = Readonly<Record<string, unknown>>;

/** A trace with everything that its values need; with its peers where its estimator looks at them. */
export interface ValueJob extends EncodedTrace, RewardedTrace, GroupMean, ScoredReferences, Partial<Peers> {
  readonly pieces: Pieces;
  readonly references: readonly Reference[];
}

/** The rest of a command line, as far as an estimator's flags depend on it. */
export interface EstimatorCall {
  readonly segments: SegmentOptions;
  readonly inputs: readonly string[];
  readonly shard?: Shard | undefined;
  /** the inputs are one batch of `--stream`: others come before and behind it */
  readonly isBatch?: boolean;
}

/** What of a run an estimator is opened with. */
export interface LoadContext extends OpenPolicy {
  readonly choice: DeviceChoice;
  readonly marks: AnswerMarks;
  /** who answers in the place of the policy's graph */
  readonly engine: Engine | undefined;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** An estimator in one run: two functions of a trace, which do not know who answers. */
export interface OpenEstimator<A extends TraceQuestions = TraceQuestions> extends Partial<AsyncDisposable> {
  /** what the configuration says of its models */
  readonly config?: Config;
  /** what is scored of a trace's references; absent: as the policy's exit template and the estimator's facts have it */
  readonly referenceSetOf?: (references: readonly Reference[]) => Promise<ScoredReferences>;
  /** how many other traces of its group a trace is shown at most; absent: none */
  readonly peers?: number;
  /** absent: the reference set's continuations after every exit point. @throws TraceRejected */
  ask?(trace: ValueJob): A | Promise<A>;
  /** the answers with what their samples came to. @throws TraceRejected */
  judge?(trace: ValueJob, answers: Answers): Promise<Answers>;
  values(trace: ValueJob, answers: Answers, asked: A): TraceValues;
  /**
   * Where values follow from all traces: what each adds once it is answered, undefined for nothing; and what follows from all of it
   * before the first value is asked for: the facts of the values, and what the configuration says of them.
   */
  readonly whole?: {
    partOf(trace: ValueJob, answers: Answers): unknown;
    fit(parts: KeptAnswers['parts'], config: Config): Promise<{ nature: Nature; config: Config }>;
  };
  /** who reads a trace once more where that is asked for, and how its proof is told; without a model the policy; its distributions are compared with the policy's */
  readonly second?: {
    readonly model?: OpenModel | undefined;
    readonly engine?: Engine;
    readonly name: string;
    readonly isCompared?: true;
  };
}

/** An estimator as the flags ask for it. */
export interface EstimatorSetup {
  /** its facts in this run, where they are others than its own: a calibration that stands back */
  readonly nature?: Nature;
  /** codes for every trace */
  readonly status?: readonly string[];
  /** what the flags come to, in the configuration */
  readonly config?: Config;
  /** whether a row has to have references; absent where its facts say it: whether they are scored */
  readonly readsReferences?: boolean;
  /** the mean reward of a trace's peers is looked at */
  readonly readsMean?: true;
  /** traces are looked at together with others of their group, wherever these lie */
  readonly readsPeers?: true;
  /** what is to be said once all is known of how traces are scored @param policy its files' hashes */
  readonly warning?: (policy: Readonly<Record<string, string>>, config: Config) => string | undefined;
  open(context: LoadContext): Promise<OpenEstimator> | OpenEstimator;
}

/** What one pass of the policy says of a trace; T tokens, K thought segments, N references. */
export interface SeenTrace extends Pick<Answers, 'logprobs' | 'entropies' | 'branches'> {
  readonly trace: Trace;
  /** (K+1) exit points, in tokens of the completion */
  readonly exits: Int32Array;
  /** (K) ends of the thought segments, exclusive */
  readonly ends: Int32Array;
  /** (N) what each reference earns */
  readonly utilities: Float32Array;
}

/** An estimator. */
export interface Estimator extends Nature {
  /** what a value of it is, in the words of a dataset card */
  readonly card: string;
  /** flags of `score` */
  readonly flags?: readonly Flag[];
  /** flags of `score` and `redistribute`: how values are made of what is scored */
  readonly creditFlags?: readonly Flag[];
  /** its facts as `creditFlags` make them. @throws RredcotError (exit 2) */
  readonly withFlags?: (values: FlagValues) => Nature;
  /** its facts as a configuration has them; undefined where that has not all of them */
  readonly stored?: (config: Config) => Nature | undefined;
  /** (K+1) values of a trace, for those that ask for nothing but the policy's one pass. @throws TraceRejected */
  readonly of?: (seen: SeenTrace, values: FlagValues) => ArrayLike<number>;
  /** checks its flags, for those that ask for more; without this and `of` values follow from the references alone. @throws RredcotError (exit 2) */
  readonly setUp?: (
    values: FlagValues,
    call: EstimatorCall,
    nature: Nature,
  ) => Promise<EstimatorSetup> | EstimatorSetup;
  /** keys of a configuration that go with it, beside those of its flags */
  readonly configKeys?: readonly string[];
  /**
   * columns that come with its values, where these alone do not tell all; lists of numbers have one for each exit, or for each token
   * @param config of the file
   */
  readonly columns?: (config: Config) => readonly OutputColumn[];
}

/** All its flags, whatever they decide. */
export const allFlagsOf = ({ creditFlags = [], flags = [] }: Estimator) => [...creditFlags, ...flags];
