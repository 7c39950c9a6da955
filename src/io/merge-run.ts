// A run's chunks in, one file or several of a bounded size out, with rows in input order however the run was split.
import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { EXIT, RredcotError } from '../errors.js';
import { syncFolder } from './atomic-file.js';
import { type CardFacts, datasetCard } from './dataset-card.js';
import { BATCH_BYTES, blockCuts, blockRows, interleave, type Lane, partsByBlock } from './interleave.js';
import { writeText } from './json-file.js';
import { type MergedRejects, openMergedRejects } from './merge-rejects.js';
import {
  type ChunkHeader,
  type ChunkSource,
  openColumnarSource,
  openLineSource,
  type Stripe,
} from './merge-source.js';
import { batchWriter, lineWriter, type PieceWriter } from './merge-writers.js';
import { formatOf, type OutputFormat } from './output.js';
import { CARD_NAME, type ChunkRecord, chunkDamage, runPaths } from './run-folder.js';
import type { RunState } from './run-state.js';
import type { Shard } from './shard.js';

export interface MergeTarget {
  /** a file, or the folder that files are put into */
  readonly path: string;
  /** undefined: one file of any size */
  readonly fileBytes: number | undefined;
  readonly format: OutputFormat;
  /** of files in a folder, without a dot */
  readonly extension: string;
  readonly rejects: string;
}

export interface MergeProgress {
  /** called for every batch; may throw to stop */
  onTraces(traces: number): void;
}

export interface Merged {
  readonly traces: number;
  readonly rejects: number;
  readonly files: readonly string[];
}

/** Files of a folder are cut by an estimate of their compressed size, and begun anew with less of it where one grows over. */
const FILLED = [0.95, 0.7, 0.4] as const;
/** footer and metadata */
const OVERHEAD_BYTES = 32 * 2 ** 10;

/**
 * Merges every chunk that is done. Nothing is visible under the target's name before all of it is there.
 * @throws RredcotError (exit 65) naming a chunk that is damaged
 */
export async function mergeRun(
  state: RunState,
  target: MergeTarget,
  progress: MergeProgress,
): Promise<Merged> {
  for (const filled of FILLED) {
    try {
      return await mergeOnce(state, target, filled, progress);
    } catch (error) {
      const isOver = error instanceof RredcotError && /a Parquet file of over/.test(error.message);
      if (!isOver) throw error;
      if (target.fileBytes === undefined)
        throw new RredcotError(error.message, { exitCode: EXIT.usage, hint: '-o all/, for files of 1GiB' });
    }
  }
  throw new RredcotError(`${target.path}: a few traces alone make more than ${target.fileBytes} bytes`, {
    exitCode: EXIT.usage,
    hint: 'raise --file-size',
  });
}

async function mergeOnce(
  state: RunState,
  target: MergeTarget,
  filled: number,
  progress: MergeProgress,
): Promise<Merged> {
  // files of a folder are made in a hidden one, and appear together
  const hidden = join(dirname(target.path), `.${basename(target.path)}.rredcot-merge`);
  const isFolder = target.fileBytes !== undefined;
  for (const path of isFolder ? [target.rejects] : [target.path, target.rejects])
    await removeHalfWritten(path);
  if (isFolder) {
    await rm(hidden, { recursive: true, force: true });
    await mkdir(hidden, { recursive: true });
  }
  const files: string[] = [];
  const nextPath = (): string => {
    if (!isFolder) return target.path;
    files.push(`data-${String(files.length).padStart(5, '0')}.${target.extension}`);
    return join(hidden, files.at(-1) as string);
  };
  const format = formatOf(`x.${state.description.output}`);
  const rejects = openMergedRejects(target.rejects, state.description.inputs);
  const spill = join(dirname(target.path), `.${basename(target.path)}`);
  const limit = target.fileBytes === undefined ? undefined : filled * target.fileBytes - OVERHEAD_BYTES;
  const rotation = { nextPath, limit, maxFileBytes: target.fileBytes };
  try {
    const traces =
      format === 'jsonl'
        ? await copyStripes(state, openLineSource(spill), rejects, lineWriter(rotation), progress)
        : await copyStripes(
            state,
            openColumnarSource(format, spill),
            rejects,
            batchWriter(target.format === 'arrow' ? 'arrow' : 'parquet', rotation),
            progress,
          );
    const counted = state.shards.flatMap(({ chunks }) => chunks);
    const rejected = counted.reduce((sum, record) => sum + record.rejects, 0);
    if (isFolder) {
      await writeCard(hidden, state, target, { rows: traces, rejects: rejected });
      await syncFolder(hidden);
      await rename(hidden, target.path);
      await syncFolder(dirname(target.path));
    }
    return {
      traces,
      rejects: rejected,
      files: isFolder ? files.map((name) => join(target.path, name)) : [target.path],
    };
  } finally {
    await rejects.abort();
    if (isFolder) await rm(hidden, { recursive: true, force: true });
  }
}

/** The dataset card of a folder of files; none where no shard is done, which is the first to know all columns. */
async function writeCard(
  folder: string,
  { shards }: RunState,
  { format, extension }: MergeTarget,
  counts: Pick<CardFacts, 'rows' | 'rejects'>,
): Promise<void> {
  const source = shards.find(({ card }) => card !== undefined)?.card;
  if (source === undefined) return;
  const facts = { ...source, ...counts, format, files: `data-*.${extension}` };
  await writeText(join(folder, CARD_NAME), datasetCard(facts));
}

async function copyStripes<T>(
  state: RunState,
  source: ChunkSource<T>,
  rejects: MergedRejects,
  writer: PieceWriter<T>,
  { onTraces }: MergeProgress,
): Promise<number> {
  const numbers = new Set(state.shards.flatMap(({ chunks }) => chunks.map(({ chunk }) => chunk)));
  const stripes = [...numbers].sort((a, b) => a - b);
  let traces = 0;
  let next: Promise<Prepared<T>> | undefined;
  try {
    for (const [n, chunk] of stripes.entries()) {
      const prepared = await (next ?? prepare(state, source, chunk));
      const following = stripes[n + 1];
      // decoded while this one is encoded
      next = following === undefined ? undefined : prepare(state, source, following);
      next?.catch(() => {});
      try {
        await rejects.add(prepared.rejects);
        const { lanes, rowsPerBlock, stripe } = prepared;
        const header = source.header as ChunkHeader;
        for await (const pieces of interleave(lanes, rowsPerBlock, BATCH_BYTES, stripe.load)) {
          traces += pieces.reduce((sum, { from, to }) => sum + to - from, 0);
          onTraces(traces);
          if (pieces.length > 0) await writer.write(pieces, header, stripe.compression);
        }
      } finally {
        await prepared.stripe.close();
      }
    }
    // the rejects first, so that whoever sees the rows finds them
    await rejects.commit();
    await writer.close(source.header as ChunkHeader);
    return traces;
  } finally {
    await next?.then(({ stripe }) => stripe.close()).catch(() => {});
    await writer.abort();
    await source.close();
  }
}

interface Prepared<T> {
  readonly stripe: Stripe<T>;
  readonly lanes: readonly Lane[];
  readonly rowsPerBlock: number;
  readonly rejects: readonly string[];
}

/** Checks the chunks of one number in all shards, and lays them out for reading. */
async function prepare<T>(
  { folder, description, shards }: RunState,
  source: ChunkSource<T>,
  chunk: number,
): Promise<Prepared<T>> {
  const paths = runPaths(folder);
  const present: { shard: Shard; record: ChunkRecord }[] = [];
  for (const { shard, chunks, missing } of shards) {
    const record = chunks.find((candidate) => candidate.chunk === chunk);
    if (record !== undefined && !missing.includes(chunk)) present.push({ shard, record });
  }
  const rows = present.reduce((sum, { record }) => sum + record.rows, 0);
  const rawBytes = present.reduce((sum, { record }) => sum + record.raw_bytes, 0);
  // a lane that is missing moves no other: lanes hold the same rows in the same order without it
  const rowsPerBlock = blockRows(present.length, rawBytes / Math.max(1, rows), BATCH_BYTES);
  const stripe = await source.openStripe();
  try {
    const lanes: Lane[] = [];
    const rejects: string[] = [];
    for (const { shard, record } of present) {
      const path = paths.chunk(shard, chunk, description.output);
      const damage = await chunkDamage(folder, shard, record, description.output);
      if (damage !== undefined) throw damaged(damage);
      const counts = record.traces_per_row ?? new Uint8Array(record.rows).fill(1);
      const cuts = present.length === 1 ? [] : blockCuts(counts, rowsPerBlock);
      const parts = await stripe.parts(path, cuts).catch((error: unknown) => {
        if (error instanceof RredcotError) throw error;
        throw damaged(`${path}: cannot be read: ${(error as Error).message}`);
      });
      lanes.push({ counts, blocks: present.length === 1 ? [parts] : partsByBlock(parts, cuts) });
      if (record.rejects_sha256 !== null) rejects.push(paths.reject(shard, chunk));
    }
    return { stripe, lanes, rowsPerBlock, rejects };
  } catch (error) {
    await stripe.close();
    throw error;
  }
}

function damaged(message: string): RredcotError {
  return new RredcotError(message, {
    exitCode: EXIT.data,
    hint: 'the command that made the run, once more: it makes the chunk anew',
  });
}

/** Removes what a merge into the same file has left half written when it was killed. */
async function removeHalfWritten(path: string): Promise<void> {
  const folder = dirname(path);
  const start = `.${basename(path)}.`;
  for (const name of await readdir(folder).catch((): string[] => []))
    if (name.startsWith(start) && /^[0-9a-f]{8}\.tmp$/.test(name.slice(start.length)))
      await rm(join(folder, name), { force: true });
}
