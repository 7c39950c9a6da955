// A stored row and its run's configuration in, what the segmenter named there cannot have made out: `verify`'s part of METHOD §2.
import type { StoredRow } from '../io/verify/stored-rows.js';
import { plural } from '../plural.js';
import { type SegmentOptions, segmentSums } from './segment.js';

/** Sums in another order differ by less, relative to the limit. */
const ROUNDING = 1e-6;

/** Ends of the thought segments, in what the row is counted in. */
interface StoredThoughts {
  /** (K) */
  readonly ends: Int32Array;
  /** (T) nats; null where the file has none, and without a policy */
  readonly entropies: Float32Array | null;
  readonly logprobs: Float32Array | null;
  readonly isByLength: boolean;
}

/**
 * What of the segments does not follow from the segmenter: too many of them, pieces of another length than `fixed` makes, a
 * cut before a token that is none of `entropy`'s or `cutpoint`'s, neighbours that `adaptive` would have merged.
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
  if (opts.segmenter === 'fixed') faults.push(...fixedFaults(thoughts, opts));
  if (opts.segmenter === 'adaptive') faults.push(...adaptiveFaults(thoughts, opts));
  if (opts.segmenter === 'entropy' || opts.segmenter === 'cutpoint')
    faults.push(...lateFaults(thoughts, opts));
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

/** All but the first, which a leading tag makes longer, and the last have the length. */
function fixedFaults(
  { ends }: StoredThoughts,
  { fixedLength, maxSegments }: Partial<SegmentOptions>,
): string[] {
  if (fixedLength === undefined || maxSegments !== undefined) return [];
  return Array.from(ends, (end, k) => end - (ends[k - 1] ?? 0)).flatMap((length, k, { length: K }) => {
    const isLast = k === K - 1;
    const isFit = isLast
      ? k === 0 || length <= fixedLength
      : k === 0
        ? length >= fixedLength
        : length === fixedLength;
    return isFit ? [] : [`segments[${k}] has ${length} tokens, expected ${fixedLength} (--fixed-length)`];
  });
}

function adaptiveFaults(
  { ends, entropies, isByLength }: StoredThoughts,
  { adaptiveLimit: limit }: Partial<SegmentOptions>,
): string[] {
  if (limit === undefined || (entropies === null && !isByLength)) return [];
  const sums =
    entropies === null ? ends.map((end, k) => end - (ends[k - 1] ?? 0)) : segmentSums(entropies, ends);
  return Array.from(sums.subarray(1), (sum, k) => sum + (sums[k] as number)).flatMap((pair, k) =>
    pair > limit * (1 - ROUNDING)
      ? []
      : [`segments[${k}] and [${k + 1}] sum to ${pair}, expected more than ${limit} (--adaptive-limit)`],
  );
}

/** Cuts stand before tokens that the segmenter cuts before; the last end is the thought's own. */
function lateFaults({ ends, entropies, logprobs }: StoredThoughts, opts: Partial<SegmentOptions>): string[] {
  const { segmenter, entropyThreshold = 0, cutpointProbability = 1 } = opts;
  const [name, figures] = segmenter === 'entropy' ? ['entropies', entropies] : ['logprobs', logprobs];
  if (figures === null) return [];
  const faults = Array.from(ends.subarray(0, -1)).flatMap((end, k) => {
    const figure = figures[end] as number;
    const isCut =
      segmenter === 'entropy' ? figure >= entropyThreshold : figure < Math.log(cutpointProbability);
    return isCut
      ? []
      : [`segments[${k}] ends before token ${end}, whose ${name} ${figure} is no reason to cut`];
  });
  const most = Math.floor((opts.entropyShare ?? 1) * (ends.at(-1) ?? 0));
  if (ends.length > most + 1)
    faults.push(
      `has ${plural(ends.length, 'thought segment')}, expected at most ${most + 1} (--entropy-share)`,
    );
  return faults;
}

function floats(cell: unknown, least: number): Float32Array | null {
  if (!Array.isArray(cell) && !ArrayBuffer.isView(cell)) return null;
  const list = Float32Array.from(cell as unknown as ArrayLike<number>, Number);
  return list.length >= least ? list : null;
}
