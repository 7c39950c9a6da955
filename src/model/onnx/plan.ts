// Decides how a window's traces are put to the policy: which share a run or a prompt, and whether their branches have a run of their own.

import type { TraceQuestions } from '../../question.js';
import { candidateExits, isCutLate, type Pieces } from '../../segment/segment.js';
import type { Trace } from '../../trace.js';
import type { Device } from './device.js';
import { rowsPerGroup, sharingRoom } from './layout.js';
import { shareTails } from './tails.js';

/**
 * - `one-run`: branches at every piece's end, in the same run as the trace; those of merged pieces are thrown away.
 *   Nothing is wasted where no piece is merged.
 * - `two-run`: the trace first, the branches at its segments' ends when the entropies have decided where these are.
 */
export type Strategy = 'one-run' | 'two-run';

/** A trace as the policy takes it. */
export interface TraceJob {
  /** by which an error names it */
  readonly trace?: Trace;
  /** prompt and completion */
  readonly ids: Int32Array;
  readonly promptLength: number;
  readonly pieces: Pieces;
  readonly asked: TraceQuestions;
  /** traces of a batch with the same number here have the same prompt, which is read once */
  readonly shares?: number | undefined;
}

/** A second run starts again, whatever the trace's length: worth so many rows of a first one. */
const SECOND_RUN_ROWS = 64;

/**
 * A second run moves the trace's keys and values: worth so many rows of a first one for each of its tokens. On the CPU
 * they are copied once in memory. From a GPU they go to the host in float32 and back again, since Node's ONNX Runtime
 * keeps nothing on a CUDA device between runs: 0.26 MB a token of an 8 B Llama, 0.06 MB of a 1.5 B Qwen, twice, at some
 * 10 GB/s. In that time a GPU at 200 TFLOP/s computes 0.7 of a row. An estimate: no GPU was at hand to measure it.
 */
const SECOND_RUN_SHARE = { cpu: 0.03, cuda: 0.7 } as const;

/** On the CPU, beyond so many tokens the copies that one run makes cost more than a second run (bench/exits.mjs, T = 16,384). */
const LONG_TRACE = 12_288;

/**
 * The cheaper way for a trace, or for several with one prompt: rows that would be thrown away against the price of a second run.
 */
export function chooseStrategy(jobs: readonly TraceJob[], { name }: Device = { name: 'cpu' }): Strategy {
  if (name === 'cpu' && jobs.some(({ ids }) => ids.length > LONG_TRACE)) return 'two-run';
  // a candidate at every token
  if (jobs.some(({ pieces, asked }) => isCutLate(pieces) && asked.atExits.length > 0)) return 'two-run';
  let [wasted, tokens] = [0, jobs[0]?.promptLength ?? 0];
  for (const job of jobs) {
    const { ids, promptLength, pieces } = job;
    wasted += (pieces.ends.length - pieces.segments) * branchLoad(job).rowsPerExit;
    tokens += ids.length - promptLength;
  }
  return wasted <= SECOND_RUN_ROWS + SECOND_RUN_SHARE[name] * tokens ? 'one-run' : 'two-run';
}

/** A batch of a window: which of its traces run together, and how. */
interface Batch {
  readonly strategy: Strategy;
  readonly jobs: readonly TraceJob[];
}

/** Traces that run as one: one trace, or some with one prompt. */
interface BatchPart {
  readonly strategy: Strategy;
  readonly members: readonly number[];
  readonly load: Load;
}

/** Batches of a window, by strategy and length. The same jobs give the same batches. */
export function planWindow(jobs: readonly TraceJob[], device?: Device): Batch[] {
  const parts = partsOf(jobs, device);
  return (['one-run', 'two-run'] as const).flatMap((strategy) => {
    const chosen = parts.filter((part) => part.strategy === strategy);
    const loads = chosen.map(({ load }) => load);
    return planBatches(loads, BATCH_ROWS, device?.name).map((batch) => {
      // traces with as many branches stand side by side in a run's groups
      const together = batch
        .map((n) => chosen[n] as BatchPart)
        .sort((one, other) => other.load.branchRows - one.load.branchRows);
      const own = together.flatMap(({ members, load }, n) =>
        members.map((i) => ({ ...(jobs[i] as TraceJob), shares: load.behind && n })),
      );
      return { strategy, jobs: own };
    });
  });
}

/** In the order of each part's first trace. */
function partsOf(jobs: readonly TraceJob[], device?: Device): BatchPart[] {
  const loads = jobs.map(branchLoad);
  const parts = withSamePrompt(jobs).flatMap((alike) => {
    const own = alike.map((i) => jobs[i] as TraceJob);
    const { promptLength } = own[0] as TraceJob;
    const together = chooseStrategy(own, device);
    const rowsBehind = (i: number) =>
      (jobs[i] as TraceJob).ids.length - promptLength + (loads[i]?.rows[together] as number);
    return shareOut(promptLength, alike, rowsBehind).map((members): BatchPart => {
      const longestBranch = Math.max(...members.map((i) => loads[i]?.longestBranch as number));
      if (members.length > 1) {
        const behind = members.map(rowsBehind);
        const branchRows = behind.reduce((sum, rows) => sum + rows, 0);
        const load = { tokens: promptLength, branchRows, behind, longestBranch };
        return { strategy: together, members, load };
      }
      const [first] = members as [number];
      const job = jobs[first] as TraceJob;
      const strategy = chooseStrategy([job], device);
      const branchRows = loads[first]?.rows[strategy] as number;
      return { strategy, members, load: { tokens: job.ids.length, branchRows, longestBranch } };
    });
  });
  return parts.sort((a, b) => (a.members[0] as number) - (b.members[0] as number));
}

/**
 * Rows of what is scored at an exit, of tails the mean over all that the pieces allow; of all branches, by strategy; and of the longest one.
 */
function branchLoad({ ids, promptLength, pieces, asked: { atExits, tails } }: TraceJob) {
  const exits = tails === undefined ? [] : Array.from(candidateExits(pieces));
  const ofTails = tails && shareTails(ids.subarray(promptLength), exits, tails).branches;
  let [rowsPerExit, longestBranch] = [0, 0];
  for (const [all, share] of [
    [ofTails?.map(({ suffix }) => suffix) ?? [], exits.length],
    [atExits, 1],
  ] as const)
    for (const { ids: own, scoredFrom } of all) {
      // one row more where its first token is scored
      const rows = own.length + (scoredFrom === 0 ? 1 : 0);
      rowsPerExit += rows / share;
      longestBranch = Math.max(longestBranch, rows);
    }
  const rows = {
    'one-run': Math.ceil((1 + pieces.ends.length) * rowsPerExit),
    'two-run': Math.ceil((1 + pieces.segments) * rowsPerExit),
  };
  return { rowsPerExit, longestBranch, rows };
}

/**
 * Reading a prompt once has to save such a share of the rows that stand behind it. Those are read in groups of branch rows,
 * whose keys are copied group by group: at a share of .08 to .15 that takes as long as what is saved, at .25 a tenth less
 * (bench/prompts.mjs).
 */
const LEAST_SAVED = 0.25;

/** Traces with the same prompt ids, in the order of the first of each; most are alone. @returns positions */
export function withSamePrompt(traces: readonly Pick<TraceJob, 'ids' | 'promptLength'>[]): number[][] {
  const groups = new Map<string, number[]>();
  for (const [i, { ids, promptLength }] of traces.entries()) {
    const { buffer, byteOffset } = ids;
    const key = Buffer.from(buffer, byteOffset, promptLength * ids.BYTES_PER_ELEMENT).toString('latin1');
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [i]);
    else group.push(i);
  }
  return [...groups.values()];
}

/**
 * Traces of one prompt in parts, each of which reads it once: what stands behind it fits into the rows of a batch. Where
 * that saves too little, each is a part of its own.
 * @param promptLength tokens
 * @param rowsBehind of a trace: its completion, and its branches
 */
export function shareOut(
  promptLength: number,
  traces: readonly number[],
  rowsBehind: (trace: number) => number,
  budget = BATCH_ROWS,
): number[][] {
  return sharingRoom(traces, budget, rowsBehind).flatMap((members) => {
    const rows = members.reduce((sum, trace) => sum + rowsBehind(trace), 0);
    const isSaving = (members.length - 1) * promptLength >= LEAST_SAVED * rows;
    return isSaving ? [members] : members.map((trace) => [trace]);
  });
}

/** What an item costs, a trace or several behind one prompt: tokens, padded to the batch's longest item, and rows of branches. */
export interface Load {
  /** of the trace; of the prompt where several stand on it */
  readonly tokens: number;
  readonly branchRows: number;
  /** rows of each trace behind the prompt that they share, completion and branches: the sum is branchRows */
  readonly behind?: readonly number[];
  /** rows of its longest branch: groups are as wide as the batch's longest */
  readonly longestBranch: number;
}

/** Rows of a run, padding included, where several traces share it; a trace that is larger runs alone. */
export const BATCH_ROWS = 4096;

/** Rows that may be padding before a batch is closed: a short trace beside a long one costs as much as the long one. */
const PADDING_ROWS = 64;

/**
 * Batches of a window: items of like length together, longest first, so that little is padding.
 * @returns item numbers of each batch
 */
export function planBatches(
  loads: readonly Load[],
  budget = BATCH_ROWS,
  device: Device['name'] = 'cpu',
): number[][] {
  const load = (i: number) => loads[i] as Load;
  const order = loads
    .map((_, i) => i)
    .sort(
      (i, j) => load(j).tokens - load(i).tokens || load(j).longestBranch - load(i).longestBranch || i - j,
    );
  const batches: number[][] = [];
  for (const i of order) {
    const batch = batches.at(-1);
    const hasRoom = paddedRows([...(batch ?? []), i].map(load), device) <= budget;
    if (batch !== undefined && hasRoom && isAlike(load(batch[0] as number), load(i))) batch.push(i);
    else batches.push([i]);
  }
  return batches;
}

/** Whether an item may run beside the batch's longest. */
function isAlike(first: Load, other: Load): boolean {
  // groups of rows are wider where prompts are shared
  if ((first.behind === undefined) !== (other.behind === undefined)) return false;
  const near = (long: number, short: number) => long - short <= Math.max(PADDING_ROWS, long / 2);
  const [wide, narrow] = [first.longestBranch, other.longestBranch].sort((a, b) => b - a) as [number, number];
  return near(first.tokens, other.tokens) && near(wide, narrow);
}

/** Rows that a batch really takes: all items as long as the longest, all groups as wide as the widest. */
function paddedRows(batch: readonly Load[], device: Device['name']): number {
  const longest = batch.reduce((most, { tokens }) => Math.max(most, tokens), 0);
  const traces = batch.flatMap(({ branchRows, behind }) => behind ?? [branchRows]);
  const R = rowsPerGroup(
    batch.reduce((most, { longestBranch }) => Math.max(most, longestBranch), 0),
    traces.reduce((most, rows) => Math.max(most, rows), 0),
    batch[0]?.behind !== undefined,
    device,
  );
  return traces.reduce((sum, rows) => sum + Math.ceil(rows / R) * R, batch.length * longest);
}
