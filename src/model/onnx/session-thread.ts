// The thread that owns a model's ONNX sessions: `run()` blocks its event loop for a whole pass, so it must not be the main one.
import { workerData } from 'node:worker_threads';
import { type InferenceSession, Tensor } from 'onnxruntime-node';
import { OutOfMemoryError } from '../../errors.js';
import { moved, serve } from '../../thread.js';
import { DecodingRun } from '../decode/decoding-run.js';
import type { Advance, DecodeJob } from '../decode/sampling.js';
import type { Architecture } from '../graph/architecture.js';
import { headRows } from '../graph/head.js';
import type { Precision } from '../graph/precision.js';
import type { Device } from './device.js';
import {
  cacheNames,
  type Feeds,
  floats,
  growingRope,
  int64,
  openGraph,
  paddedIds,
  ropeFeeds,
  runAttribution,
  runJudging,
} from './onnx-session.js';
import { blockRows, limbTable, packBranches } from './pack.js';
import {
  branchEnd,
  type PackedTrace,
  placeTraces,
  type ReadSteps,
  type Sequence,
  type TrunkPlace,
} from './placed.js';

export interface WorkerInit {
  /** whose session it is, e.g. `the policy` */
  readonly title: string;
  readonly folder: string;
  /** file of the folder, and what it computes in */
  readonly graph: string;
  /** the one that writes, where there is one */
  readonly decodingGraph?: string;
  readonly precision: Precision;
  readonly architecture: Architecture;
  /** the head says of rows whether they are right, and scores no token */
  readonly judges: boolean;
  readonly device: Device;
}

/** Runs B traces at once. */
export interface RunJob {
  /** (B) where `cache` is read, `ids` are empty: the branches follow on the traces of the run that kept it */
  readonly traces: readonly PackedTrace[];
  /** keeps the traces' keys and values in this thread under a number, or uses what was kept */
  readonly cache?: { readonly id: number; readonly mode: 'keep' | 'use' };
}

const {
  title,
  folder,
  graph,
  decodingGraph,
  precision,
  architecture: arch,
  judges,
  device,
} = workerData as WorkerInit;
let session: InferenceSession;
let decoder: InferenceSession;
let attributor: InferenceSession;
/** What a run has kept, under the names of the graph's past inputs. */
interface Kept {
  /** keys and values of every layer: the trunks' [B,kvHeads,T,headDim], the limbs' [N,kvHeads,L,headDim] */
  readonly trunks: Feeds;
  readonly limbs: Feeds;
  /** of each trace */
  readonly places: readonly TrunkPlace[];
}
const caches = new Map<number, Kept>();
const ropeFor = growingRope(arch);

/** ONNX Runtime's WebGPU has crashed in the graph that writes: beside the scoring graph all run on the CPU there. */
const besides: Device = device.name === 'webgpu' ? { name: 'cpu' } : device;

const ONE = Int32Array.of(0);
const TWO = Int32Array.of(0, 0);

/** @param attentionOnCpu as `openGraph` has it */
async function open(attentionOnCpu: number): Promise<void> {
  const tiny = async (made: InferenceSession): Promise<void> => {
    session = made;
    if (judges) await runJudging(session, [{ ids: TWO, rows: ONE }], ropeFor);
    else
      await scores({
        traces: [{ ids: TWO, promptLength: 1, branches: [{ exit: 1, ids: TWO, scoredFrom: 1 }] }],
      });
  };
  session = await openGraph(folder, graph, device, tiny, attentionOnCpu);
  // ONNX Runtime passes over inputs that a graph does not know
  if (!judges && !session.inputNames.includes('trunk_from'))
    throw new Error('its graph is of an earlier version');
}

/** Opens the graph that writes; {@link open} comes first. */
async function openDecoder(): Promise<void> {
  decoder = await openGraph(folder, decodingGraph as string, besides, async (made) => {
    decoder = made;
    await scores({ traces: [{ ids: ONE, promptLength: 1, branches: [] }], cache: TINY });
    const row = { trace: 0, exit: 1, token: 0, key: [0, 0], most: 2 } as const;
    beginRows(TINY.id, { kept: TINY.id, rows: [row], temperature: 1, topP: 1, stops: [] });
    await advanceRows(TINY.id);
    caches.delete(TINY.id);
    writing.delete(TINY.id);
  });
}
const TINY = { id: -1, mode: 'keep' } as const;

async function run(job: RunJob) {
  const result = await scores(job).catch(failed);
  return moved(result, result.entropies, result.logprobs);
}

/** A run's failure as the main thread tells it apart. */
function failed(error: unknown): never {
  const text = String((error as Error).message ?? error);
  const Kind = /bad_alloc|allocat|out of memory|\bOOM\b/i.test(text) ? OutOfMemoryError : Error;
  throw new Kind(`${title}'s run failed: ${text}`);
}

/** P(right) of all rows, one sequence after the other. */
async function judge(sequences: readonly ReadSteps[]): Promise<Float32Array> {
  const found = await runJudging(session, sequences, ropeFor).catch(failed);
  return moved(found, found);
}

const writing = new Map<number, DecodingRun>();

/** Puts rows on trunks that a run has kept. @param id by which they are called from now on */
function beginRows(id: number, job: DecodeJob): void {
  const kept = caches.get(job.kept);
  if (kept === undefined) throw new Error(`no run was kept as ${job.kept}`);
  writing.set(id, new DecodingRun(arch, job, kept.trunks, besides.name !== 'cpu'));
}

/** Lets rows write their next tokens. */
async function advanceRows(id: number): Promise<Advance> {
  const rows = writing.get(id);
  if (rows === undefined) throw new Error(`no rows are at work as ${id}`);
  return rows.advance(decoder, ropeFor).catch(failed);
}

/** Opens a graph that attributes; {@link open} comes first. */
async function openAttribution(file: string): Promise<void> {
  const weights = Float32Array.of(1);
  const tiny = { ids: ONE, pos: ONE, number: Int32Array.of(-1), rows: ONE, targets: ONE, weights };
  attributor = await openGraph(folder, file, besides, async (made) => {
    await runAttribution(made, tiny, ropeFor);
  });
}

/** A number a token of one sequence. */
async function attribute(sequence: Sequence): Promise<Float32Array> {
  return runAttribution(attributor, sequence, ropeFor).catch(failed);
}

const functions = {
  open,
  run,
  /** frees what a run has kept */
  release: (kept: number) => void caches.delete(kept),
  judge,
  openDecoder,
  beginRows,
  advanceRows,
  endRows: (id: number) => void writing.delete(id),
  openAttribution,
  attribute,
};
export type SessionThread = typeof functions;
serve(functions);

/** Per scored token, nats: the traces' own tokens one trace after the other, then the branches' in the same way. */
async function scores({ traces, cache }: RunJob) {
  const kept = cache?.mode === 'use' ? caches.get(cache.id) : undefined;
  if (cache?.mode === 'use' && kept === undefined) throw new Error(`no run was kept as ${cache.id}`);
  const { trunks, limbs, places } = kept === undefined ? placeTraces(traces) : { ...kept, ...NONE };
  const past = {
    ...(kept?.trunks ?? emptyPast(TRUNK, trunks.length)),
    ...(kept?.limbs ?? emptyPast(LIMB, limbs.length || trunks.length)),
  };
  const [B, , P] = (past.past_k_0 as Tensor).dims as [number, number, number];
  // one idle token each where the branches alone are run
  const ids = paddedIds(kept === undefined ? trunks : Array.from({ length: B }, () => ONE));
  const S = ids.dims[1] as number;
  const packed = packBranches(
    traces.map(({ branches }) => branches),
    places,
    limbs,
    device.name,
  );
  const { groups: G, abreast: W, rowsPerGroup: R } = packed;

  const rows: number[] = [];
  const targets: number[] = [];
  let positions = P + S;
  for (const [i, { ids: own, promptLength, branches }] of traces.entries()) {
    const { trunk, limb } = places[i] as TrunkPlace;
    const behind = limb && packed.limbRows[limb.number];
    // the distribution over token t stands in row t-1
    for (let t = promptLength; t < own.length; t++) {
      const isBehind = limb !== undefined && t > limb.from;
      rows.push(isBehind ? B * S + (behind?.[t - 1 - limb.from] as number) : trunk * S + t - 1);
      targets.push(own[t] as number);
    }
    positions = Math.max(positions, own.length);
    for (const branch of branches) positions = Math.max(positions, branchEnd(branch));
  }
  for (const row of packed.rows) rows.push(B * S + row);
  for (const target of packed.targets) targets.push(target);

  const C = headRows(rows.length, arch.vocab, precision);
  const blocks = [Math.max(1, Math.ceil(rows.length / C)), C];
  const [limbRows, limbDims] = limbTable(packed.limbRows, (past.past_limb_k_0 as Tensor).dims[0] as number);
  const feeds: Feeds = {
    ids,
    branch_ids: int64(packed.ids, [G, W, R]),
    branch_pos: int64(packed.pos, [G, W, R]),
    branch_exit: int64(packed.exit, [G, W, R]),
    branch_number: int64(packed.number, [G, W, R]),
    trunk_from: int64(packed.from, [G, 2]),
    trunk_to: int64(packed.to, [G, 2]),
    limb_from: int64(packed.limbFrom, [G, 2]),
    limb_to: int64(packed.limbTo, [G, 2]),
    limb_rows: int64(limbRows, limbDims),
    ...ropeFeeds(ropeFor(positions)),
    rows: int64(blockRows(rows, C), blocks),
    targets: int64(blockRows(targets, C), blocks),
    ...past,
  };
  const keeps = [TRUNK, ...(limbs.length > 0 ? [LIMB] : [])].flatMap((part) => cacheNames(arch.layers, part));
  const wanted = ['entropies', 'logprobs', ...(cache?.mode === 'keep' ? keeps : [])];
  const out = (await session.run(feeds, wanted)) as Feeds;
  if (cache?.mode === 'keep') {
    const found = (part: string): Feeds =>
      Object.fromEntries(cacheNames(arch.layers, part).map((name) => [`past_${name}`, out[name] as Tensor]));
    caches.set(cache.id, {
      trunks: found(TRUNK),
      limbs: limbs.length > 0 ? found(LIMB) : emptyPast(LIMB, trunks.length),
      places,
    });
  }
  return { entropies: floats(out.entropies, rows.length), logprobs: floats(out.logprobs, rows.length) };
}

/** What the graph calls keys and values of either begins so. */
const TRUNK = '';
const LIMB = 'limb_';
/** What a run reads that goes on from a kept one. */
const NONE = { trunks: [], limbs: [] };

function emptyPast(part: string, batch: number): Feeds {
  const empty = new Tensor('float32', new Float32Array(0), [batch, arch.kvHeads, 0, arch.headDim]);
  return Object.fromEntries(cacheNames(arch.layers, part).map((name) => [`past_${name}`, empty]));
}
