// Blocks of input rows in, their segments without a policy as encoded rows out, in order: by several threads where it pays.
import { ownCores } from '../cores.js';
import type { RowBlock } from '../io/blocks.js';
import type { EncodedBlock } from '../io/encoded-block.js';
import type { Input } from '../io/inputs.js';
import type { BadRow } from '../io/rows.js';
import { type BlockJob, openBlockWork } from './segment-block.js';
import { inThreads } from './threads.js';

/** Below it threads take longer to start than they save. */
const THREADED_BYTES = 16 * 2 ** 20;
/** One thread reads and writes for all others. */
const MAX_THREADS = 8;

/** Segments blocks; the bytes are the same however many threads there are. */
export async function* segmentBlocks(
  blocks: AsyncIterable<RowBlock | BadRow>,
  inputs: readonly Input[],
  job: BlockJob,
): AsyncGenerator<EncodedBlock> {
  const threads = threadsFor(inputs, job);
  if (threads < 2) {
    const work = await openBlockWork(job);
    for await (const block of blocks) yield work(block);
    return;
  }
  yield* inThreads<RowBlock | BadRow, EncodedBlock>(blocks, {
    module: new URL('./segment-thread.js', import.meta.url),
    data: job,
    threads,
    transfer: (block) => ('bytes' in block ? [block.bytes.buffer, block.places.buffer] : []),
  });
}

function threadsFor(inputs: readonly Input[], { format }: BlockJob): number {
  const size = inputs.reduce((sum, input) => sum + (input.size ?? 0), 0);
  if (size < THREADED_BYTES) return 1;
  // Parquet is encoded by a thread of its own
  return Math.min(MAX_THREADS, ownCores() - (format === 'parquet' ? 1 : 0));
}
