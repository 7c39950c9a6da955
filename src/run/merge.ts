// Merges a run's chunks to one file, or to several of a bounded size, with the rejects beside.
import { createHash } from 'node:crypto';
import { mkdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { RredcotError, usageError } from '../errors.js';
import { removeFile, syncFolder } from '../io/files/atomic-file.js';
import { shardOf } from '../io/files/chunks.js';
import { sha256OfFile } from '../io/files/file-bytes.js';
import { removeSum, writeText } from '../io/files/json-file.js';
import { CARD_NAME, mergeFolder, runPaths } from '../io/files/run-paths.js';
import type { OutputFormat } from '../io/write/output.js';
import { PART_KEY } from '../io/write/part.js';
import { datasetCard } from './dataset-card.js';
import { type JoinedFile, joinLines, openChunk, openJoined } from './join.js';
import { type ChunkRecord, chunkDamage, sumCounts } from './records.js';
import { damagedRun, type RunState, recordsInOrder } from './state.js';
import { mergedRun, writeMerged, writeSummary, writeSums } from './summary-file.js';

export interface MergeTarget {
  /** a file, or the folder that files are put into */
  readonly path: string;
  /** undefined: one file of any size */
  readonly fileBytes: number | undefined;
  readonly format: OutputFormat;
  readonly rejects: string;
  readonly replaces: boolean;
}

/** Joined chunks may take a little more than each by itself. */
const FILLED = 0.95;
/** Chunks a file of a folder at most: each is a row group, and a reader reads what is said of all of them first. */
const CHUNKS_PER_FILE = 4096;

/**
 * Merges every chunk that is done, in order. Nothing is visible under the target's name before all of it is there.
 * @param onTraces told how many are merged, every few megabytes; may throw to stop
 * @throws RredcotError (exit 65) naming a chunk that is damaged
 */
export async function mergeRun(state: RunState, target: MergeTarget, onTraces: (traces: number) => void) {
  const { folder, description } = state;
  const paths = runPaths(folder);
  const files = await openFiles(target, state, () => onTraces(traces));
  let rejectsFile: JoinedFile | undefined;
  let [traces, rejects] = [0, 0];
  try {
    for await (const record of recordsInOrder(state)) {
      const shard = shardOf(record.chunk, description.shards);
      const path = paths.chunk(shard, record.chunk, description.output);
      const damage = await chunkDamage(folder, shard, record, description.output);
      if (damage !== undefined) throw damagedRun(damage);
      await files.add(path, record);
      traces += record.traces;
      rejects += record.rejects;
      onTraces(traces);
      if (record.rejects_sha256 === null) continue;
      rejectsFile ??= await joinLines(target.rejects, {
        folder: files.hidden,
        onProgress: () => onTraces(traces),
      });
      await rejectsFile.add(paths.reject(shard, record.chunk));
    }
    const expected = sumCounts(state.shards.map(({ counts }) => counts));
    // a run under way may have more by now
    if (state.isFinished && (traces !== expected.traces || rejects !== expected.rejects))
      throw damagedRun(
        `${folder}: ${traces} traces and ${rejects} rejects are there, its records count ${expected.traces} and ${expected.rejects}`,
      );
    // the rejects first, so that a reader who sees the rows finds them
    let rejectsSha256: string | null = null;
    if (rejectsFile === undefined) await removeFile(target.rejects);
    else rejectsSha256 = await rejectsFile.close();
    const summarise = async (): Promise<void> => {
      const { run, config } = description;
      const { tokens } = expected;
      const figures = { traces, tokens, rejects, output: target.path, part: state.part };
      await writeSummary(target.path, { run, config, folder: files.hidden, rejectsSha256 }, figures);
    };
    const made = await files.close(summarise, async (made, counts) => {
      const facts = state.card && { ...state.card, rows: traces, rejects, format: target.format };
      const card = facts && datasetCard({ ...facts, files: `data-*.${target.format}` });
      if (card !== undefined) await writeText(join(made, CARD_NAME), card);
      const inFolder: { name: string; traces: number; sha256: string }[] = [];
      for (const [name, each] of counts) {
        const sha256 = (await sha256OfFile(join(made, name))) ?? '';
        inFolder.push({ name, traces: each, sha256 });
      }
      await writeMerged(made, {
        ...mergedRun(description),
        output: target.format,
        part: state.part ?? null,
        ...{ traces, rejects, rejects_sha256: rejectsSha256, files: inFolder },
        card_sha256: card === undefined ? null : createHash('sha256').update(card).digest('hex'),
      });
    });
    return { traces, rejects, files: made };
  } finally {
    await rejectsFile?.abort();
    await files.abort();
    await rm(files.hidden, { recursive: true, force: true });
  }
}

/** The files that are made: one, or those of a folder, which is made hidden and appears at once. */
async function openFiles(
  target: MergeTarget,
  { description: { output: from, run }, part }: RunState,
  onProgress: () => void,
) {
  const { path, fileBytes, format: to, replaces } = target;
  // what a limit has cut out says so in each chunk
  const metadata = part?.by === 'pieces' ? { [PART_KEY]: JSON.stringify(part) } : {};
  const hidden = mergeFolder(path);
  const isFolder = fileBytes !== undefined;
  await rm(hidden, { recursive: true, force: true });
  await mkdir(hidden, { recursive: true });
  const limit = isFolder ? FILLED * fileBytes : Number.POSITIVE_INFINITY;
  /** traces by the files' names */
  const made = new Map<string, number>();
  let name = '';
  let file: JoinedFile | undefined;
  let [bytes, chunks] = [0, 0];
  function nextPath(): string {
    if (!isFolder) return path;
    name = `data-${String(made.size).padStart(5, '0')}.${to}`;
    return join(hidden, name);
  }
  return {
    /** where all is until it is whole; a merge that was killed leaves it, and the next one drops it */
    hidden,
    async add(chunk: string, record: ChunkRecord): Promise<void> {
      const size = isFolder ? await joinedBytes(chunk, from, to) : 0;
      const isFull = isFolder && (bytes + size > limit || chunks === CHUNKS_PER_FILE);
      if (file !== undefined && isFull) {
        await file.close();
        file = undefined;
        [bytes, chunks] = [0, 0];
      }
      file ??= await openJoined(nextPath(), { from, to, folder: hidden, replaces, metadata, onProgress });
      bytes += size;
      chunks++;
      made.set(name, (made.get(name) ?? 0) + record.traces);
      const found = await file.add(chunk).catch((error: unknown) => {
        throw told(error, chunk, isFolder);
      });
      if (found !== undefined && found !== record.traces)
        throw damagedRun(`${chunk}: holds ${found} traces, its record says ${record.traces}`);
    },
    /**
     * @param summarise says beside a single file of JSON lines what these cannot
     * @param complete puts what belongs beside the files of a folder, with their traces, into it
     * @returns their names
     */
    async close(
      summarise: () => Promise<void>,
      complete: (folder: string, traces: ReadonlyMap<string, number>) => Promise<void>,
    ): Promise<string[]> {
      if (file === undefined) throw damagedRun(`${path}: there is no chunk to merge`);
      const isLines = !isFolder && to === 'jsonl';
      if (isLines) await removeSum(path);
      if (isLines) await summarise();
      const sha256 = await file.close();
      if (isLines && sha256 !== null) await writeSums(path, sha256, run, hidden);
      if (!isFolder) return [path];
      await complete(hidden, made);
      await syncFolder(hidden);
      await rename(hidden, path);
      await syncFolder(dirname(path));
      return Array.from(made.keys(), (name) => join(path, name));
    },
    async abort(): Promise<void> {
      await file?.abort();
    },
  };
}

/** Bytes that a chunk takes in the file, at most: Arrow is not compressed. */
async function joinedBytes(chunk: string, from: OutputFormat, to: OutputFormat): Promise<number> {
  if (from !== 'parquet' || to !== 'arrow') return (await stat(chunk)).size;
  let bytes = 0;
  for await (const { batch } of (await openChunk(chunk, from)).batches()) bytes += batch.data.byteLength;
  return bytes;
}

function told(error: unknown, chunk: string, isFolder: boolean): unknown {
  if (!(error instanceof RredcotError))
    return damagedRun(`${chunk}: cannot be read: ${(error as Error).message}`);
  if (!/a Parquet file of over/.test(error.message)) return error;
  return usageError(error.message, isFolder ? 'a lower --file-size' : '-o all/, for files of 1GiB');
}
