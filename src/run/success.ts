// The end of a shard and of a run: the shard's record, then the dataset card and `_SUCCESS` once all shards are done.
import { isDeepStrictEqual } from 'node:util';
import type { Shard } from '../io/files/chunks.js';
import { statIfThere } from '../io/files/file-error.js';
import { readJson, textOf, writeJson, writeText } from '../io/files/json-file.js';
import { runPaths } from '../io/files/run-paths.js';
import { CARD_HEAD, datasetCard } from './dataset-card.js';
import { readRunDescription } from './description.js';
import {
  type CardSource,
  type ChunkRecord,
  ownRecord,
  type RecordedRun,
  readShardRecord,
  type ShardRecord,
  sumCounts,
} from './records.js';

/** Writes the shard's record, and `_SUCCESS` where it was the last of the run. */
export async function finishShard(
  folder: string,
  run: RecordedRun,
  shard: Shard,
  chunks: ReadonlyMap<number, ChunkRecord>,
  seconds: number,
  card?: CardSource,
): Promise<void> {
  const records = [...chunks.values()].sort((a, b) => a.chunk - b.chunk);
  const record: ShardRecord = {
    run: run.run,
    shard: shard.index,
    shards: shard.count,
    ...sumCounts(records),
    seconds: Math.round(seconds * 1000) / 1000,
    chunks: records,
    ...(card && { card }),
  };
  await writeJson(runPaths(folder).done(shard), record);
  await markSuccess(folder, run);
}

/**
 * Writes the dataset card and `_SUCCESS` where all shards are done: also for a shard whose process died before it could.
 * A card that somebody else has put there stays.
 */
export async function markSuccess(folder: string, run: RecordedRun): Promise<void> {
  const paths = runPaths(folder);
  if (isDeepStrictEqual(await readJson(paths.success), successOf(run))) return;
  const end = await runEnd(folder, run);
  if (end === undefined) return;
  if (end.card !== undefined && (await textOf(paths.card)) === undefined)
    await writeText(paths.card, end.card);
  await writeJson(paths.success, successOf(run));
}

/** What `_SUCCESS` holds. */
export function successOf({ run, shards }: RecordedRun) {
  return { run, shards };
}

/** What the records of a run come to; undefined where a shard is not done. */
export async function runEnd(
  folder: string,
  run: RecordedRun,
): Promise<{ readonly card: string | undefined } | undefined> {
  const paths = runPaths(folder);
  const all = Array.from({ length: run.shards }, (_, index) => ({ index, count: run.shards }));
  // nearly always one is missing, and a thousand records need not be read to see that
  for (const shard of all) if ((await statIfThere(paths.done(shard))) === null) return undefined;
  const sums = { rows: 0, rejects: 0 };
  let card: CardSource | undefined;
  for (const shard of all) {
    const record = await ownRecord(readShardRecord(folder, run, shard));
    if (record === undefined) return undefined;
    sums.rows += record.traces;
    sums.rejects += record.rejects;
    card ??= record.card;
  }
  const facts = card && { ...card, ...sums, files: `chunks/*-of-*/*.${card.format}` };
  return { card: facts && datasetCard(facts) };
}

/** Whether the card in a folder, if there is one, is what the run there has written. @param format of its run.json */
export async function isOwnCard(folder: string, format: number): Promise<boolean> {
  const text = await textOf(runPaths(folder).card);
  if (text === undefined) return true;
  if (format < 3) return text.startsWith(CARD_HEAD);
  const run = await readRunDescription(folder).catch(() => undefined);
  const end = run && (await runEnd(folder, run));
  return text === end?.card;
}
