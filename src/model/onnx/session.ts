// A policy as the main thread sees it, its graphs run by a worker thread: scores of traces, and of branches from them.
import { deviceError, OutOfMemoryError, usageError } from '../../errors.js';
import { kept } from '../../kept.js';
import { REINSTALL } from '../../package-files.js';
import type { Answers, SampleRequest, TokenizedTrace } from '../../question.js';
import { startThread, type Thread } from '../../thread.js';
import type { Architecture } from '../graph/architecture.js';
import { type Precision, serialiseModel } from '../graph/onnx.js';
import { beyond, disproved, type Proof, prove, readCanary } from './canary.js';
import { type Device, deviceName, sessionHint } from './device.js';
import type { HeadRows } from './distributions.js';
import { buildAgain, GRAPH, MANIFEST, type PolicyFolder, stateNumbers, weightsIn } from './folder.js';
import { type Branch, type PackedTrace, type RunJob, scoresOf, type TraceScores } from './placed.js';
import type { SessionThread, WorkerInit } from './session-thread.js';

// ONNX Runtime's own binary sends telemetry by default, and leaves files in the temporary folder. It asks the process's environment
// when it is loaded: a thread's `process.env` is a copy of it, in which this would come to nothing.
process.env.ORT_DISABLE_TELEMETRY = '1';

/** What scoring asks of a policy; without a device it is taken to run on the CPU, without a vocabulary entropies have no bound. */
export type PolicyRuns = Pick<ModelSession, 'run' | 'branches' | 'release'> &
  Partial<Pick<ModelSession, 'device' | 'vocab'>> & {
    readonly folder?: Pick<PolicyFolder, 'path'> & { readonly architecture?: object };
    /** of an engine, to which traces are put one by one: so many at a time */
    readonly width?: number;
    /** of its answers, as `answerNoise` measures it; absent or 0: rounding of float32 */
    readonly noise?: number | undefined;
    /** of an engine: samples behind states of a trace, (requests) of (samples) */
    sample?(
      trace: TokenizedTrace,
      requests: readonly SampleRequest[],
    ): Promise<NonNullable<Answers['samples']>>;
  };

/** A policy's folder, of which the canary may not yet be there. */
export type Unproved = Pick<PolicyFolder, 'path' | 'architecture' | 'cuda' | 'stateLayers'> &
  Partial<Pick<PolicyFolder, 'canary'>>;

export class ModelSession implements AsyncDisposable {
  /** what the folder's canary has shown; undefined until then */
  proof: Proof | undefined;
  noise = 0;
  readonly vocab: number;
  readonly precision: Precision;

  private constructor(
    private readonly thread: Thread<SessionThread>,
    readonly folder: Unproved,
    readonly device: Device,
  ) {
    this.vocab = folder.architecture.vocab;
    this.precision = graphFor(folder, device).precision;
  }

  /**
   * Loads a policy's graph into a thread.
   * @param gives also the last layer's rows, and distributions behind such, of a policy or of a teacher; not of one that was exported
   * @throws RredcotError (exit 69) where it cannot be loaded or placed, or its numbers are not the canary's
   */
  static open(folder: PolicyFolder, device: Device = { name: 'cpu' }, gives?: 'own' | 'teacher') {
    return kept('policy', [folder, device, gives], async () => {
      const made = gives && (await graphsOf(folder, device, gives === 'teacher'));
      const session = await ModelSession.openUnproved(folder, device, made);
      try {
        const wrong = beyond((await session.prove()).findings);
        if (wrong.length > 0) throw disproved(folder.path, device, wrong);
        return session;
      } catch (error) {
        await session.close();
        throw error;
      }
    });
  }

  /** The same, whatever it computes: for whoever makes the canary, and for those who look at it themselves. */
  static async openUnproved(
    folder: Unproved,
    device: Device = { name: 'cpu' },
    made?: WorkerInit['made'],
  ): Promise<ModelSession> {
    const { path, architecture } = folder;
    const ofGraph = { ...graphFor(folder, device), made };
    const workerData: WorkerInit = { folder: path, ...ofGraph, architecture, device };
    const file = new URL('./session-thread.js', import.meta.url);
    const thread = startThread<SessionThread>('the policy', file, { workerData });
    try {
      await thread.call('open', []);
      return new ModelSession(thread, folder, device);
    } catch (cause) {
      await thread.finish();
      const found = `ONNX Runtime cannot load the policy on ${deviceName(device)}: ${(cause as Error).message}`;
      const again = `${buildAgain(path)}; reinstall with: ${REINSTALL}`;
      throw deviceError(`${path}: ${found}`, sessionHint(device) ?? again, cause);
    }
  }

  /** Compares it with its folder's canary. @throws RredcotError (exit 69) where it cannot even run it, (exit 2) for a file that is no canary */
  async prove(): Promise<Proof> {
    const { folder, device, precision } = this;
    const canary = await readCanary(folder as PolicyFolder);
    try {
      const isRouted = precision === 'f32' && 'mixture' in folder.architecture;
      this.proof = await prove(this, canary, isRouted ? 'routed' : precision);
      this.noise = this.proof.noise;
      return this.proof;
    } catch (cause) {
      throw disproved(folder.path, device, cause as Error);
    }
  }

  /**
   * One run: reads B traces once, and scores their branches, whose exit points must be known.
   * @param traces (B) promptLength ≥ 1 each
   * @param keep number under which keys and values are kept for {@link branches}
   * @throws OutOfMemoryError
   */
  async run(traces: readonly PackedTrace[], keep?: number): Promise<TraceScores[]> {
    for (const { ids, promptLength, branches } of traces) {
      if (promptLength < 1 || promptLength >= ids.length)
        throw new RangeError(`a trace of ${ids.length} tokens with a prompt of ${promptLength}`);
      const beyond = branches.find(({ exit }) => exit < 0 || exit > ids.length);
      if (beyond !== undefined)
        throw new RangeError(`an exit at ${beyond.exit} of a trace of ${ids.length} tokens`);
    }
    // the caller's objects may hold more, such as the input row: copying that to the thread takes time and may fail
    const packed = traces.map(({ ids, promptLength, branches, shares, states, last }) => {
      return { ids, promptLength, branches, shares, states, last };
    });
    return this.send({ traces: packed, keep });
  }

  /** Scores branches (B) of the traces of an earlier run. @param kept the number it was kept under */
  branches(kept: number, branches: readonly (readonly Branch[])[]): Promise<TraceScores[]> {
    const traces = branches.map((own) => ({ ids: new Int32Array(0), promptLength: 0, branches: own }));
    return this.send({ traces, use: kept });
  }

  /** Of a session that gives them. */
  distributions(rows: Float32Array, policy?: HeadRows['policy']): Promise<Record<string, Float32Array>> {
    const { hidden } = this.folder.architecture;
    return this.thread.call('distributions', [{ rows, hidden, ...(policy && { policy }) }]);
  }

  async release(kept: number): Promise<void> {
    await this.thread.call('release', [kept]);
  }

  /** Reads B traces and keeps their keys and values. */
  async keepPrefixes(keep: number, prefixes: readonly Omit<PackedTrace, 'branches'>[]): Promise<void> {
    const traces = prefixes.map(({ ids }) => ({ ids, promptLength: ids.length, branches: [] }));
    await this.send({ traces, keep });
  }

  /** The largest share that every expert has had in a row read out so far, [experts,layers with some]; empty where the graph tells none. */
  shares(): Promise<Float32Array> {
    return this.thread.call('shares', []);
  }

  /** Ends the thread after the run under way; what was queued fails. It is asked to end: terminated inside ONNX Runtime it takes the process along. */
  close(): Promise<void> {
    return this.thread.finish();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  private async send(job: RunJob): Promise<TraceScores[]> {
    const { entropies, logprobs, states, last } = await this.thread
      .call('run', [job])
      .catch((error: Error) => {
        throw error.name === OutOfMemoryError.name ? new OutOfMemoryError(error.message) : error;
      });
    const T = job.traces.reduce((sum, { ids, promptLength }) => sum + ids.length - promptLength, 0);
    const exits = job.traces.reduce((sum, { states: wanted = [] }) => sum + wanted.length, 0);
    if (states && states.length !== exits * stateNumbers(this.folder)) {
      const found = `${states.length} numbers of ${exits} hidden states, its ${MANIFEST} has ${stateNumbers(this.folder)} of each`;
      throw usageError(`${this.folder.path}: its graph gives ${found}`, buildAgain(this.folder.path));
    }
    // the traces' own tokens come first, then the branches'
    const next = { entropies: taker(entropies), logprobs: taker(logprobs), scores: taker(logprobs, T) };
    const [ofExits, ofRows] = [states && taker(states), last && taker(last)];
    return job.traces.map(({ ids, promptLength, branches, states: wanted = [] }) => {
      const length = ids.length - promptLength;
      return {
        entropies: next.entropies(length),
        logprobs: next.logprobs(length),
        branches: branches.map((each) => next.scores(scoresOf(each))),
        ...(ofExits && { states: ofExits(wanted.length * stateNumbers(this.folder)) }),
        ...(ofRows && { last: ofRows(length * this.folder.architecture.hidden) }),
      };
    });
  }
}

/** Takes one part behind the other. */
function taker<T extends Float32Array | Uint16Array>(all: T, from = 0): (length: number) => T {
  let done = from;
  return (length) => {
    done += length;
    return all.subarray(done - length, done) as T;
  };
}

/** Graphs that no folder has, of its weights: that which gives the last layer's rows, and its head alone. */
async function graphsOf(folder: PolicyFolder, device: Device, isTeacher: boolean) {
  const { buildScoringGraph } = await import('../graph/scoring-graph.js');
  const { buildHeadGraph } = await import('../graph/head.js');
  const [weights, { precision }] = [await weightsIn(folder), graphFor(folder, device)];
  const architecture = folder.architecture as Architecture;
  const graph = buildScoringGraph(architecture, weights, precision, true);
  const head = buildHeadGraph(architecture, weights, precision, isTeacher);
  return [serialiseModel(graph), serialiseModel(head)] as const;
}

/** CUDA runs the half-precision graph, the CPU the float32 one. */
export function graphFor({ path, cuda }: Pick<PolicyFolder, 'path' | 'cuda'>, device: Device) {
  if (device.name !== 'cuda') return { graph: GRAPH, precision: 'f32' } as const;
  if (cuda !== undefined) return cuda;
  throw usageError(`${path}: its graph was exported, and runs on the CPU alone`, '--device cpu');
}
