// Gathers traces into batches, so that short ones share a run of the policy.

/** What a trace costs: its own tokens, padded to the batch's longest trace, and the rows of its branches. */
export interface Load {
  readonly tokens: number;
  readonly branchRows: number;
}

/** Rows of a run, padding included, where several traces share it; a trace that is larger runs alone. */
export const BATCH_ROWS = 4096;

/**
 * Batches of a window: items of like length together, longest first, so that little is padding.
 * @returns item numbers of each batch
 */
export function planBatches(loads: readonly Load[], budget = BATCH_ROWS): number[][] {
  const order = loads.map((_, i) => i).sort((i, j) => load(j).tokens - load(i).tokens || i - j);
  const batches: number[][] = [];
  let [longest, branchRows] = [0, 0];
  for (const i of order) {
    const { tokens, branchRows: rows } = load(i);
    const batch = batches.at(-1);
    if (batch === undefined || (batch.length + 1) * longest + branchRows + rows > budget) {
      batches.push([i]);
      [longest, branchRows] = [tokens, rows];
    } else {
      batch.push(i);
      branchRows += rows;
    }
  }
  return batches;

  function load(i: number): Load {
    return loads[i] as Load;
  }
}
