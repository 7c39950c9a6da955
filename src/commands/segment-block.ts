// A block of input rows in, its segments without a policy as encoded rows out: what one thread of `segment` does.
import { firstOrdinalOf, type RowBlock, rowsOfBlock } from '../io/blocks.js';
import type { EncodedBlock, EncodedRows } from '../io/encoded-block.js';
import { watchColumns } from '../io/guess.js';
import { rowTraces } from '../io/map.js';
import { type OurColumn, type OutputFormat, type OutputRow, openEncoder, rowBytes } from '../io/output.js';
import { type BadRow, type InputRow, isBad, turnedDown } from '../io/rows.js';
import type { PassThroughColumn, Seen } from '../io/schema.js';
import { assertFits } from '../io/survey.js';
import { byLength } from '../segment/by-length.js';
import type { SegmentOptions } from '../segment/segment.js';
import type { Trace } from '../trace.js';
import { type MapRecipe, mapOf } from './mapping.js';

/** What the work on every block is the same in. It can be handed to another thread. */
export interface BlockJob {
  readonly recipe: MapRecipe;
  readonly segments: SegmentOptions;
  readonly format: OutputFormat;
  readonly ourColumns: readonly OurColumn[];
  /** none for JSONL, which has no types */
  readonly passThrough: readonly PassThroughColumn[];
  /** what the first rows had, where their types are a guess */
  readonly guessed: Seen | undefined;
  readonly maxLineBytes: number | undefined;
}

/** An ordinary block of 2 MiB is one part; one of many short segments is more. */
const PART_BYTES = 4 * 2 ** 20;

/** Nobody scores these traces. */
const NEEDS = { prompt: false, references: false };

/**
 * Opens the work; blocks may come in any order.
 * @throws TypesChangedError, of a block, where a guess of types does not hold; RredcotError as {@link assertFits}
 */
export async function openBlockWork(job: BlockJob): Promise<(block: RowBlock | BadRow) => EncodedBlock> {
  const map = mapOf(job.recipe);
  const encoder = await openEncoder(job);
  const check = checker(job);

  return (block) => {
    if (isBad(block)) return rejectBlock(block);
    const counts: number[] = [];
    const rejects: BadRow[] = [];
    const codes = new Map<string, number>();
    const parts: EncodedRows[] = [];
    let rawBytes = 0;
    let [traces, partBytes] = [0, 0]; // of the part that is open
    const close = (): void => {
      const bytes = encoder.finish();
      if (bytes !== null) parts.push({ traces, bytes });
      [traces, partBytes] = [0, 0];
    };
    for (const row of rowsOfBlock(block, job.maxLineBytes)) {
      let count = 0;
      for (const item of rowTraces(row, map, NEEDS, check)) {
        const made = isBad(item) ? item : cut(item, job.segments);
        if (isBad(made)) {
          rejects.push(made);
          continue;
        }
        const bytes = rowBytes(made);
        if (traces > 0 && partBytes + bytes > PART_BYTES) close();
        encoder.add(made);
        count++;
        traces++;
        partBytes += bytes;
        rawBytes += bytes;
        for (const code of made.status) codes.set(code, (codes.get(code) ?? 0) + 1);
      }
      counts.push(count);
    }
    close();
    return { kind: 'block', ordinal: firstOrdinalOf(block), counts, rejects, parts, rawBytes, codes };
  };
}

function rejectBlock(reject: BadRow): EncodedBlock {
  const { ordinal } = reject;
  return {
    kind: 'block',
    ordinal,
    counts: [0],
    rejects: [reject],
    parts: [],
    rawBytes: 0,
    codes: new Map(),
  };
}

function checker({ format, guessed, passThrough }: BlockJob): (row: InputRow) => void {
  if (format === 'jsonl') return () => {};
  if (guessed !== undefined) return watchColumns(guessed);
  return (row) => assertFits(row, passThrough);
}

function cut(trace: Trace, segments: SegmentOptions): OutputRow | BadRow {
  try {
    return byLength(trace, segments);
  } catch (error) {
    return turnedDown(trace, error);
  }
}
