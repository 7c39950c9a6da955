// The policy as the main thread sees it: trunk and branch scores of traces, computed by a worker thread.
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { EXIT, RredcotError } from '../errors.js';
import { type Device, deviceName, sessionHint } from './device.js';
import type { PolicyFolder } from './folder.js';
import type { Branch } from './pack.js';
import type { Job, JobMessage, JobReply, JobResult, WorkerInit } from './worker.js';

/** What the policy says of a completion of T tokens, each given everything before it. */
export interface TrunkScores {
  /** (T) entropy of the predicting distribution, nats, full vocabulary */
  readonly entropies: Float32Array;
  /** (T) log-probability of the token itself, nats */
  readonly logprobs: Float32Array;
}

interface Pending {
  readonly resolve: (result: JobResult) => void;
  readonly reject: (error: Error) => void;
}

/** A running policy. Traces are named by a number of the caller's choice until they are released. */
export class PolicySession {
  private readonly pending = new Map<number, Pending>();
  private seq = 1;
  private failure: Error | undefined;
  private ended = false;

  private constructor(private readonly worker: Worker) {
    worker.on('message', (reply: JobReply) => {
      const waiting = this.pending.get(reply.seq);
      this.pending.delete(reply.seq);
      if ('error' in reply) waiting?.reject(new Error(`the policy's run failed: ${reply.error}`));
      else waiting?.resolve(reply.result);
    });
    worker.on('error', (error) => this.fail(error));
    worker.on('exit', (code) => {
      this.ended = true;
      this.fail(new Error(`the policy's thread ended (code ${code})`));
    });
  }

  /**
   * Loads a policy's graphs into a worker thread.
   * @throws RredcotError (exit 69) where ONNX Runtime cannot load them, or would run their heavy nodes beside the device
   */
  static async open(folder: PolicyFolder, device: Device = { name: 'cpu' }): Promise<PolicySession> {
    const init: WorkerInit = { folder: folder.path, architecture: folder.architecture, device };
    const worker = new Worker(new URL('./worker.js', import.meta.url), { workerData: init });
    const session = new PolicySession(worker);
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

  /** Reads a whole trace once; tokens promptLength.. of `ids` are scored. Needs promptLength ≥ 1. */
  async trunk(trace: number, ids: Int32Array, promptLength: number): Promise<TrunkScores> {
    if (promptLength < 1 || promptLength >= ids.length)
      throw new RangeError(`trunk of ${ids.length} tokens with a prompt of ${promptLength}`);
    return (await this.send({ op: 'trunk', trace, ids, promptLength })) as TrunkScores;
  }

  /** Log-probabilities of every branch's scored tokens, one array a branch, nats. The trace's trunk must have run. */
  async branches(trace: number, branches: readonly Branch[]): Promise<Float32Array[]> {
    if (branches.length === 0) return [];
    const { logprobs } = await this.send({ op: 'branches', trace, branches });
    let from = 0;
    return branches.map(({ ids, scoredFrom }) => {
      const span = (logprobs as Float32Array).subarray(from, from + ids.length - scoredFrom);
      from += span.length;
      return span;
    });
  }

  /** Frees what the trunk kept for the trace's branches. */
  async release(trace: number): Promise<void> {
    await this.send({ op: 'release', trace });
  }

  /** Ends the thread after the run under way; what was queued behind it fails. */
  async close(): Promise<void> {
    if (this.ended) return;
    const exited = once(this.worker, 'exit');
    this.worker.postMessage({ op: 'close', seq: this.seq++ } satisfies JobMessage);
    this.fail(new Error('the policy is closed'));
    await exited;
  }

  private send(job: Job): Promise<JobResult> {
    if (this.failure !== undefined) return Promise.reject(this.failure);
    const seq = this.seq++;
    this.worker.postMessage({ ...job, seq } satisfies JobMessage);
    return this.reply(seq);
  }

  private reply(seq: number): Promise<JobResult> {
    return new Promise((resolve, reject) => this.pending.set(seq, { resolve, reject }));
  }

  private fail(error: Error): void {
    this.failure ??= error;
    for (const { reject } of this.pending.values()) reject(this.failure);
    this.pending.clear();
  }
}
