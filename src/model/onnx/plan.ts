// Decides how a window's traces are put to the policy: which share a run or a prompt, and whether their branches have a run of their own.
import type { Continuation, TraceQuestions } from '../../question.js';
import { candidateExits, isCutLate, type Pieces } from '../../segment/segment.js';
import type { Trace } from '../../trace.js';
import type { Device } from './device.js';
import { rowsPerGroup, sharingRoom } from './layout.js';
import type { PackedTrace } from './placed.js';
import { shareTails } from './tails.js';

/**
 * - `one-run`: branches at every piece's end, in the same run as the trace; those of merged pieces are thrown away.
 *   Nothing is wasted where no piece is merged.
 * - `two-run`: the trace first, the branches at its segments' ends when the entropies have decided where these are.
 */
export type Strategy = 'one-run' | 'two-run';

/** A trace as the policy takes it. */
export interface TraceJob extends Pick<PackedTrace, 'ids' | 'promptLength' | 'shares'> {
  /** by which an error names it */
  readonly trace?: Trace;
  readonly pieces: Pieces;
  readonly asked: TraceQuestions;
}

/** A second run starts again, whatever the trace's length: worth so many rows of a first one. */
const SECOND_RUN_ROWS = 64;

/**
 * A second run moves the trace's keys and values: worth so many rows of a first one for each of its tokens. On the CPU
 * they are copied once in memory. From a GPU they go to the host in float32 and back again, since Node's ONNX Runtime
 * keeps nothing on a CUDA device between runs: 0.26 MB a token of an 8 B Llama, 0.06 MB of a 1.5 B Qwen, twice, at some
 * 10 GB/s. In that time a GPU at 200 TFLOP/s computes 0.7 of a row. An estimate: no GPU was at hand to measure it.
 * Delta nets are walked again from the trace's first token (1.55 times a plain pass, where one run takes 1.10), and a graph
 * that was exported reads the whole trace again.
 */
const SECOND_RUN_SHARE = { cpu: 0.03, cuda: 0.7, delta: 0.45, exported: 1 } as const;

/** Who reads, as far as it decides the way. */
interface Reader {
  readonly device?: Device | undefined;
  readonly folder?: { readonly architecture?: object } | undefined;
}

function secondRun({ device, folder }: Reader): number {
  const has = (kind: 'exported' | 'delta') => Object.hasOwn(Object(folder?.architecture), kind);
  const kind = has('exported') ? 'exported' : has('delta') ? 'delta' : (device?.name ?? 'cpu');
  return SECOND_RUN_SHARE[kind];
}

/** On the CPU, beyond so many tokens the copies that one run makes cost more than a second run (measured at 16,384). */
const LONG_TRACE = 12_288;

/** The cheaper way for a trace, or for several with one prompt: rows that would be thrown away against the price of a second run. */
export function chooseStrategy(jobs: readonly TraceJob[], reader: Reader = {}): Strategy {
  const share = secondRun(reader);
  if (share === SECOND_RUN_SHARE.cpu && jobs.some(({ ids }) => ids.length > LONG_TRACE)) return 'two-run';
  // a candidate at every token
  if (jobs.some(({ pieces, asked }) => isCutLate(pieces) && asked.atExits.length > 0)) return 'two-run';
  let [wasted, tokens] = [0, jobs[0]?.promptLength ?? 0];
  for (const job of jobs) {
    const { ids, promptLength, pieces } = job;
    wasted += (pieces.ends.length - pieces.segments) * branchLoad(job).rowsPerExit;
    tokens += ids.length - promptLength;
  }
  return wasted <= SECOND_RUN_ROWS + share * tokens ? 'one-run' : 'two-run';
}

/** Batches of a window, by strategy and length: which of its traces run together, and how. The same jobs give the same batches. */
export function planWindow(jobs: readonly TraceJob[], reader: Reader = {}) {
  const device = reader.device?.name ?? 'cpu';
  const parts = withSamePrompt(jobs).flatMap((alike) => partsOf(alike, reader));
  return (['one-run', 'two-run'] as const).flatMap((strategy) => {
    const chosen = parts.filter((part) => part.strategy === strategy);
    return planBatches(chosen, BATCH_ROWS[device], device).map((batch) => {
      // traces with as many branches stand side by side in a run's groups
      const together = batch.toSorted((one, other) => sumOf(other.behind) - sumOf(one.behind));
      const own = together.flatMap(({ members }, n) =>
        members.map((job) => ({ ...job, shares: members.length > 1 ? n : undefined })),
      );
      return { strategy, jobs: own };
    });
  });
}

/** Traces that run as one: one trace, or some with one prompt. */
interface BatchPart extends Load {
  readonly strategy: Strategy;
  readonly members: readonly TraceJob[];
}

/** Traces with one prompt in parts that read it once, each within the rows of a batch; where that saves too little, each trace is a part. */
function partsOf(alike: readonly TraceJob[], reader: Reader): BatchPart[] {
  const loads = new Map(alike.map((job) => [job, branchLoad(job)]));
  const loadOf = (job: TraceJob) => loads.get(job) as ReturnType<typeof branchLoad>;
  const { promptLength } = alike[0] as TraceJob;
  const together = chooseStrategy(alike, reader);
  const rowsBehind = (job: TraceJob) => job.ids.length - promptLength + loadOf(job).rows[together];
  const device = reader.device?.name ?? 'cpu';
  const shared = sharingRoom(alike, BATCH_ROWS[device], rowsBehind).flatMap((members) => {
    const keys = mostOf(members.map(({ ids }) => ids.length));
    const least = LEAST_SAVED + (device === 'cuda' ? LEAST_SAVED_A_KEY * keys : 0);
    const isSaving = (members.length - 1) * promptLength >= least * sumOf(members.map(rowsBehind));
    return isSaving ? [members] : members.map((job) => [job]);
  });
  return shared.map((members): BatchPart => {
    const longestBranch = mostOf(members.map((job) => loadOf(job).longestBranch));
    const first = members[0] as TraceJob;
    const isShared = members.length > 1;
    const strategy = isShared ? together : chooseStrategy(members, reader);
    const tokens = isShared ? promptLength : first.ids.length;
    const behind = isShared ? members.map(rowsBehind) : [loadOf(first).rows[strategy]];
    return { strategy, members, tokens, behind, longestBranch };
  });
}

/** Rows of what is scored at an exit (of tails the mean over all that the pieces allow), of all branches by strategy, and of the longest one. */
function branchLoad({ ids, promptLength, pieces, asked: { atExits, tails } }: TraceJob) {
  const exits = tails === undefined ? [] : Array.from(candidateExits(pieces));
  const ofTails = tails && shareTails(ids.subarray(promptLength), exits, tails).branches;
  // one row more where its first token is scored
  const rowsOf = ({ ids: own, scoredFrom }: Continuation) => own.length + (scoredFrom === 0 ? 1 : 0);
  const tailRows = (ofTails ?? []).map(({ suffix }) => rowsOf(suffix));
  const rowsAtExit = atExits.map(rowsOf);
  const rowsPerExit = sumOf(rowsAtExit) + (exits.length > 0 ? sumOf(tailRows) / exits.length : 0);
  const rows = {
    'one-run': Math.ceil((1 + pieces.ends.length) * rowsPerExit),
    'two-run': Math.ceil((1 + pieces.segments) * rowsPerExit),
  };
  return { rowsPerExit, longestBranch: mostOf([...tailRows, ...rowsAtExit]), rows };
}

const sumOf = (rows: readonly number[]): number => rows.reduce((sum, n) => sum + n, 0);
const mostOf = (rows: readonly number[]): number => rows.reduce((most, n) => Math.max(most, n), 0);

/**
 * Reading a prompt once has to save such a share of the rows that stand behind it. Those are read in groups of branch rows,
 * whose keys are copied group by group: measured at a share of .08 to .15 that takes as long as what is saved, at .25 a tenth less.
 */
const LEAST_SAVED = 0.25;

/**
 * And on a GPU so much more for every key in sight, since what stands behind writes and reads its scores, some 24 bytes each, as a prefix
 * does not: by arithmetic, at 3 TB/s beside a row's products at 500 TFLOP/s, 3e-4 rows of an 8 B Llama and 5e-4 of a 1.5 B Qwen.
 */
const LEAST_SAVED_A_KEY = 4e-4;

/** Traces with the same prompt ids, in the order of the first of each; most are alone. */
function withSamePrompt(traces: readonly TraceJob[]): TraceJob[][] {
  const groups = new Map<string, TraceJob[]>();
  for (const trace of traces) {
    const { buffer, byteOffset, BYTES_PER_ELEMENT } = trace.ids;
    const key = Buffer.from(buffer, byteOffset, trace.promptLength * BYTES_PER_ELEMENT).toString('latin1');
    const group = groups.get(key) ?? [];
    groups.set(key, group);
    group.push(trace);
  }
  return [...groups.values()];
}

/** What a trace costs, or several behind one prompt: tokens, padded to the batch's longest, and rows of branches. */
export interface Load {
  /** of the trace; of the prompt where several stand on it */
  readonly tokens: number;
  /** rows of the trace's branches; of each trace on a shared prompt its completion and its branches */
  readonly behind: readonly number[];
  /** rows of its longest branch: groups are as wide as the batch's longest */
  readonly longestBranch: number;
}

/** Rows of a run, padding included, where several traces share it; a trace that is larger runs alone. A GPU waits some 20 ms for the nodes of a run to be started (counted without one): in that time it computes so many rows of a small model. */
export const BATCH_ROWS = { cpu: 4096, cuda: 32_768 } as const satisfies Record<Device['name'], number>;

/** Rows that may be padding before a batch is closed: a short trace beside a long one costs as much as the long one. */
const PADDING_ROWS = 64;

/** Batches of a window: items of like length together, longest first, so that little is padding. */
export function planBatches<T extends Load>(
  loads: readonly T[],
  budget: number = BATCH_ROWS.cpu,
  device: Device['name'] = 'cpu',
): T[][] {
  const batches: T[][] = [];
  for (const load of loads.toSorted((a, b) => b.tokens - a.tokens || b.longestBranch - a.longestBranch)) {
    const batch = batches.at(-1) ?? [];
    const [first = load] = batch;
    const hasRoom = paddedRows([...batch, load], device) <= budget;
    if (batch.length > 0 && hasRoom && isAlike(first, load)) batch.push(load);
    else batches.push([load]);
  }
  return batches;
}

/** Whether an item may run beside the batch's longest. */
function isAlike(first: Load, other: Load): boolean {
  // groups of rows are wider where prompts are shared
  if (first.behind.length > 1 !== other.behind.length > 1) return false;
  return (['tokens', 'longestBranch'] as const).every((key) => {
    const long = Math.max(first[key], other[key]);
    return long - Math.min(first[key], other[key]) <= Math.max(PADDING_ROWS, long / 2);
  });
}

/** Rows that a batch really takes, about: all items as long as the longest; on the CPU all groups as wide as the widest. */
function paddedRows(batch: readonly Load[], device: Device['name']): number {
  const behind = batch.flatMap((load) => load.behind);
  const longestBranch = mostOf(batch.map((load) => load.longestBranch));
  const R =
    device === 'cuda'
      ? longestBranch || 1
      : rowsPerGroup(longestBranch, mostOf(behind), (batch[0]?.behind.length ?? 0) > 1);
  const inGroups = behind.map((rows) => Math.ceil(rows / R) * R);
  return sumOf(inGroups) + batch.length * mostOf(batch.map(({ tokens }) => tokens));
}
