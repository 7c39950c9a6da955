// The policy as the main thread sees it: scores of traces and of branches from them, computed by a worker thread.
import { EXIT, OutOfMemoryError, RredcotError } from '../../errors.js';
import type { CanaryRecord } from '../../io/run/records.js';
import { startThread, type Thread } from '../../thread.js';
import { type Device, deviceName, noCudaGraph, sessionHint } from '../device.js';
import { type AttributionGraphs, GRAPH, noGraph, type PolicyFolder } from '../folder.js';
import type { Sequence } from './attribution-run.js';
import {
  beyond,
  disproved,
  MOST_MS,
  noCanary,
  type Proof,
  proofRecord,
  readCanary,
  unproved,
} from './canary.js';
import type { Advance, DecodeJob } from './decoding-run.js';
import type { Branch, PackedTrace } from './pack.js';
import { type PolicyCanary, provePolicy } from './policy-canary.js';
import type { RunJob, SessionThread, WorkerInit } from './session-thread.js';
import './no-telemetry.js';

/** What the policy says of one trace of a run; every token is predicted from everything before it. */
export interface TraceScores {
  /** (T) entropy of the predicting distribution, nats, full vocabulary; T = 0 where only branches were run */
  readonly entropies: Float32Array;
  /** (T) log-probability of the token itself, nats */
  readonly logprobs: Float32Array;
  /** log-probabilities of every branch's scored tokens, nats */
  readonly branches: readonly Float32Array[];
}

/** What scoring asks of a policy; without a device it is taken to run on the CPU, without a vocabulary entropies have no bound. */
export type PolicyRuns = Pick<PolicySession, 'run' | 'branches' | 'release'> &
  Partial<Pick<PolicySession, 'device' | 'vocab'>>;

/** A running policy. */
export class PolicySession {
  private constructor(
    private readonly thread: Thread<SessionThread>,
    private readonly folder: PolicyFolder,
    readonly device: Device,
    /** tokens of the vocabulary */
    readonly vocab: number,
  ) {}

  /** what its folder's canary has shown; undefined until then */
  proof: Proof | undefined;

  /**
   * Loads a policy's graph into a worker thread, and lets it prove itself by the folder's canary.
   * @throws RredcotError (exit 69) where ONNX Runtime cannot load it, or would run its heavy nodes beside the device, or where
   * its numbers are not those of the canary; (exit 2) for a folder without one
   */
  static async open(folder: PolicyFolder, device: Device = { name: 'cpu' }): Promise<PolicySession> {
    graphFor(folder, device);
    if (folder.canary === undefined) throw noCanary(folder.path); // before its weights are read
    const session = await PolicySession.openUnproved(folder, device);
    try {
      const wrong = beyond((await session.prove()).findings);
      if (wrong.length > 0) throw disproved(folder.path, 'the policy', device, wrong);
      return session;
    } catch (error) {
      await session.close();
      throw error;
    }
  }

  /** The same, whatever it computes: for whoever makes the canary, and for those who look at it themselves. */
  static async openUnproved(folder: PolicyFolder, device: Device = { name: 'cpu' }): Promise<PolicySession> {
    const { path, architecture } = folder;
    const init: WorkerInit = { folder: path, ...graphFor(folder, device), architecture, device };
    const thread = startThread<SessionThread>('the policy', new URL('./session-thread.js', import.meta.url), {
      workerData: init,
    });
    try {
      await thread.call('open', [0]);
      return new PolicySession(thread, folder, device, architecture.vocab);
    } catch (cause) {
      await thread.finish();
      throw cannotLoad(folder.path, device, cause as Error);
    }
  }

  /**
   * Holds it against its folder's canary. Where WebGPU's own attention is wrong, as it is on adapters whose subgroups are
   * small, attention goes to the CPU.
   * @param mostMs what it may take beyond its first pass, as that forecasts it; what takes longer is left out
   * @throws RredcotError (exit 69) where it cannot even run it, (exit 2) as {@link open}
   */
  async prove(mostMs = this.device.name === 'cpu' ? MOST_MS : Number.POSITIVE_INFINITY): Promise<Proof> {
    const { folder, device } = this;
    const canary = await readCanary<PolicyCanary>(folder);
    const { precision } = graphFor(folder, device);
    const attempt = async (attentionOnCpu: boolean): Promise<Proof> => ({
      ...(await provePolicy(this, canary, { precision, mostMs })),
      attentionOnCpu,
    });
    try {
      this.proof = await attempt(false);
      if (device.name !== 'webgpu' || beyond(this.proof.findings).length === 0) return this.proof;
      await this.thread.call('open', [folder.architecture.layers]);
      this.proof = await attempt(true);
      return this.proof;
    } catch (cause) {
      throw unproved(folder.path, 'the policy', device, cause as Error);
    }
  }

  /** For the record of a chunk. @param model whose session it is */
  proofRecord(model: string): CanaryRecord | undefined {
    const { precision } = graphFor(this.folder, this.device);
    return this.proof && proofRecord(model, this.device, precision, this.proof);
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
    const packed = traces.map(({ ids, promptLength, branches, shares }) => ({
      ids,
      promptLength,
      branches,
      shares,
    }));
    return this.send(
      { traces: packed, ...(keep === undefined ? {} : { cache: { id: keep, mode: 'keep' } }) },
      packed,
    );
  }

  /**
   * Scores branches of the traces of an earlier run.
   * @param kept the number it was kept under
   * @param branches (B) of each trace
   */
  branches(kept: number, branches: readonly (readonly Branch[])[]): Promise<TraceScores[]> {
    const traces = branches.map((own) => ({ ids: new Int32Array(0), promptLength: 0, branches: own }));
    return this.send({ traces, cache: { id: kept, mode: 'use' } }, traces);
  }

  /**
   * Opens the graph that writes, for {@link beginRows} and its like.
   * @throws RredcotError (exit 2) where the folder has none, (exit 69) as {@link open}
   */
  async openDecoder(): Promise<void> {
    const { path, decoding } = this.folder;
    if (decoding === undefined) throw noGraph(path, 'writes');
    await this.thread.call('openDecoder', []).catch((cause: Error) => {
      throw cannotLoad(path, this.device, cause);
    });
  }

  /**
   * Opens a graph that attributes, for {@link attribute}.
   * @throws RredcotError (exit 2) where the folder has none, (exit 69) as {@link open}
   */
  async openAttribution(kind: keyof AttributionGraphs): Promise<void> {
    const { path, attribution } = this.folder;
    if (attribution === undefined) throw noGraph(path, 'attributes');
    await this.thread.call('openAttribution', [attribution[kind]]).catch((cause: Error) => {
      throw cannotLoad(path, this.device, cause);
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

  /** Frees what a run has kept. */
  async release(kept: number): Promise<void> {
    await this.thread.call('release', [kept]);
  }

  /**
   * Ends the thread after the run under way; what was queued behind it fails. It is asked to end: a thread that is
   * terminated inside ONNX Runtime takes the process along.
   */
  close(): Promise<void> {
    return this.thread.finish();
  }

  private call<Name extends keyof SessionThread>(
    name: Name,
    args: Parameters<SessionThread[Name]>,
  ): Promise<Awaited<ReturnType<SessionThread[Name]>>> {
    return this.thread.call(name, args).catch((error: Error) => {
      throw error.name === OutOfMemoryError.name ? new OutOfMemoryError(error.message) : error;
    });
  }

  private async send(job: RunJob, traces: readonly PackedTrace[]): Promise<TraceScores[]> {
    const { entropies, logprobs } = await this.call('run', [job]);
    // the traces' own tokens come first, then the branches': unpack in the same order
    let own = 0;
    let branch = traces.reduce((sum, { ids, promptLength }) => sum + ids.length - promptLength, 0);
    return traces.map(({ ids, promptLength, branches }) => {
      const T = ids.length - promptLength;
      const scores = {
        entropies: entropies.subarray(own, own + T),
        logprobs: logprobs.subarray(own, own + T),
      };
      own += T;
      const perBranch = branches.map(({ ids: continuation, scoredFrom }) => {
        const span = logprobs.subarray(branch, branch + continuation.length - scoredFrom);
        branch += span.length;
        return span;
      });
      return { ...scores, branches: perBranch };
    });
  }
}

function cannotLoad(path: string, device: Device, cause: Error): RredcotError {
  return new RredcotError(
    `${path}: ONNX Runtime cannot load the policy on ${deviceName(device)}: ${cause.message}`,
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
  { path, cuda, decoding }: PolicyFolder,
  device: Device,
): Pick<WorkerInit, 'graph' | 'decodingGraph' | 'precision'> {
  if (device.name !== 'cuda')
    return { graph: GRAPH, precision: 'f32', ...(decoding && { decodingGraph: decoding.graph }) };
  if (cuda === undefined) throw noCudaGraph(path);
  return { ...cuda, ...(decoding && { decodingGraph: decoding.cudaGraph }) };
}
