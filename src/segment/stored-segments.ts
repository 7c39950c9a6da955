// Finds in a stored row what its segmenter cannot have made: `verify`'s part of METHOD §2.
import type { StoredRow } from '../io/scored/stored-rows.js';
import { plural } from '../plural.js';
import { type SegmentOptions, type StoredThoughts, segmenterNamed } from './segmenters.js';

/**
 * What of the segments does not follow from the segmenter: too many of them, and what it says itself that it cannot have made.
 * @param config as the file has it; empty where it says nothing
 */
export function segmentFaults(row: StoredRow, config: Readonly<Record<string, unknown>>): string[] {
  const opts = config as Partial<SegmentOptions>;
  const thoughts = storedThoughts(row);
  if (thoughts === undefined) return [];
  const K = thoughts.ends.length;
  const faults: string[] = [];
  if (typeof opts.maxSegments === 'number' && K > opts.maxSegments)
    faults.push(`has ${plural(K, 'thought segment')}, expected at most ${opts.maxSegments}`);
  faults.push(...(segmenterNamed(opts.segmenter)?.faults?.(thoughts, opts) ?? []));
  return faults;
}

function storedThoughts(row: StoredRow): StoredThoughts | undefined {
  const segments = row.cell('segments');
  const status = row.cell('status');
  if (!Array.isArray(segments) || typeof status !== 'string') return undefined;
  const isByLength = status.split(';').includes('segments:by-length');
  const thoughts = (segments as Record<string, unknown>[]).filter(({ kind }) => kind === 'thought');
  const ends = Int32Array.from(thoughts, (segment) => Number(segment[isByLength ? 'char_end' : 'end']));
  const figures = (name: string) => (isByLength ? null : floats(row.cell(name), ends.at(-1) ?? 0));
  return { ends, isByLength, entropies: figures('entropies'), logprobs: figures('logprobs') };
}

function floats(cell: unknown, least: number): Float32Array | null {
  if (!Array.isArray(cell) && !ArrayBuffer.isView(cell)) return null;
  const list = Float32Array.from(cell as unknown as ArrayLike<number>, Number);
  return list.length >= least ? list : null;
}
