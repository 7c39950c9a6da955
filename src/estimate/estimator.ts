// What the program has to know of an estimator. An estimator's file declares all of it, and nothing outside knows its name.

import type { Flag } from '../flag-values.js';
import type { OutputColumn } from '../io/arrow/output-columns.js';
import type { Config } from '../io/write/output.js';
import type { Proved } from '../model/onnx/canary.js';
import type { Device, DeviceChoice } from '../model/onnx/device.js';
import type { ExitTemplate, PolicyFolder } from '../model/onnx/folder.js';
import type { OpenModel, OpenPolicy } from '../model/onnx/open-model.js';
import type { ModelSession } from '../model/onnx/session.js';
import type { EncodedTrace } from '../model/text/encode.js';
import type { Log } from '../report/log.js';
import type { TokenMeter } from '../report/progress.js';
import type { BadRow } from '../rows.js';
import type { SegmentOptions } from '../segment/segment.js';
import type { Reference, Trace } from '../trace.js';
import type { ReadyTrace } from './credit.js';
import type { WholeInput } from './far-mates.js';
import type { Nature } from './nature.js';
import type { ScoredBank } from './references.js';
import type { AnswerMarks } from './reward.js';
import type { PassJob, ScoredJob, Valued, Window } from './windows.js';

/** Raw values of flags, by their names in camel case; absent where nobody has given one. */
export type FlagValues = Readonly<Record<string, unknown>>;

/** A trace as its values are asked for. */
export interface ValueJob extends PassJob, ReadyTrace {
  readonly references: readonly Reference[];
}

/** Values of traces, in their order; what was set aside passes by in its place. */
export type ValuesOf = <T extends ValueJob>(
  scored: AsyncIterable<ScoredJob<T> | BadRow>,
) => AsyncGenerator<Valued<T> | BadRow>;

/** The rest of a command line, as far as an estimator's flags depend on it. */
export interface EstimatorCall {
  readonly segments: SegmentOptions;
  readonly inputs: readonly string[];
}

/** What of a run an estimator is opened with. */
export interface Scene extends OpenPolicy {
  readonly choice: DeviceChoice;
  readonly marks: AnswerMarks;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** What its values are made with. */
export interface Stage {
  /** the policy's, which has proved itself */
  readonly session: ModelSession;
  /** the window of an input row: traces of different ones never share a run */
  readonly window: (ordinal: number) => number;
  /** another model's session has proved itself */
  readonly note: (session: Proved, model: string) => void;
  /** the inputs, for what has to look beyond a window */
  readonly whole: WholeInput;
}

/** An estimator in one run, its models' sessions open. */
export interface Started extends Partial<AsyncDisposable> {
  readonly values: ValuesOf;
  /** gives each window's traces what they need of each other */
  readonly together?: <T extends ValueJob>(windows: AsyncIterable<Window<T>>) => AsyncIterable<Window<T>>;
}

/** An estimator in one run, before anything is computed. */
export interface Opened extends Partial<AsyncDisposable> {
  /** what the configuration says of its models */
  readonly config?: Config;
  /** folders of models that have to stay what they are */
  readonly beside?: readonly Pick<PolicyFolder, 'path' | 'files'>[];
  /** what its references are scored by, where it is not the policy */
  readonly scorer?: {
    readonly exitTemplate: ExitTemplate;
    encode(text: string): Int32Array | Promise<Int32Array>;
  };
  /** what is scored of every trace, where that is no reference of its own */
  readonly question?: { readonly exitTemplate: ExitTemplate; readonly bank: ScoredBank };
  /** how another model reads a trace. @throws TraceRejected for what it cannot read */
  readonly prepare?: (read: Readable) => Promise<PassJob['again']> | PassJob['again'];
  /** opens the policy; where absent a session that reads */
  readonly openSession?: (policy: PolicyFolder, device: Device) => Promise<ModelSession>;
  /** counts tokens as they are written */
  readonly meter?: TokenMeter;
  /** values, where they need nothing that is started for them */
  readonly values?: ValuesOf;
  start(stage: Stage): Promise<Started> | Started;
}

/** What of a trace another model reads. */
export interface Readable {
  readonly given: Trace;
  readonly tokens: EncodedTrace;
  readonly references: readonly Reference[];
  /** (N) what is scored after every exit point */
  readonly continuations: PassJob['continuations'];
}

/** An estimator as the flags ask for it. */
export interface AskedValues {
  /** its facts in this run, where they are others than its own: a calibration that stands back */
  readonly nature?: Nature;
  /** codes for every trace */
  readonly status?: readonly string[];
  /** what the flags come to, in the configuration */
  readonly config?: Config;
  /** the row's references are read, though none is scored */
  readonly readsReferences?: boolean;
  /** traces are looked at together with others of their group, wherever these lie */
  readonly readsMates?: true;
  /** what is to be said once all is known of how traces are scored */
  readonly doubt?: (own: {
    readonly policy: Readonly<Record<string, string>>;
    readonly config: Config;
  }) => string | undefined;
  open(scene: Scene): Promise<Opened> | Opened;
}

/** What one pass of the policy says of a trace; T tokens, K thought segments, N references. */
export interface SeenTrace {
  readonly trace: Trace;
  /** (T) log-probabilities and entropies of the completion's tokens, nats */
  readonly logprobs: Float32Array;
  readonly entropies: Float32Array;
  /** (K+1) exit points, in tokens of the completion */
  readonly exits: Int32Array;
  /** (K) ends of the thought segments, exclusive */
  readonly ends: Int32Array;
  /** (K+1) of (N) log-probabilities of each reference's scored tokens after each exit, nats */
  readonly branches: readonly (readonly Float32Array[])[];
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
  readonly ask?: (
    values: FlagValues,
    call: EstimatorCall,
    nature: Nature,
  ) => Promise<AskedValues> | AskedValues;
  /** keys of a configuration that go with it */
  readonly configKeys?: readonly string[];
  /**
   * columns that come with its values, where these alone do not tell all; lists of numbers have one for each exit, or for each token
   * @param config of the file
   */
  readonly columns?: (config: Config) => readonly OutputColumn[];
}

/**
 * What a model beside the policy adds to an opened estimator: it has to stay what it is, proves itself, and is closed at the end.
 * @param name that its proof is told by
 * @param valuesBy values by a pass of it over traces that the policy has cut
 */
export function secondModel(
  model: OpenModel,
  name: string,
  valuesBy: (pass: Pick<Stage, 'session' | 'window'>) => ValuesOf,
): Pick<Opened, 'beside' | 'start'> & AsyncDisposable {
  const { policy, device } = model;
  return {
    beside: [policy],
    async start({ window, note }) {
      const { ModelSession } = await import('../model/onnx/session.js');
      const session = await ModelSession.open(policy, device);
      note(session, name);
      return {
        values: valuesBy({ session, window }),
        [Symbol.asyncDispose]: () => session.close(),
      };
    },
    [Symbol.asyncDispose]: () => model[Symbol.asyncDispose](),
  };
}
