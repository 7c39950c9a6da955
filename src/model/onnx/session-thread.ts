// The thread that owns a policy's ONNX sessions: `run()` blocks its event loop for a whole pass, so it must not be the main one.
import { join } from 'node:path';
import { workerData } from 'node:worker_threads';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { OutOfMemoryError } from '../../errors.js';
import { moved, ownCores, serve } from '../../thread.js';
import type { Architecture } from '../graph/architecture.js';
import type { Precision } from '../graph/onnx.js';
import type { Device } from './device.js';
import { packBranches } from './layout.js';
import {
  cacheNames,
  type Feeds,
  growingRope,
  int64,
  type Kept,
  PREFIX,
  padded,
  readOut,
  SUFFIX,
} from './onnx-session.js';
import { type PrefixPlace, placeTraces, type RunJob } from './placed.js';

export interface WorkerInit {
  readonly folder: string;
  /** file of the folder, and what it computes in */
  readonly graph: string;
  readonly precision: Precision;
  readonly architecture: Architecture;
  readonly device: Device;
}

const { folder, graph, precision, architecture: arch, device } = workerData as WorkerInit;
let session: InferenceSession;
const caches = new Map<number, Kept>();
const ropeFor = growingRope(arch);

async function open(): Promise<void> {
  session = await InferenceSession.create(join(folder, graph), {
    executionProviders: [device],
    graphOptimizationLevel: 'all',
    intraOpNumThreads: ownCores(),
    // idle threads that spin take the cores from whatever runs beside: measured seven times slower on a busy machine
    extra: { session: { intra_op: { allow_spinning: '0' } } },
    // warnings about unused initialisers and the like are not for users
    logSeverityLevel: 3,
  });
}

async function run(job: RunJob) {
  const result = await scores(job).catch(failed);
  return moved(result, result.entropies, result.logprobs);
}

/** A run's failure as the main thread tells it apart. */
function failed(error: unknown): never {
  const text = String((error as Error).message ?? error);
  const Kind = /bad_alloc|allocat|out of memory|\bOOM\b/i.test(text) ? OutOfMemoryError : Error;
  throw new Kind(`the policy's run failed: ${text}`);
}

const functions = {
  open,
  run,
  /** frees what a run has kept */
  release: (kept: number) => void caches.delete(kept),
};
export type SessionThread = typeof functions;
serve(functions);

/** Per scored token, nats: the traces' own tokens one trace after the other, then the branches' in the same way. */
async function scores({ traces, keep, use }: RunJob) {
  const kept = use === undefined ? undefined : caches.get(use);
  if (use !== undefined && kept === undefined) throw new Error(`no run was kept as ${use}`);
  const { prefixes, suffixes, places } = kept === undefined ? placeTraces(traces) : { ...kept, ...NONE };
  const past = kept?.past ?? {
    ...emptyPast(PREFIX, prefixes.length),
    ...emptyPast(SUFFIX, suffixes.length || prefixes.length),
  };
  const [B, , P] = (past.past_k_0 as Tensor).dims as [number, number, number];
  // padded at their ends: causal rows before it never see that; one idle token each where the branches alone are run
  const ids = padded(kept === undefined ? prefixes : Array.from({ length: B }, () => Int32Array.of(0)), B, 1);
  const S = ids.dims[1] as number;
  const branches = traces.map((trace) => trace.branches);
  const packed = packBranches(branches, places, suffixes, device.name);
  const { groups: G, lanes: W, rowsPerGroup: R } = packed;

  const rows: number[] = [];
  const targets: number[] = [];
  for (const [i, { ids: own, promptLength }] of traces.entries()) {
    const { prefix, suffix } = places[i] as PrefixPlace;
    const behind = suffix && packed.suffixRows[suffix.number];
    // the distribution over token t stands in row t-1
    for (let t = promptLength; t < own.length; t++) {
      const isBehind = suffix !== undefined && t > suffix.from;
      rows.push(isBehind ? B * S + (behind?.[t - 1 - suffix.from] as number) : prefix * S + t - 1);
      targets.push(own[t] as number);
    }
  }
  for (const row of packed.rows) rows.push(B * S + row);
  for (const target of packed.targets) targets.push(target);
  const last = packed.pos.reduce((most, pos) => (pos > most ? pos : most), 0n);

  const [N] = (past.past_suffix_k_0 as Tensor).dims as [number];
  const feeds: Feeds = {
    ids,
    branch_ids: int64(packed.ids, [G, W, R]),
    branch_pos: int64(packed.pos, [G, W, R]),
    branch_exit: int64(packed.exit, [G, W, R]),
    branch_number: int64(packed.number, [G, W, R]),
    prefix_from: int64(packed.from, [G, 2]),
    prefix_to: int64(packed.to, [G, 2]),
    suffix_from: int64(packed.suffixFrom, [G, 2]),
    suffix_to: int64(packed.suffixTo, [G, 2]),
    suffix_rows: padded(packed.suffixRows, N), // with row 0, which nothing sees
    ...ropeFor(Math.max(P + S, Number(last) + 1)),
    ...readOut(rows, targets, arch.vocab, precision),
    ...past,
  };
  const ofParts = suffixes.length > 0 ? [PREFIX, SUFFIX] : [PREFIX];
  const keeps = keep === undefined ? [] : ofParts.flatMap((part) => cacheNames(arch.layers, part));
  const out = (await session.run(feeds, ['entropies', 'logprobs', ...keeps])) as Feeds;
  if (keep !== undefined) {
    const found = keeps.map((name) => [`past_${name}`, out[name] as Tensor] as const);
    const none = suffixes.length > 0 ? {} : emptyPast(SUFFIX, prefixes.length);
    caches.set(keep, { past: { ...none, ...Object.fromEntries(found) }, places });
  }
  // without what pads the last block, in buffers of their own
  const [entropies, logprobs] = [out.entropies, out.logprobs].map((all) => {
    return (all as Tensor).data.slice(0, rows.length) as Float32Array;
  }) as [Float32Array, Float32Array];
  return { entropies, logprobs };
}

/** What a run reads that goes on from a kept one. */
const NONE = { prefixes: [], suffixes: [] };

function emptyPast(part: string, batch: number): Feeds {
  const empty = new Tensor('float32', new Float32Array(0), [batch, arch.kvHeads, 0, arch.headDim]);
  return Object.fromEntries(cacheNames(arch.layers, part).map((name) => [`past_${name}`, empty]));
}
