// The thread that owns a process reward model's ONNX session.
import { workerData } from 'node:worker_threads';
import type { InferenceSession } from 'onnxruntime-node';
import { moved, serve } from '../../thread.js';
import type { Architecture } from '../build/architecture.js';
import type { Device } from '../device.js';
import { failedRun, floats, growingRope, int64, openGraph, ropeFeeds } from './onnx-session.js';

export interface PrmInit {
  readonly folder: string;
  readonly graph: string;
  readonly architecture: Architecture;
  readonly device: Device;
}

/** A sequence, and the rows of it that are read out. */
export interface ReadSteps {
  /** (T) */
  readonly ids: Int32Array;
  readonly rows: Int32Array;
}

const { folder, graph, architecture: arch, device } = workerData as PrmInit;
let session: InferenceSession;
const ropeFor = growingRope(arch);

/** @param attentionOnCpu as `Placed` says: a number of layers, all of them or none */
async function open(attentionOnCpu: number): Promise<void> {
  const tiny = async (made: InferenceSession): Promise<void> => {
    session = made;
    await shares([{ ids: Int32Array.of(0, 0), rows: Int32Array.of(1) }]);
  };
  session = await openGraph(folder, graph, device, tiny, { attentionOnCpu });
}

/** P(right) of all rows, one sequence after the other. */
async function read(sequences: readonly ReadSteps[]): Promise<Float32Array> {
  const found = await shares(sequences).catch((error: unknown) => failedRun("the reward model's run", error));
  return moved(found, found);
}

const functions = { open, read };
export type PrmThread = typeof functions;
serve(functions);

async function shares(sequences: readonly ReadSteps[]): Promise<Float32Array> {
  // padded at their ends to the longest: causal rows before it never see that
  const S = sequences.reduce((most, { ids }) => Math.max(most, ids.length), 1);
  const ids = new BigInt64Array(sequences.length * S);
  const rows: bigint[] = [];
  for (const [b, sequence] of sequences.entries()) {
    for (const [t, id] of sequence.ids.entries()) ids[b * S + t] = BigInt(id);
    for (const row of sequence.rows) rows.push(BigInt(b * S + row));
  }
  const feeds = {
    ids: int64(ids, [sequences.length, S]),
    rows: int64(BigInt64Array.from(rows), [rows.length]),
    ...ropeFeeds(ropeFor(S), arch.headDim),
  };
  const out = await session.run(feeds, ['correct']);
  return floats(out.correct, rows.length);
}
