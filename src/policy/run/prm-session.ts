// A process reward model as the main thread sees it: the probability that a step is right, computed by a worker thread.
import { EXIT, OutOfMemoryError, RredcotError } from '../../errors.js';
import type { CanaryRecord } from '../../io/run/records.js';
import { startThread, type Thread } from '../../thread.js';
import type { Precision } from '../build/precision.js';
import { type Device, deviceName, sessionHint } from '../device.js';
import { PRM_GRAPH, type PrmFolder } from '../prm-folder.js';
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
import { type PrmCanary, provePrm } from './prm-canary.js';
import type { PrmInit, PrmThread, ReadSteps } from './prm-thread.js';
import './no-telemetry.js';

export type { ReadSteps } from './prm-thread.js';

/** What reading steps asks of a model. */
export type PrmReads = Pick<PrmSession, 'read' | 'device'>;

/** CUDA runs the half-precision graph, every other device the float32 one. */
export function prmGraphFor({ cuda }: PrmFolder, device: Device): { graph: string; precision: Precision } {
  return device.name === 'cuda' ? cuda : { graph: PRM_GRAPH, precision: 'f32' };
}

/** A running model. */
export class PrmSession {
  private constructor(
    private readonly thread: Thread<PrmThread>,
    private readonly folder: PrmFolder,
    readonly device: Device,
  ) {}

  /** what its folder's canary has shown; undefined until then */
  proof: Proof | undefined;

  /** Loads a model's graph into a worker thread, and lets it prove itself. @throws RredcotError as `PolicySession.open` */
  static async open(folder: PrmFolder, device: Device = { name: 'cpu' }): Promise<PrmSession> {
    if (folder.canary === undefined) throw noCanary(folder.path); // before its weights are read
    const session = await PrmSession.openUnproved(folder, device);
    try {
      const wrong = beyond((await session.prove()).findings);
      if (wrong.length > 0) throw disproved(folder.path, 'the reward model', device, wrong);
      return session;
    } catch (error) {
      await session.close();
      throw error;
    }
  }

  /** The same, whatever it computes. */
  static async openUnproved(folder: PrmFolder, device: Device = { name: 'cpu' }): Promise<PrmSession> {
    const { path, architecture } = folder;
    const { graph } = prmGraphFor(folder, device);
    const workerData: PrmInit = { folder: path, graph, architecture, device };
    const file = new URL('./prm-thread.js', import.meta.url);
    const thread = startThread<PrmThread>('the reward model', file, { workerData });
    try {
      await thread.call('open', [0]);
      return new PrmSession(thread, folder, device);
    } catch (cause) {
      await thread.finish();
      throw new RredcotError(
        `${path}: ONNX Runtime cannot load the reward model on ${deviceName(device)}: ${(cause as Error).message}`,
        {
          exitCode: EXIT.device,
          hint: sessionHint(device) ?? 'build the folder again with: rredcot policy build',
          cause,
        },
      );
    }
  }

  /** As `PolicySession.prove`. */
  async prove(mostMs = this.device.name === 'cpu' ? MOST_MS : Number.POSITIVE_INFINITY): Promise<Proof> {
    const { folder, device } = this;
    const canary = await readCanary<PrmCanary>(folder);
    const { precision } = prmGraphFor(folder, device);
    const attempt = async (attentionOnCpu: boolean): Promise<Proof> => ({
      ...(await provePrm(this, canary, { precision, mostMs })),
      attentionOnCpu,
    });
    try {
      this.proof = await attempt(false);
      if (device.name !== 'webgpu' || beyond(this.proof.findings).length === 0) return this.proof;
      await this.thread.call('open', [folder.architecture.layers]);
      this.proof = await attempt(true);
      return this.proof;
    } catch (cause) {
      throw unproved(folder.path, 'the reward model', device, cause as Error);
    }
  }

  /** For the record of a chunk. */
  proofRecord(model: string): CanaryRecord | undefined {
    const { precision } = prmGraphFor(this.folder, this.device);
    return this.proof && proofRecord(model, this.device, precision, this.proof);
  }

  /**
   * One run.
   * @param sequences (B), each with a row to read out at least
   * @returns (B) P(right) at each of its rows
   * @throws OutOfMemoryError
   */
  async read(sequences: readonly ReadSteps[]): Promise<Float32Array[]> {
    for (const { ids, rows } of sequences)
      if (rows.length === 0 || rows.some((row) => row < 0 || row >= ids.length))
        throw new RangeError(`rows ${rows.join(', ')} of a sequence of ${ids.length} tokens`);
    const sent = sequences.map(({ ids, rows }) => ({ ids, rows }));
    const found = await this.thread.call('read', [sent]).catch((error: Error) => {
      throw error.name === OutOfMemoryError.name ? new OutOfMemoryError(error.message) : error;
    });
    let at = 0;
    return sequences.map(({ rows }) => {
      at += rows.length;
      return found.subarray(at - rows.length, at);
    });
  }

  /** Ends the thread after the run under way. */
  close(): Promise<void> {
    return this.thread.finish();
  }
}
