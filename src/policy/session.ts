// The policy as the main thread sees it: scores of traces and of branches from them, computed by a worker thread.
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { EXIT, OutOfMemoryError, RredcotError } from '../errors.js';
import { type Device, deviceName, noCudaGraph, sessionHint } from './device.js';
import { GRAPH, type PolicyFolder } from './folder.js';
import type { Branch, PackedTrace } from './pack.js';
import type { Job, JobMessage, JobReply, JobResult, WorkerInit } from './worker.js';

/** What the policy says of one trace of a run; every token is predicted from everything before it. */
export interface TraceScores {
  /** (T) entropy of the predicting distribution, nats, full vocabulary; T = 0 where only branches were run */
  readonly entropies: Float32Array;
  /** (T) log-probability of the token itself, nats */
  readonly logprobs: Float32Array;
  /** log-probabilities of every branch's scored tokens, nats */
  readonly branches: readonly Float32Array[];
}

/** What scoring asks of a policy; without a device it is taken to run on the CPU. */
export type PolicyRuns = Pick<PolicySession, 'run' | 'branches' | 'release'> &
  Partial<Pick<PolicySession, 'device'>>;

interface Pending {
  readonly resolve: (result: JobResult | undefined) => void;
  readonly reject: (error: Error) => void;
}

/** A running policy. */
export class PolicySession {
  private readonly pending = new Map<number, Pending>();
  private seq = 1;
  private failure: Error | undefined;
  private ended = false;

  private constructor(
    private readonly worker: Worker,
    readonly device: Device,
  ) {
    worker.on('message', (reply: JobReply) => {
      const waiting = this.pending.get(reply.seq);
      this.pending.delete(reply.seq);
      if (!('error' in reply)) return waiting?.resolve(reply.result);
      const Kind = reply.outOfMemory ? OutOfMemoryError : Error;
      waiting?.reject(new Kind(`the policy's run failed: ${reply.error}`));
    });
    worker.on('error', (error) => this.fail(error));
    worker.on('exit', (code) => {
      this.ended = true;
      this.fail(new Error(`the policy's thread ended (code ${code})`));
    });
  }

  /**
   * Loads a policy's graph into a worker thread.
   * @throws RredcotError (exit 69) where ONNX Runtime cannot load it, or would run its heavy nodes beside the device
   */
  static async open(folder: PolicyFolder, device: Device = { name: 'cpu' }): Promise<PolicySession> {
    const { path, architecture } = folder;
    const init: WorkerInit = { folder: path, ...graphFor(folder, device), architecture, device };
    const worker = new Worker(new URL('./worker.js', import.meta.url), { workerData: init });
    const session = new PolicySession(worker, device);
    try {
      await session.reply(0);
    } catch (cause) {
      throw new RredcotError(
        `${folder.path}: ONNX Runtime cannot load the policy on ${deviceName(device)}: ${(cause as Error).message}`,
        {
          exitCode: EXIT.device,
          hint:
            sessionHint(device) ??
            'build the folder again with: rredcot policy build; reinstall with: npm ci --onnxruntime-node-install=skip',
          cause,
        },
      );
    }
    return session;
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
    const packed = traces.map(({ ids, promptLength, branches }) => ({ ids, promptLength, branches }));
    return this.send(
      { op: 'run', traces: packed, ...(keep === undefined ? {} : { cache: { id: keep, mode: 'keep' } }) },
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
    return this.send({ op: 'run', traces, cache: { id: kept, mode: 'use' } }, traces);
  }

  /** Frees what a run has kept. */
  async release(kept: number): Promise<void> {
    await this.post({ op: 'release', cache: kept });
  }

  /** Ends the thread after the run under way; what was queued behind it fails. */
  async close(): Promise<void> {
    if (this.ended) return;
    const exited = once(this.worker, 'exit');
    this.worker.postMessage({ op: 'close', seq: this.seq++ } satisfies JobMessage);
    this.fail(new Error('the policy is closed'));
    await exited;
  }

  private async send(job: Job, traces: readonly PackedTrace[]): Promise<TraceScores[]> {
    const { entropies, logprobs } = (await this.post(job)) as JobResult;
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

  private post(job: Job): Promise<JobResult | undefined> {
    if (this.failure !== undefined) return Promise.reject(this.failure);
    const seq = this.seq++;
    this.worker.postMessage({ ...job, seq } satisfies JobMessage);
    return this.reply(seq);
  }

  private reply(seq: number): Promise<JobResult | undefined> {
    return new Promise((resolve, reject) => this.pending.set(seq, { resolve, reject }));
  }

  private fail(error: Error): void {
    this.failure ??= error;
    for (const { reject } of this.pending.values()) reject(this.failure);
    this.pending.clear();
  }
}

/** CUDA runs the half-precision graph, every other device the float32 one. @throws RredcotError (exit 69) */
export function graphFor(
  { path, cuda }: PolicyFolder,
  device: Device,
): Pick<WorkerInit, 'graph' | 'precision'> {
  if (device.name !== 'cuda') return { graph: GRAPH, precision: 'f32' };
  if (cuda === undefined) throw noCudaGraph(path);
  return cuda;
}
