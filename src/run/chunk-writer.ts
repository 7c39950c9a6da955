// Writes a shard's rows and rejects in chunks: each is written whole, then recorded as done.
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { syncFolder } from '../io/files/atomic-file.js';
import { chunkOf, type Shard } from '../io/files/chunks.js';
import { sha256OfFile } from '../io/files/file-bytes.js';
import { statIfThere } from '../io/files/file-error.js';
import { writeJson } from '../io/files/json-file.js';
import { runPaths } from '../io/files/run-paths.js';
import { type Destination, openRejects } from '../io/write/destination.js';
import { type OutputTarget, openOutput } from '../io/write/output.js';
import { Tally } from '../report/figures.js';
import { isBad } from '../rows.js';
import type { CanaryRecord, ChunkRecord } from './records.js';
import { removeLeftovers } from './remove.js';

export interface ChunkOptions extends Omit<OutputTarget, 'path'> {
  readonly folder: string;
  /** identity of the run */
  readonly run: string;
  readonly shard: Shard;
  readonly rowsPerChunk: number;
  /** chunks that are done; those that this process writes are added */
  readonly chunks: Map<number, ChunkRecord>;
  /** of the sessions that make the chunks; filled by the time the first one is whole */
  readonly proofs?: readonly CanaryRecord[];
  /** half written files of killed attempts, which go when the shard is done */
  readonly leftovers: readonly string[];
  /** asked before a chunk is kept: throws where the folder has become another run's */
  readonly assertOurs: () => Promise<void>;
  /** told of every chunk that is done */
  readonly onChunk?: (record: ChunkRecord) => void;
}

/** Opens the folder's writer for one shard; a run without rows gets one chunk without any. */
export async function openChunkWriter(opts: ChunkOptions): Promise<Destination> {
  const { folder, shard, rowsPerChunk, format, chunks } = opts;
  const paths = runPaths(folder);
  type OpenChunk = Awaited<ReturnType<typeof openChunk>>;
  let open: OpenChunk | null = null;
  await Promise.all(paths.ofShard(shard).map((path) => mkdir(path, { recursive: true })));
  for (const path of [folder, ...['chunks', 'rejects', 'done'].map((name) => join(folder, name))])
    await syncFolder(path);

  async function openChunk(chunk: number) {
    const path = paths.chunk(shard, chunk, format);
    const rejects = await openRejects(paths.reject(shard, chunk));
    const output = await openOutput({ ...opts, path });
    /** traces written of each of its input rows */
    const counts: number[] = [];
    return { chunk, output, rejects, counts, tally: new Tally(), tokens: 0, rejected: 0 };
  }

  // first the rejects, then the chunk, then the record that says both are there
  async function closeChunk(closed: OpenChunk): Promise<void> {
    const { chunk, output, rejects, tally, tokens, rejected } = closed;
    await opts.assertOurs();
    await rejects.close();
    const sha256 = await output.close();
    open = null;
    // a row without any trace has no entry
    const counts = Array.from(closed.counts, (count) => count ?? 0);
    const record: ChunkRecord = {
      run: opts.run,
      chunk,
      rows: counts.length,
      traces: counts.reduce((sum, count) => sum + count, 0),
      rejects: rejected,
      tokens,
      traces_per_row: counts.every((count) => count === 1) ? null : counts,
      figures: tally.figures,
      sha256: sha256 ?? (await sha256OfFile(paths.chunk(shard, chunk, format))) ?? '',
      rejects_sha256: await sha256OfFile(paths.reject(shard, chunk)),
      ...(opts.proofs && opts.proofs.length > 0 ? { canary: [...opts.proofs] } : {}),
    };
    await writeJson(paths.record(shard, chunk), record);
    chunks.set(chunk, record);
    opts.onChunk?.(record);
  }

  /** @returns the chunk of an input row, and the row's number in it; the chunk before is closed */
  async function chunkFor(ordinal: number): Promise<readonly [OpenChunk, number]> {
    const chunk = chunkOf(ordinal, rowsPerChunk);
    if (open !== null && open.chunk !== chunk) await closeChunk(open);
    open ??= await openChunk(chunk);
    return [open, ordinal - chunk * rowsPerChunk];
  }

  return {
    async add(item) {
      const [open, row] = await chunkFor(isBad(item) ? item.ordinal : item.trace.source.ordinal);
      open.counts[row] ??= 0;
      if (isBad(item)) {
        open.rejected++;
        open.tally.reject(item);
        await open.rejects.add(item);
        return;
      }
      open.counts[row] = (open.counts[row] as number) + 1;
      open.tally.add(item);
      open.tokens += item.completionIds?.length ?? 0;
      await open.output.write([item]);
    },
    async close() {
      if (open === null && chunks.size === 0 && shard.index === 0) open = await openChunk(0);
      if (open !== null) await closeChunk(open);
      await removeLeftovers(opts.leftovers);
    },
    async abort() {
      const chunk = open;
      open = null;
      if (chunk === null) return;
      await chunk.output.abort();
      // the reasons of rejects are worth keeping, and count for nothing without a record; another attempt's stay as they are
      const isAlone = async (): Promise<boolean> =>
        chunk.rejected > 0 && (await statIfThere(paths.record(shard, chunk.chunk))) === null;
      const isOurs = opts.assertOurs().then(isAlone);
      if (await isOurs.catch(() => false)) await chunk.rejects.close().catch(() => chunk.rejects.abort());
      else await chunk.rejects.abort();
    },
  };
}
