// The thread that owns the ONNX sessions: `run()` blocks its event loop for a whole pass, so it must not be the main one.
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { parentPort, workerData } from 'node:worker_threads';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import type { Architecture } from './architecture.js';
import { type Device, deviceName } from './device.js';
import { BRANCH_GRAPH, TRUNK_GRAPH } from './folder.js';
import { type Branch, blockRows, headBlock, packBranches } from './pack.js';
import { placementCheck } from './placement.js';
import { type RopeTables, ropeTables } from './rope.js';

export interface WorkerInit {
  readonly folder: string;
  readonly architecture: Architecture;
  readonly device: Device;
}

/** One trace's trunk: the whole sequence, of which tokens promptLength.. are read out. Its keys and values stay here. */
export interface TrunkJob {
  readonly op: 'trunk';
  readonly trace: number;
  readonly ids: Int32Array;
  readonly promptLength: number;
}

/** Continuations of a trace whose trunk has run. */
export interface BranchJob {
  readonly op: 'branches';
  readonly trace: number;
  readonly branches: readonly Branch[];
}

/** Forgets a trace's keys and values. */
export interface ReleaseJob {
  readonly op: 'release';
  readonly trace: number;
}

/** Ends the thread once the run under way is over: a thread that is terminated inside ONNX Runtime takes the process along. */
export interface CloseJob {
  readonly op: 'close';
}

export type Job = TrunkJob | BranchJob | ReleaseJob | CloseJob;
export type JobMessage = Job & { readonly seq: number };

/** Per scored token: (T) for a trunk, all branches' spans one after the other for branches; nats. */
export interface JobResult {
  readonly entropies?: Float32Array;
  readonly logprobs?: Float32Array;
}
export type JobReply = { readonly seq: number } & (
  | { readonly result: JobResult }
  | { readonly error: string }
);

type Feeds = Record<string, Tensor>;

const port = parentPort;
if (port === null) throw new Error('policy/worker.js runs as a worker thread');
const { folder, architecture: arch, device } = workerData as WorkerInit;

const options: InferenceSession.SessionOptions = {
  executionProviders: [device],
  graphOptimizationLevel: 'all',
  intraOpNumThreads: availableParallelism(),
  // idle threads that spin take the cores from whatever runs beside: measured seven times slower on a busy machine
  extra: { session: { intra_op: { allow_spinning: '0' } } },
  // warnings about unused initialisers and the like are nobody's business on stderr
  logSeverityLevel: 3,
};
const placement = device.name === 'cuda' ? placementCheck(deviceName(device)) : undefined;
const open = (graph: string) =>
  InferenceSession.create(join(folder, graph), { ...options, ...placement?.options(graph) });
const trunkSession = await open(TRUNK_GRAPH);
const branchSession = await open(BRANCH_GRAPH);
/** keys and values [1,kvHeads,S,headDim] of every layer, by trace */
const caches = new Map<number, Feeds>();
let rope: RopeTables = ropeTables(arch, 1024);
await placement?.verify([trunkSession, branchSession], async () => {
  const ids = Int32Array.of(0, 0);
  await runTrunk({ op: 'trunk', trace: -1, ids, promptLength: 1 });
  await runBranches({ op: 'branches', trace: -1, branches: [{ exit: 1, ids, scoredFrom: 1 }] });
  caches.delete(-1);
});

let queue = Promise.resolve();
let closing = false;
port.on('message', (message: JobMessage) => {
  if (message.op === 'close') closing = true;
  queue = queue.then(() => answer(message));
});
port.postMessage({ seq: 0, result: {} } satisfies JobReply);

/** Runs one job and replies; jobs that were queued before a close are dropped. */
async function answer(message: JobMessage): Promise<void> {
  if (message.op === 'close') return port?.close();
  if (closing) return;
  try {
    const result = await run(message);
    port?.postMessage({ seq: message.seq, result } satisfies JobReply, buffersOf(result));
  } catch (error) {
    port?.postMessage({
      seq: message.seq,
      error: String((error as Error).message ?? error),
    } satisfies JobReply);
  }
}

async function run(job: TrunkJob | BranchJob | ReleaseJob): Promise<JobResult> {
  if (job.op === 'trunk') return runTrunk(job);
  if (job.op === 'branches') return runBranches(job);
  caches.delete(job.trace);
  return {};
}

async function runTrunk({ trace, ids, promptLength }: TrunkJob): Promise<JobResult> {
  const scored = ids.length - promptLength;
  // the distribution over token t stands in row t-1
  const rows = Int32Array.from({ length: scored }, (_, i) => promptLength + i - 1);
  const out = await trunkSession.run({
    ids: int64(BigInt64Array.from(ids, BigInt), [1, ids.length]),
    ...ropeFeeds(ids.length),
    ...headFeeds(rows, ids.subarray(promptLength)),
  });
  const { entropies, logprobs, ...cache } = out as Feeds;
  caches.set(trace, cache);
  return { entropies: floats(entropies, scored), logprobs: floats(logprobs, scored) };
}

async function runBranches({ trace, branches }: BranchJob): Promise<JobResult> {
  const cache = caches.get(trace);
  if (cache === undefined) throw new Error(`no trunk of trace ${trace}`);
  const packed = packBranches(branches);
  const { groups: G, rowsPerGroup: R } = packed;
  const positions = branches.reduce((most, b) => Math.max(most, b.exit + b.ids.length), 0);
  const out = await branchSession.run({
    ids: int64(packed.ids, [G, R]),
    pos: int64(packed.pos, [G, R]),
    exit: int64(packed.exit, [G, R]),
    branch: int64(packed.branch, [G, R]),
    trace: int64(new BigInt64Array(G), [G, 1]),
    keys: int64(packed.keys, [G, 1]),
    ...ropeFeeds(positions),
    ...headFeeds(packed.rows, packed.targets),
    ...cache,
  });
  return { logprobs: floats((out as Feeds).logprobs, packed.rows.length) };
}

/** cos and sin tables long enough for `positions`; grown by doubling so that few lengths occur. */
function ropeFeeds(positions: number): Feeds {
  let length = rope.positions;
  while (length < positions) length *= 2;
  if (length > rope.positions) rope = ropeTables(arch, length);
  const dims = [rope.positions, arch.headDim / 2];
  return { cos: new Tensor('float32', rope.cos, dims), sin: new Tensor('float32', rope.sin, dims) };
}

function headFeeds(rows: Int32Array, targets: Int32Array): Feeds {
  const block = headBlock(rows.length, arch.vocab);
  const dims = [Math.ceil(rows.length / block), block];
  return { rows: int64(blockRows(rows, block), dims), targets: int64(blockRows(targets, block), dims) };
}

function int64(data: BigInt64Array, dims: readonly number[]): Tensor {
  return new Tensor('int64', data, dims);
}

/** The first `length` values of a graph output, in a buffer of their own. */
function floats(tensor: Tensor | undefined, length: number): Float32Array {
  return (tensor as Tensor).data.slice(0, length) as Float32Array;
}

function buffersOf(result: JobResult): ArrayBuffer[] {
  return Object.values(result).map((array: Float32Array) => array.buffer as ArrayBuffer);
}
