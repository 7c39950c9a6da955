// Gathers traces into batches, so that short ones share a run of the policy.
import { rowsPerGroup } from '../policy/run/pack.js';

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
export function planBatches(loads: readonly Load[], budget = BATCH_ROWS): number[][] {
  const load = (i: number) => loads[i] as Load;
  const order = loads
    .map((_, i) => i)
    .sort(
      (i, j) => load(j).tokens - load(i).tokens || load(j).longestBranch - load(i).longestBranch || i - j,
    );
  const batches: number[][] = [];
  for (const i of order) {
    const batch = batches.at(-1);
    const joined = [...(batch ?? []), i];
    if (
      batch === undefined ||
      !isAlike(load(batch[0] as number), load(i)) ||
      paddedRows(joined.map(load)) > budget
    )
      batches.push([i]);
    else batch.push(i);
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
function paddedRows(batch: readonly Load[]): number {
  const longest = batch.reduce((most, { tokens }) => Math.max(most, tokens), 0);
  const traces = batch.flatMap(({ branchRows, behind }) => behind ?? [branchRows]);
  const R = rowsPerGroup(
    batch.reduce((most, { longestBranch }) => Math.max(most, longestBranch), 0),
    traces.reduce((most, rows) => Math.max(most, rows), 0),
    batch[0]?.behind !== undefined,
  );
  return traces.reduce((sum, rows) => sum + Math.ceil(rows / R) * R, batch.length * longest);
}
