// Rows that write, in the thread of a policy's session: the graph that writes, and which rows are at work on the traces that a run has kept.
import type { InferenceSession } from 'onnxruntime-node';
import type { Architecture } from '../graph/architecture.js';
import type { Device } from '../onnx/device.js';
import { type Kept, openGraph, type RopeFor } from '../onnx/onnx-session.js';
import type { RunJob } from '../onnx/placed.js';
import { DecodingRun } from './decoding-run.js';
import type { Advance, DecodeJob } from './sampling.js';

/** What of the thread it needs. */
interface InThread {
  readonly folder: string;
  readonly device: Device;
  readonly architecture: Architecture;
  readonly caches: Map<number, Kept>;
  readonly ropeFor: RopeFor;
  readonly scores: (job: RunJob) => Promise<unknown>;
  readonly failed: (error: unknown) => never;
}

const ONE = Int32Array.of(0);
const TINY = { id: -1, mode: 'keep' } as const;

/** The functions that `ModelSession.decode` calls by name. */
export type DecodingRows = ReturnType<typeof decodingRows>;

export function decodingRows({ folder, device, architecture, caches, ropeFor, scores, failed }: InThread) {
  let decoder: InferenceSession;
  const writing = new Map<number, DecodingRun>();
  const functions = {
    async open(file: string): Promise<void> {
      decoder = await openGraph(folder, file, device, async (made) => {
        decoder = made;
        await scores({ traces: [{ ids: ONE, promptLength: 1, branches: [] }], cache: TINY });
        const row = { trace: 0, exit: 1, token: 0, key: [0, 0], most: 2 } as const;
        functions.begin(TINY.id, { kept: TINY.id, rows: [row], temperature: 1, topP: 1, stops: [] });
        await functions.advance(TINY.id);
        caches.delete(TINY.id);
        functions.end(TINY.id);
      });
    },
    /** Puts rows on trunks that a run has kept. @param id by which they are called from now on */
    begin(id: number, job: DecodeJob): void {
      const kept = caches.get(job.kept);
      if (kept === undefined) throw new Error(`no run was kept as ${job.kept}`);
      writing.set(id, new DecodingRun(architecture, job, kept.trunks, device.name !== 'cpu'));
    },
    /** Lets rows write their next tokens. */
    async advance(id: number): Promise<Advance> {
      const rows = writing.get(id);
      if (rows === undefined) throw new Error(`no rows are at work as ${id}`);
      return rows.advance(decoder, ropeFor).catch(failed);
    },
    end: (id: number): void => void writing.delete(id),
  };
  return functions;
}
