// Blocks of input rows in, their segments without a policy as encoded rows out, in order: by several threads where it pays.
import { ownCores } from '../cores.js';
import type { RowBlock } from '../io/blocks.js';
import type { EncodedBlock } from '../io/encoded-block.js';
import type { Input } from '../io/inputs.js';
import type { BadRow } from '../io/rows.js';
import { type BlockJob, openBlockWork } from './segment-block.js';
import type { Source } from './source.js';
import { inThreads } from './threads.js';

/** Below it threads take longer to start than they save. */
const THREADED_BYTES = 16 * 2 ** 20;
/** The one thread that reads and writes keeps no more of them busy. */
const MAX_THREADS = 8;

/** Segments a source's blocks; the bytes are the same however many threads there are. */
export async function* segmentBlocks(
  source: Pick<Source, 'blocks' | 'blockDone'>,
  inputs: readonly Input[],
  job: BlockJob,
): AsyncGenerator<EncodedBlock> {
  const threads = threadsFor(inputs, job);
  for await (const block of threads < 2 ? inThisThread(source, job) : inOthers(source, job, threads)) {
    source.blockDone();
    yield block;
  }
}

async function* inThisThread(source: Pick<Source, 'blocks'>, job: BlockJob): AsyncGenerator<EncodedBlock> {
  const work = await openBlockWork(job);
  for await (const block of source.blocks()) yield work(block);
}

function inOthers(
  source: Pick<Source, 'blocks'>,
  job: BlockJob,
  threads: number,
): AsyncGenerator<EncodedBlock> {
  return inThreads<RowBlock | BadRow, EncodedBlock>(source.blocks(), {
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
