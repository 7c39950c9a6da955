// Decides which traces of a window stand on one prompt, which is then read once: same ids, few rows behind it.
import { BATCH_ROWS } from './batch.js';

/** What a trace begins with. */
export interface Prompted {
  /** prompt and completion */
  readonly ids: Int32Array;
  readonly promptLength: number;
}

/**
 * Reading a prompt once has to save such a share of the rows that stand behind it. Those are read in groups of branch rows,
 * whose keys are copied group by group: at a share of .08 to .15 that takes as long as what is saved, at .25 a tenth less
 * (bench/prompts.mjs).
 */
const LEAST_SAVED = 0.25;

/** Traces with the same prompt ids, in the order of the first of each; most are alone. @returns positions */
export function withSamePrompt(traces: readonly Prompted[]): number[][] {
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
  const parts: { members: number[]; rows: number }[] = [];
  for (const trace of traces) {
    const rows = rowsBehind(trace);
    const part = parts.at(-1);
    if (part === undefined || part.rows + rows > budget) parts.push({ members: [trace], rows });
    else {
      part.members.push(trace);
      part.rows += rows;
    }
  }
  return parts.flatMap(({ members, rows }) =>
    (members.length - 1) * promptLength >= LEAST_SAVED * rows ? [members] : members.map((trace) => [trace]),
  );
}
