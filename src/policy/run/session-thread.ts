// The thread that owns the ONNX session: `run()` blocks its event loop for a whole pass, so it must not be the main one.
import { workerData } from 'node:worker_threads';
import { type InferenceSession, Tensor } from 'onnxruntime-node';
import { moved, serve } from '../../thread.js';
import type { Architecture } from '../build/architecture.js';
import { headRows } from '../build/head.js';
import type { Precision } from '../build/precision.js';
import type { Device } from '../device.js';
import { runAttribution, type Sequence } from './attribution-run.js';
import { type Advance, type DecodeJob, DecodingRun } from './decoding-run.js';
import { failedRun, floats, growingRope, int64, openGraph, ropeFeeds } from './onnx-session.js';
import {
  blockRows,
  branchEnd,
  limbTable,
  type PackedTrace,
  type Place,
  packBranches,
  placeTraces,
} from './pack.js';

export interface WorkerInit {
  readonly folder: string;
  /** file of the folder, and what it computes in */
  readonly graph: string;
  /** the one that writes; absent in folders of versions that had none */
  readonly decodingGraph?: string;
  readonly precision: Precision;
  readonly architecture: Architecture;
  readonly device: Device;
}

/** Runs B traces at once. */
export interface RunJob {
  /** (B) where `cache` is read, `ids` are empty: the branches follow on the traces of the run that kept it */
  readonly traces: readonly PackedTrace[];
  /** keeps the traces' keys and values in this thread under a number, or uses what was kept */
  readonly cache?: { readonly id: number; readonly mode: 'keep' | 'use' };
}

/** Per scored token, nats: the traces' own tokens one trace after the other, then the branches' in the same way. */
export interface JobResult {
  readonly entropies: Float32Array;
  readonly logprobs: Float32Array;
}

type Feeds = Record<string, Tensor>;

const { folder, graph, decodingGraph, precision, architecture: arch, device } = workerData as WorkerInit;
let session: InferenceSession;
let decoder: InferenceSession;
let attributor: InferenceSession;
/** What a run has kept, under the names of the graph's past inputs. */
interface Kept {
  /** keys and values of every layer: the trunks' [B,kvHeads,T,headDim], the limbs' [N,kvHeads,L,headDim] */
  readonly trunks: Feeds;
  readonly limbs: Feeds;
  /** of each trace */
  readonly places: readonly Place[];
}
const caches = new Map<number, Kept>();
const ropeFor = growingRope(arch);

/** ONNX Runtime's WebGPU has crashed in the graph that writes: beside the scoring graph all run on the CPU there. */
const besides: Device = device.name === 'webgpu' ? { name: 'cpu' } : device;

/** @param attentionOnCpu as `Placed` says: a number of layers, all of them or none */
async function open(attentionOnCpu: number): Promise<void> {
  const tiny = async (made: InferenceSession): Promise<void> => {
    session = made;
    const ids = Int32Array.of(0, 0);
    await scores({ traces: [{ ids, promptLength: 1, branches: [{ exit: 1, ids, scoredFrom: 1 }] }] });
  };
  session = await openGraph(folder, graph, device, tiny, { attentionOnCpu });
  // ONNX Runtime passes over inputs that a graph does not know: of an earlier version's it would read no limb
  if (!session.inputNames.includes('limb_rows')) throw new Error('its graph is of an earlier version');
}

/** Opens the graph that writes; {@link open} comes first. */
async function openDecoder(): Promise<void> {
  decoder = await openGraph(folder, decodingGraph as string, besides, async (made) => {
    decoder = made;
    await scores({ traces: [{ ids: new Int32Array(1), promptLength: 1, branches: [] }], cache: TINY });
    const row = { trace: 0, exit: 1, token: 0, key: [0, 0], most: 2 } as const;
    beginRows(TINY.id, { kept: TINY.id, rows: [row], temperature: 1, topP: 1, stops: [] });
    await advanceRows(TINY.id);
    release(TINY.id);
    endRows(TINY.id);
  });
}
const TINY = { id: -1, mode: 'keep' } as const;

async function run(job: RunJob): Promise<JobResult> {
  const result = await scores(job).catch(failed);
  return moved(result, result.entropies, result.logprobs);
}

function failed(error: unknown): never {
  return failedRun("the policy's run", error);
}

/** Frees what a run has kept. */
function release(kept: number): void {
  caches.delete(kept);
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

function endRows(id: number): void {
  writing.delete(id);
}

/** Opens a graph that attributes; {@link open} comes first. */
async function openAttribution(file: string): Promise<void> {
  attributor = await openGraph(folder, file, besides, async (made) => {
    const one = Int32Array.of(0);
    const weights = Float32Array.of(1);
    const tiny = { ids: one, pos: one, number: Int32Array.of(-1), rows: one, targets: one, weights };
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
  release,
  openDecoder,
  beginRows,
  advanceRows,
  endRows,
  openAttribution,
  attribute,
};
export type SessionThread = typeof functions;
serve(functions);

async function scores({ traces, cache }: RunJob): Promise<JobResult> {
  const kept = cache?.mode === 'use' ? caches.get(cache.id) : undefined;
  if (cache?.mode === 'use' && kept === undefined) throw new Error(`no run was kept as ${cache.id}`);
  const { trunks, limbs, places } = kept === undefined ? placeTraces(traces) : { ...kept, ...NONE };
  const past = {
    ...(kept?.trunks ?? emptyPast(TRUNK, trunks.length)),
    ...(kept?.limbs ?? emptyPast(LIMB, Math.max(1, limbs.length))),
  };
  const [B, , P] = (past.past_k_0 as Tensor).dims as [number, number, number];

  // trunks padded at their end to the longest; one idle token each where the branches alone are run
  const S = trunks.reduce((most, { length }) => Math.max(most, length), 1);
  const ids = new BigInt64Array(B * S);
  for (const [b, own] of trunks.entries())
    for (let t = 0; t < own.length; t++) ids[b * S + t] = BigInt(own[t] as number);
  const packed = packBranches(
    traces.map(({ branches }) => branches),
    places,
    limbs,
  );
  const { groups: G, rowsPerGroup: R } = packed;

  const rows: number[] = [];
  const targets: number[] = [];
  let positions = P + S;
  for (const [i, { ids: own, promptLength, branches }] of traces.entries()) {
    const { trunk, limb } = places[i] as Place;
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
  const tables = ropeFor(positions);
  const [limbRows, limbDims] = limbTable(packed.limbRows, (past.past_limb_k_0 as Tensor).dims[0] as number);
  const feeds: Feeds = {
    ids: int64(ids, [B, S]),
    branch_ids: int64(packed.ids, [G, R]),
    branch_pos: int64(packed.pos, [G, R]),
    branch_exit: int64(packed.exit, [G, R]),
    branch_number: int64(packed.number, [G, R]),
    group_from: int64(packed.from, [G, 2]),
    group_to: int64(packed.to, [G, 2]),
    limb_from: int64(packed.limbFrom, [G, 2]),
    limb_to: int64(packed.limbTo, [G, 2]),
    limb_rows: int64(limbRows, limbDims),
    ...ropeFeeds(tables, arch.headDim),
    rows: int64(blockRows(Int32Array.from(rows), C), blocks),
    targets: int64(blockRows(Int32Array.from(targets), C), blocks),
    ...past,
  };
  const keeps = [TRUNK, ...(limbs.length > 0 ? [LIMB] : [])].flatMap(cacheNames);
  const out = (await session.run(feeds, [
    'entropies',
    'logprobs',
    ...(cache?.mode === 'keep' ? keeps : []),
  ])) as Feeds;
  if (cache?.mode === 'keep') {
    const found = (part: string): Feeds =>
      Object.fromEntries(cacheNames(part).map((name) => [`past_${name}`, out[name] as Tensor]));
    caches.set(cache.id, {
      trunks: found(TRUNK),
      limbs: limbs.length > 0 ? found(LIMB) : emptyPast(LIMB, 1),
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

function cacheNames(part: string): string[] {
  return Array.from({ length: arch.layers }, (_, i) => [`${part}k_${i}`, `${part}v_${i}`]).flat();
}

function emptyPast(part: string, batch: number): Feeds {
  const empty = new Tensor('float32', new Float32Array(0), [batch, arch.kvHeads, 0, arch.headDim]);
  return Object.fromEntries(cacheNames(part).map((name) => [`past_${name}`, empty]));
}
