// A shard's rows and rejects in input order in, its chunks out: each is written whole, then recorded as done.
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { syncFolder } from './atomic-file.js';
import type { EncodedBlock } from './encoded-block.js';
import { writeJson } from './json-file.js';
import { type OutputRow, type OutputTarget, openOutput, rowBytes } from './output.js';
import { openRejects, type Rejects } from './rejects.js';
import { type BadRow, isBad } from './rows.js';
import { type ChunkRecord, removeLeftovers, runPaths, sha256OfFile, sharedFolders } from './run-folder.js';
import { chunkOf, firstOrdinal, type Layout } from './shard.js';

/** Where rows and rejects end, in input order. */
export interface Destination {
  add(item: OutputRow | BadRow): Promise<void>;
  /** rows that are encoded already; undefined where rows have to come one by one */
  addBlock?(block: EncodedBlock): Promise<void>;
  /** all is written: makes it durable and visible */
  close(): Promise<void>;
  /** drops what is open; harmless after `close` or a second time */
  abort(): Promise<void>;
}

export interface ChunkOptions extends Omit<OutputTarget, 'path'> {
  readonly folder: string;
  readonly layout: Layout;
  /** of a chunk's file name */
  readonly extension: string;
  /** chunks that are done; those that this process writes are added */
  readonly chunks: Map<number, ChunkRecord>;
  /** told of every chunk that is done */
  readonly onChunk?: (record: ChunkRecord) => void;
}

/** A chunk while it is written. */
interface OpenChunk {
  readonly chunk: number;
  readonly output: Awaited<ReturnType<typeof openOutput>>;
  readonly rejects: Rejects;
  /** traces written of each of its input rows */
  readonly counts: number[];
  tokens: number;
  rejected: number;
  rawBytes: number;
}

/** Opens the folder's writer for one shard; a shard without rows gets one chunk without any. */
export async function openChunkWriter(opts: ChunkOptions): Promise<Destination> {
  const { folder, layout, extension, chunks } = opts;
  const { shard } = layout;
  const paths = runPaths(folder);
  const started = Date.now();
  let open: OpenChunk | null = null;
  await Promise.all(
    [paths.chunks(shard), paths.rejects(shard), paths.records(shard)].map((path) =>
      mkdir(path, { recursive: true }),
    ),
  );
  for (const path of [folder, ...['chunks', 'rejects', 'done'].map((name) => join(folder, name))])
    await syncFolder(path);

  async function openChunk(chunk: number): Promise<OpenChunk> {
    const path = paths.chunk(shard, chunk, extension);
    const rejects = await openRejects(paths.reject(shard, chunk));
    const output = await openOutput({ ...opts, path });
    return { chunk, output, rejects, counts: [], tokens: 0, rejected: 0, rawBytes: 0 };
  }

  // first the rejects, then the chunk, then the record that says both are there
  async function closeChunk({ chunk, output, rejects, ...written }: OpenChunk): Promise<void> {
    await rejects.close();
    const sha256 = await output.close();
    open = null;
    const { counts, tokens, rejected, rawBytes } = written;
    const record: ChunkRecord = {
      chunk,
      rows: counts.length,
      traces: counts.reduce((sum, count) => sum + count, 0),
      rejects: rejected,
      tokens,
      raw_bytes: rawBytes,
      traces_per_row: counts.every((count) => count === 1) ? null : counts,
      sha256: sha256 ?? (await sha256OfFile(paths.chunk(shard, chunk, extension))) ?? '',
      rejects_sha256: await sha256OfFile(paths.reject(shard, chunk)),
    };
    await writeJson(paths.record(shard, chunk), record);
    chunks.set(chunk, record);
    opts.onChunk?.(record);
  }

  /** @returns the chunk of an input row, and the row's number in it; the chunk before is closed */
  async function place(ordinal: number): Promise<readonly [OpenChunk, number]> {
    const chunk = chunkOf(ordinal, layout);
    if (open !== null && open.chunk !== chunk) await closeChunk(open);
    open ??= await openChunk(chunk);
    return [open, (ordinal - firstOrdinal(chunk, layout)) / shard.count];
  }

  return {
    async add(item) {
      const [open, row] = await place(isBad(item) ? item.ordinal : item.trace.source.ordinal);
      open.counts[row] ??= 0;
      if (isBad(item)) {
        open.rejected++;
        await open.rejects.add(item);
        return;
      }
      open.counts[row] = (open.counts[row] as number) + 1;
      open.tokens += item.completionIds?.length ?? 0;
      open.rawBytes += rowBytes(item);
      await open.output.write([item]);
    },
    async addBlock(block) {
      const [open, first] = await place(block.ordinal);
      for (const [n, count] of block.counts.entries()) open.counts[first + n] = count;
      open.rejected += block.rejects.length;
      for (const reject of block.rejects) await open.rejects.add(reject);
      open.rawBytes += block.rawBytes;
      for (const { bytes, traces } of block.parts) await open.output.writeEncoded(bytes, traces);
    },
    async close() {
      if (open === null && chunks.size === 0) open = await openChunk(0);
      if (open !== null) await closeChunk(open);
      const own = [paths.chunks(shard), paths.rejects(shard), paths.records(shard)];
      await removeLeftovers([...sharedFolders(folder), ...own], started);
    },
    async abort() {
      const chunk = open;
      open = null;
      await chunk?.output.abort();
      // the reasons of rejects are worth keeping; without a record they count for nothing
      await chunk?.rejects.close().catch(() => chunk.rejects.abort());
    },
  };
}
