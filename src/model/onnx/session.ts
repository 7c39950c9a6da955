// A model as the main thread sees it, its graphs run by a worker thread. The head that its folder declares says what it can be
// asked: scores of traces and of branches from them, or how likely it is that steps are right.
import { EXIT, OutOfMemoryError, RredcotError } from '../../errors.js';
import { startThread, type Thread } from '../../thread.js';
import type { Advance, DecodeJob } from '../decode/sampling.js';
import type { Precision } from '../graph/precision.js';
import { beyond, disproved, MOST_MS, noCanary, type Proof, readCanary, unproved } from './canary.js';
import { headOf, prove } from './canary-passes.js';
import { type Device, deviceName, noCudaGraph, sessionHint } from './device.js';
import { type AttributionGraphs, GRAPH, type ModelFolder, noGraph, PRM_GRAPH, whatOf } from './folder.js';
import {
  type Branch,
  type PackedTrace,
  type ReadSteps,
  type Sequence,
  scoresOf,
  type TraceScores,
} from './placed.js';
import type { RunJob, SessionThread, WorkerInit } from './session-thread.js';

export type { TraceScores } from './placed.js';

// ONNX Runtime's own binary sends telemetry by default, and leaves files in the temporary folder. It asks the process's environment
// when it is loaded: a thread's `process.env` is a copy of it, in which this would come to nothing.
process.env.ORT_DISABLE_TELEMETRY = '1';

/** What scoring asks of a policy; without a device it is taken to run on the CPU, without a vocabulary entropies have no bound. */
export type PolicyRuns = Pick<ModelSession, 'run' | 'branches' | 'release'> &
  Partial<Pick<ModelSession, 'device' | 'vocab'>>;

/** A running model. */
export class ModelSession implements AsyncDisposable {
  /** what the folder's canary has shown; undefined until then */
  proof: Proof | undefined;
  /** tokens of the vocabulary */
  readonly vocab: number;
  /** what its graph computes in */
  readonly precision: Precision;

  private constructor(
    private readonly thread: Thread<SessionThread>,
    private readonly folder: ModelFolder,
    readonly device: Device,
  ) {
    this.vocab = folder.architecture.vocab;
    this.precision = graphFor(folder, device).precision;
  }

  /**
   * Loads a model's graph into a worker thread, and lets it prove itself by the folder's canary.
   * @throws RredcotError (exit 69) where ONNX Runtime cannot load it, or would run its heavy nodes beside the device, or where
   * its numbers are not those of the canary; (exit 2) for a folder without one
   */
  static async open(folder: ModelFolder, device: Device = { name: 'cpu' }): Promise<ModelSession> {
    graphFor(folder, device);
    if (folder.canary === undefined) throw noCanary(folder.path); // before its weights are read
    const session = await ModelSession.openUnproved(folder, device);
    try {
      const wrong = beyond((await session.prove()).findings);
      if (wrong.length > 0) throw disproved(folder.path, whatOf(folder), device, wrong);
      return session;
    } catch (error) {
      await session.close();
      throw error;
    }
  }

  /** The same, whatever it computes: for whoever makes the canary, and for those who look at it themselves. */
  static async openUnproved(folder: ModelFolder, device: Device = { name: 'cpu' }): Promise<ModelSession> {
    const { path, architecture } = folder;
    const title = whatOf(folder);
    const judges = 'head' in folder;
    const graph = graphFor(folder, device);
    const workerData: WorkerInit = { title, folder: path, ...graph, architecture, judges, device };
    const file = new URL('./session-thread.js', import.meta.url);
    const thread = startThread<SessionThread>(title, file, { workerData });
    try {
      await thread.call('open', [0]);
      return new ModelSession(thread, folder, device);
    } catch (cause) {
      await thread.finish();
      throw cannotLoad(folder, device, cause as Error);
    }
  }

  /**
   * Holds it against its folder's canary. Where WebGPU's own attention is wrong, as it is on adapters whose subgroups are
   * small, attention goes to the CPU.
   * @param mostMs what it may take beyond its first pass, as that forecasts it; what takes longer is left out
   * @throws RredcotError (exit 69) where it cannot even run it, (exit 2) as {@link open}
   */
  async prove(mostMs = this.device.name === 'cpu' ? MOST_MS : Number.POSITIVE_INFINITY): Promise<Proof> {
    const { folder, device, precision } = this;
    const canary = await readCanary(folder);
    const attempt = async (attentionOnCpu: boolean): Promise<Proof> => {
      this.proof = { ...(await prove(headOf(folder), this, canary, { precision, mostMs })), attentionOnCpu };
      return this.proof;
    };
    try {
      const own = await attempt(false);
      if (device.name !== 'webgpu' || beyond(own.findings).length === 0) return own;
      await this.thread.call('open', [folder.architecture.layers]);
      return await attempt(true);
    } catch (cause) {
      throw unproved(folder.path, whatOf(folder), device, cause as Error);
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
    const packed = traces.map(({ ids, promptLength, branches, shares }) => {
      return { ids, promptLength, branches, shares };
    });
    const cache = keep === undefined ? {} : { cache: { id: keep, mode: 'keep' } as const };
    return this.send({ traces: packed, ...cache });
  }

  /**
   * Scores branches of the traces of an earlier run.
   * @param kept the number it was kept under
   * @param branches (B) of each trace
   */
  branches(kept: number, branches: readonly (readonly Branch[])[]): Promise<TraceScores[]> {
    const traces = branches.map((own) => ({ ids: new Int32Array(0), promptLength: 0, branches: own }));
    return this.send({ traces, cache: { id: kept, mode: 'use' } });
  }

  /** Frees what a run has kept. */
  async release(kept: number): Promise<void> {
    await this.thread.call('release', [kept]);
  }

  /**
   * One run of a model that judges.
   * @param sequences (B), each with a row to read out at least
   * @returns (B) P(right) at each of its rows
   * @throws OutOfMemoryError
   */
  async judge(sequences: readonly ReadSteps[]): Promise<Float32Array[]> {
    for (const { ids, rows } of sequences)
      if (rows.length === 0 || rows.some((row) => row < 0 || row >= ids.length))
        throw new RangeError(`rows ${rows.join(', ')} of a sequence of ${ids.length} tokens`);
    const found = await this.call('judge', [sequences.map(({ ids, rows }) => ({ ids, rows }))]);
    let at = 0;
    return sequences.map(({ rows }) => {
      at += rows.length;
      return found.subarray(at - rows.length, at);
    });
  }

  /**
   * Opens the graph that writes, for {@link beginRows} and its like.
   * @throws RredcotError (exit 2) where the folder has none, (exit 69) as {@link open}
   */
  async openDecoder(): Promise<void> {
    const decoding = 'decoding' in this.folder ? this.folder.decoding : undefined;
    if (decoding === undefined) throw noGraph(this.folder.path, 'writes');
    await this.thread.call('openDecoder', []).catch((cause: Error) => {
      throw cannotLoad(this.folder, this.device, cause);
    });
  }

  /**
   * Opens a graph that attributes, for {@link attribute}.
   * @throws RredcotError (exit 2) where the folder has none, (exit 69) as {@link open}
   */
  async openAttribution(kind: keyof AttributionGraphs): Promise<void> {
    const attribution = 'attribution' in this.folder ? this.folder.attribution : undefined;
    if (attribution === undefined) throw noGraph(this.folder.path, 'attributes');
    await this.thread.call('openAttribution', [attribution[kind]]).catch((cause: Error) => {
      throw cannotLoad(this.folder, this.device, cause);
    });
  }

  /** Reads one sequence by the graph that was opened. @returns (S) a number a token @throws OutOfMemoryError */
  attribute(sequence: Sequence): Promise<Float32Array> {
    return this.call('attribute', [sequence]);
  }

  /** Reads B traces and keeps their keys and values. @param ids (B) padded to a multiple of TRUNK_MULTIPLE */
  async keepTrunks(keep: number, ids: readonly Int32Array[]): Promise<void> {
    const traces = ids.map((own) => ({ ids: own, promptLength: own.length, branches: [] }));
    await this.call('run', [{ traces, cache: { id: keep, mode: 'keep' } }]);
  }

  /** Puts rows on kept traces. @param id by which they are called from now on */
  async beginRows(id: number, job: DecodeJob): Promise<void> {
    await this.call('beginRows', [id, job]);
  }

  /** Lets rows write their next tokens, a block of them. @throws OutOfMemoryError */
  advanceRows(id: number): Promise<Advance> {
    return this.call('advanceRows', [id]);
  }

  async endRows(id: number): Promise<void> {
    await this.thread.call('endRows', [id]);
  }

  /**
   * Ends the thread after the run under way; what was queued behind it fails. It is asked to end: a thread that is
   * terminated inside ONNX Runtime takes the process along.
   */
  close(): Promise<void> {
    return this.thread.finish();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  private call<Name extends keyof SessionThread>(
    name: Name,
    args: Parameters<SessionThread[Name]>,
  ): Promise<Awaited<ReturnType<SessionThread[Name]>>> {
    return this.thread.call(name, args).catch((error: Error) => {
      throw error.name === OutOfMemoryError.name ? new OutOfMemoryError(error.message) : error;
    });
  }

  private async send(job: RunJob): Promise<TraceScores[]> {
    const { entropies, logprobs } = await this.call('run', [job]);
    // the traces' own tokens come first, then the branches': unpack in the same order
    let own = 0;
    let branch = job.traces.reduce((sum, { ids, promptLength }) => sum + ids.length - promptLength, 0);
    return job.traces.map(({ ids, promptLength, branches }) => {
      const from = own;
      own += ids.length - promptLength;
      const perBranch = branches.map((own) => {
        const first = branch;
        branch += scoresOf(own);
        return logprobs.subarray(first, branch);
      });
      const span = [from, own] as const;
      return {
        entropies: entropies.subarray(...span),
        logprobs: logprobs.subarray(...span),
        branches: perBranch,
      };
    });
  }
}

function cannotLoad(folder: ModelFolder, device: Device, cause: Error): RredcotError {
  const what = whatOf(folder);
  return new RredcotError(
    `${folder.path}: ONNX Runtime cannot load ${what} on ${deviceName(device)}: ${cause.message}`,
    {
      exitCode: EXIT.device,
      hint:
        sessionHint(device) ??
        'build the folder again with: rredcot policy build; reinstall with: npm ci --onnxruntime-node-install=skip',
      cause,
    },
  );
}

/** CUDA runs the half-precision graphs, every other device the float32 ones. @throws RredcotError (exit 69) */
export function graphFor(
  folder: ModelFolder,
  device: Device,
): Pick<WorkerInit, 'graph' | 'decodingGraph' | 'precision'> {
  const decoding = 'decoding' in folder ? folder.decoding : undefined;
  if (device.name !== 'cuda')
    return {
      graph: 'head' in folder ? PRM_GRAPH : GRAPH,
      precision: 'f32',
      ...(decoding && { decodingGraph: decoding.graph }),
    };
  if (folder.cuda === undefined) throw noCudaGraph(folder.path);
  return { ...folder.cuda, ...(decoding && { decodingGraph: decoding.cudaGraph }) };
}
