// The thread that owns a policy's ONNX sessions: `run()` blocks its event loop for a whole pass, so it must not be the main one.
import { join } from 'node:path';
import { workerData } from 'node:worker_threads';
import type { InferenceSession, Tensor } from 'onnxruntime-node';
import { OutOfMemoryError } from '../../errors.js';
import { moved, ownCores, serve } from '../../thread.js';
import type { Architecture } from '../graph/architecture.js';
import { inverseFrequencies } from '../graph/frequencies.js';
import { CPU_ENTRIES, type Precision } from '../graph/onnx.js';
import type { Device } from './device.js';
import { distributionsOf, type HeadRows } from './distributions.js';
import { type ExportedNumbers, exportedScores, inBlocks } from './exported.js';
import { toFloat16 } from './float16.js';
import type { Exported } from './folder.js';
import { packBranches } from './pack.js';
import { type PrefixPlace, placeTraces, type RunJob } from './placed.js';
import { loadRuntime } from './runtime.js';
import { placesIn, walkOf } from './walk.js';

export interface WorkerInit {
  readonly folder: string;
  /** file of the folder, and what it computes in */
  readonly graph: string;
  readonly precision: Precision;
  /** of a session that gives distributions, which no file has: the graph itself, and that of the head alone */
  readonly made: readonly [graph: Uint8Array, head: Uint8Array] | undefined;
  readonly architecture: Architecture | Exported;
  readonly device: Device;
}

type Feeds = Record<string, Tensor>;
interface Kept {
  /** the graph's past inputs: keys and values of every layer, the prefixes' [B,kvHeads,T,headDim], the suffixes' [N,kvHeads,L,headDim]; of a delta net rows [B,T,d], [N,L,d] */
  readonly past: Feeds;
  /** tokens of each prefix and of each suffix */
  readonly lengths: readonly (readonly number[])[];
  readonly places: readonly PrefixPlace[];
}

const { folder, graph, precision, made, architecture, device } = workerData as WorkerInit;
/** of a graph that was exported nothing but its vocabulary is asked */
const arch = architecture as Architecture;
const ort = await loadRuntime(device.name === 'cuda');
let session: InferenceSession;
/** the head alone */
let heads: InferenceSession;
const caches = new Map<number, Kept>();
const idsRead: Parameters<typeof exportedScores>[2] = new Map();
/** largest share of every expert in every layer with some [experts,layers], in rows read out so far; empty where there are none */
let shares = new Float32Array();

async function open(): Promise<void> {
  const options = {
    executionProviders: [device],
    graphOptimizationLevel: 'all',
    intraOpNumThreads: ownCores(),
    // idle threads that spin take the cores from whatever runs beside: measured seven times slower on a busy machine
    extra: {
      session: {
        intra_op: { allow_spinning: '0' },
        ...(made && { model_external_initializers_file_folder_path: folder }),
      },
    },
    // warnings about unused initialisers and the like are not for users
    logSeverityLevel: 3,
  } as const;
  const { InferenceSession: Session } = ort;
  const [own, head] = made ?? [];
  session = await (own ? Session.create(own, options) : Session.create(join(folder, graph), options));
  if (head) heads = await Session.create(head, options);
}

async function run(job: RunJob) {
  const result = await ('exported' in architecture ? exported(job) : scores(job)).catch(failed);
  return moved(result, ...Object.values(result).filter((each) => each !== undefined));
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
  async distributions(of: HeadRows) {
    const found = await distributionsOf(ort, heads, of).catch(failed);
    return moved(found, ...Object.values(found));
  },
  release: (kept: number) => void (caches.delete(kept) || idsRead.delete(kept)),
  shares: () => shares,
};
export type SessionThread = typeof functions;
serve(functions);

/** Per scored token, nats: the traces' own tokens one trace after the other, then the branches' in the same way. */
async function scores({ traces, keep, use }: RunJob) {
  const kept = use === undefined ? undefined : caches.get(use);
  if (use !== undefined && kept === undefined) throw new Error(`no run was kept as ${use}`);
  const { prefixes, suffixes, places } =
    kept === undefined ? placeTraces(traces) : { prefixes: [], suffixes: [], places: kept.places };
  const past = kept?.past ?? {
    ...emptyPast(PREFIX, prefixes.length),
    ...emptyPast(SUFFIX, suffixes.length || prefixes.length),
  };
  const lengths = kept?.lengths ?? [prefixes, suffixes].map((all) => all.map(({ length }) => length));
  const [B, P] = pastOf(past, PREFIX);
  // padded at their ends: causal rows before it never see that; one idle token each where the branches alone are run
  const ids = padded(kept === undefined ? prefixes : Array.from({ length: B }, () => Int32Array.of(0)), B, 1);
  const S = ids.dims[1] as number;
  const branches = traces.map((trace) => trace.branches);
  const [N, Q] = pastOf(past, SUFFIX);
  const behind = suffixes.reduce((most, { length }) => Math.max(most, length), Q);
  const room = { keys: P + S + behind, scores: Math.floor(SCORES / arch.heads) };
  const isInLanes = session.inputNames.includes('lane_prefix');
  const packed = packBranches(branches, places, suffixes, isInLanes ? room : undefined);

  const rows: number[] = [];
  const targets: number[] = [];
  const stateRows: number[] = [];
  for (const [i, { ids: own, promptLength, states: exits = [] }] of traces.entries()) {
    const { prefix, suffix } = places[i] as PrefixPlace;
    const rowsBehind = suffix && packed.suffixRows[suffix.number];
    // the distribution over token t, and the state before it, stand in row t-1
    const rowBefore = (t: number): number => {
      const isBehind = suffix !== undefined && t > suffix.from;
      return isBehind ? B * S + (rowsBehind?.[t - 1 - suffix.from] as number) : prefix * S + t - 1;
    };
    for (let t = promptLength; t < own.length; t++) {
      rows.push(rowBefore(t));
      targets.push(own[t] as number);
    }
    for (const exit of exits) stateRows.push(rowBefore(exit));
  }
  for (const row of packed.rows) rows.push(B * S + row);
  for (const target of packed.targets) targets.push(target);
  const last = packed.pos.reduce((most, pos) => (pos > most ? pos : most), 0n);
  const blocks = (list: readonly number[]) => {
    const { data, dims } = inBlocks(list, rowsAtOnce());
    return int64(data, dims);
  };

  const feeds: Feeds = {
    ids,
    ...branchFeeds(packed),
    suffix_rows: padded(packed.suffixRows, N), // with row 0, which nothing sees
    // and rows of a lane, whatever their positions: ONNX Runtime's rotation wants a table as long as what it rotates
    ...ropeFor(Math.max(P + S, Number(last) + 1, packed.rowsPerGroup)),
    // those that the head reads out, and the token that follows each [n,C]: C as many as memory allows
    rows: blocks(rows),
    targets: blocks(targets),
    ...past,
    ...(arch.delta && walkFor(packed, places, lengths, [B, P, S], [N, Q])),
    // a graph of before there were any does not take it
    ...(session.inputNames.includes('state_rows') && {
      state_rows: int64(stateRows, [stateRows.length]),
    }),
  };
  const ofParts = suffixes.length > 0 ? [PREFIX, SUFFIX] : [PREFIX];
  const keeps = keep === undefined ? [] : ofParts.flatMap((part) => cacheNames(part));
  const ofStates = stateRows.length > 0 ? ['states'] : [];
  const ofExperts = session.outputNames.includes('shares') ? ['shares'] : [];
  const ofLast = traces.some(({ last }) => last) ? ['last'] : [];
  const wanted = ['entropies', 'logprobs', ...ofStates, ...ofExperts, ...ofLast, ...keeps];
  const out = (await session.run(feeds, wanted)) as Feeds;
  const own = (out.shares?.data ?? []) as Float32Array;
  shares = Float32Array.from(own, (share, i) => Math.max(share, shares[i] ?? 0));
  if (keep !== undefined) {
    const found = keeps.map((name) => [`past_${name}`, out[name] as Tensor] as const);
    caches.set(keep, { past: { ...past, ...Object.fromEntries(found) }, places, lengths });
  }
  // without what pads the last block, in buffers of their own
  const [entropies, logprobs] = [out.entropies, out.logprobs].map((all) => {
    return (all as Tensor).data.slice(0, rows.length) as Float32Array;
  }) as [Float32Array, Float32Array];
  const states = out.states && toFloat16(out.states.data as Float32Array);
  // the traces' own rows come first
  const T = traces.reduce((sum, { ids, promptLength }) => sum + ids.length - promptLength, 0);
  const ofRows = (out.last?.data as Float32Array | undefined)?.slice(0, T * arch.hidden);
  return { entropies, logprobs, states, last: ofRows };
}

/** What the rows of branches are told by. */
function branchFeeds(packed: ReturnType<typeof packBranches>): Feeds {
  const { groups: G, lanes: W, rowsPerGroup: R, places } = packed;
  const rows = ['ids', 'pos', 'exit', 'number'] as const;
  const ofRows = rows.map((name) => [`branch_${name}`, int64(packed[name], [G, W, R])]);
  const ofKeys = Object.entries(places).map(([name, all]) => [name, int64(all, [G, all.length / G])]);
  return Object.fromEntries([...ofRows, ...ofKeys]);
}

function emptyPast(part: string, batch: number): Feeds {
  const empty = (...dims: readonly number[]) =>
    new ort.Tensor('float32', new Float32Array(0), [batch, ...dims]);
  const [keys, rows] = [empty(arch.kvHeads, 0, arch.headDim), empty(0, arch.hidden)];
  return Object.fromEntries(
    cacheNames(part).map((name) => [`past_${name}`, name.startsWith(`${part}x`) ? rows : keys]),
  );
}

/** Of the past of prefixes or suffixes, how many there are, and tokens of each, padding included. */
function pastOf(past: Feeds, part: string): readonly [count: number, tokens: number] {
  const { dims } = past[`past_${cacheNames(part)[0]}`] as Tensor;
  return [dims[0] as number, dims.at(-2) as number];
}

/** How rows go through the delta nets: those of an earlier run, [B,P] and [N,Q], stand before this one's, [B,S] and those of the branches. */
function walkFor(
  { suffixRows, branches, ids }: ReturnType<typeof packBranches>,
  places: readonly PrefixPlace[],
  [prefixes = [], suffixes = []]: Kept['lengths'],
  [B, P, S]: readonly [number, number, number],
  [N, Q]: readonly [number, number],
): Feeds {
  const before = B * P + N * Q;
  const first = before + B * S; // of the branches'
  const rowsFrom = (from: number, length: number) => Int32Array.from({ length }, (_, t) => from + t);
  const isPast = before > 0;
  const walk = walkOf(
    prefixes.map((length, b) => rowsFrom(isPast ? b * P : b * S, length)),
    isPast
      ? suffixes.map((length, n) => rowsFrom(B * P + n * Q, length))
      : suffixRows.map((rows) => rows.map((row) => first + row)),
    branches.map((own) => own.map((each) => ({ ...each, first: first + each.first }))),
    places,
  );
  const rows = B * S + ids.length;
  return {
    walk: int64(walk.flat(), [walk.length, 4]),
    walk_places: int64(placesIn(walk, before, rows), [rows]),
  };
}

/** The same by a graph that was exported. */
async function exported(job: RunJob) {
  const found = await exportedScores(job, rowsAtOnce(), idsRead, async (feeds) => {
    const tensors = Object.entries(feeds).map(([name, { data, dims }]) => [name, int64(data, dims)] as const);
    const out = Object.entries(await session.run(Object.fromEntries(tensors)));
    return Object.fromEntries(out.map(([name, { data }]) => [name, data])) as ExportedNumbers;
  });
  return { ...found, states: found.states && toFloat16(found.states), last: undefined };
}

// ------ what the graph takes, as tensors

/** What the graph calls keys and values of prefixes and of suffixes begins so. */
const PREFIX = '';
const SUFFIX = 'suffix_';

/** Names of every layer's keys and values, and of a delta net's rows. */
function cacheNames(part: string): string[] {
  return Array.from({ length: arch.layers }, (_, i) =>
    arch.delta?.layers.includes(i) ? [`${part}x_${i}`] : [`${part}k_${i}`, `${part}v_${i}`],
  ).flat();
}

/** Scores of branches held at once on a GPU: 1 GB, of which a softmax makes two or three. More is not faster, and a card may be small. */
const SCORES = 2 ** 28;

/** Logits held at once: 4 MB a core's cache can keep; a GPU wants large products, and has the memory for 256 MB. */
const LOGITS = { cpu: 2 ** 20, gpu: 2 ** 26 } as const;
const LEAST_ROWS = 32;
const MOST_ROWS = 1024;

/** Rows of which logits may be held at once. */
function rowsAtOnce(): number {
  const { vocab } = arch;
  const isCpu = precision === 'f32';
  // in our graphs a large vocabulary comes block by block on a CPU
  const isInBlocks = isCpu && vocab >= 2 * CPU_ENTRIES && !('exported' in architecture);
  const entries = isInBlocks ? CPU_ENTRIES : vocab;
  const allowed = Math.floor(LOGITS[isCpu ? 'cpu' : 'gpu'] / entries);
  return Math.max(LEAST_ROWS, Math.min(MOST_ROWS, allowed));
}

function int64(values: BigInt64Array | readonly number[], dims: readonly number[]): Tensor {
  const data = values instanceof BigInt64Array ? values : BigInt64Array.from(values, BigInt);
  return new ort.Tensor('int64', data, dims);
}

/** Lists as one input [count, L], as wide as the longest, `least` at least: padded with 0. */
function padded(lists: readonly Int32Array[], count: number, least = 0): Tensor {
  const L = lists.reduce((most, { length }) => Math.max(most, length), least);
  const table = new BigInt64Array(count * L);
  for (const [n, list] of lists.entries())
    for (let t = 0; t < list.length; t++) table[n * L + t] = BigInt(list[t] as number);
  return int64(table, [count, L]);
}

let rope: Feeds = {};
let positionsOfRope = 0;
/**
 * Tables of cos and sin of position × inverse frequency, [length, rotaryDim/2] each (RoFormer, arXiv 2104.09864, eq. 15; half-split order), long
 * enough for a number of positions from 0; grown by doubling so that few lengths occur.
 */
function ropeFor(positions: number): Feeds {
  if (positions <= positionsOfRope) return rope;
  let length = positionsOfRope || 1024;
  while (length < positions) length *= 2;
  const { headDim, rotaryDim = headDim, ropeTheta, ropeScaling } = arch;
  const frequencies = inverseFrequencies(rotaryDim, ropeTheta, ropeScaling);
  const factor = ropeScaling?.type === 'yarn' ? ropeScaling.attentionFactor : 1;
  const half = frequencies.length;
  const table = (turned: (angle: number) => number) => {
    const values = new Float32Array(length * half);
    for (const [i, frequency] of frequencies.entries())
      for (let p = 0; p < length; p++) values[p * half + i] = factor * turned(p * frequency);
    return new ort.Tensor('float32', values, [length, half]);
  };
  positionsOfRope = length;
  rope = { cos: table(Math.cos), sin: table(Math.sin) };
  return rope;
}
