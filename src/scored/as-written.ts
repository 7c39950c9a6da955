// Whether a scored file, and what lies beside it, have the bytes that were written.
import { basename } from 'node:path';
import { dataError, type RredcotError } from '../errors.js';
import { shardOf } from '../io/files/chunks.js';
import { sha256OfFile } from '../io/files/file-bytes.js';
import { readSum, sumPath } from '../io/files/json-file.js';
import { summaryPath } from '../io/files/run-paths.js';
import { sealFault } from '../io/files/seal.js';
import { chunkDamage } from '../run/records.js';
import { readRunState, recordsInOrder } from '../run/state.js';
import { readMerged, readSummary, type StoredSummary } from '../run/summary-file.js';
import type { Finding } from './check-rows.js';

/** What is said of bytes that nobody of ours has written. */
export function edited(file: string, fault: string): RredcotError {
  return dataError(`${file}: ${fault}`, 'take the file as score wrote it; to edit rows, score them again');
}

/** What is wrong with a file's bytes: null where nothing is, undefined where nobody knows their hash. @param isText JSON lines */
export async function bytesFault(file: string, isText: boolean): Promise<string | null | undefined> {
  if (!isText) return sealFault(file);
  const sum = await readSum(file);
  if (sum === undefined) return undefined;
  if (sum === null) return `${basename(sumPath(file))} beside it is damaged, and says no hash of it`;
  const [expected] = sum.values();
  return (await sha256OfFile(file)) === expected
    ? null
    : `is not the file that was written: its bytes have another hash than ${basename(sumPath(file))}`;
}

/** Holds a folder against its records. @throws RredcotError (exit 65) */
export async function assertRecorded(folder: string): Promise<void> {
  const merged = await readMerged(folder);
  if (merged === null)
    throw dataError(`${folder}: its _merged.json is damaged`, 'rredcot merge makes it again');
  for (const { name, sha256 } of merged?.files ?? [])
    if ((await sha256OfFile(`${folder}/${name}`)) !== sha256)
      throw edited(`${folder}/${name}`, 'is not the file that was merged');
  if (merged !== undefined) return;
  const state = await readRunState(folder, () => {});
  const { shards, output } = state.description;
  for await (const record of recordsInOrder(state)) {
    const damage = await chunkDamage(folder, shardOf(record.chunk, shards), record, output);
    if (damage !== undefined) throw edited(folder, damage);
  }
}

/**
 * Finds the summary of a file's run.
 * @param run identity in the file's metadata; a file of lines has none, and the hash of its summary beside it
 * @returns the summary where it is that of the file's own run; what cannot be checked without it is a problem
 */
export async function ownSummary(
  file: string,
  run: string | undefined,
): Promise<{ summary: StoredSummary | undefined; findings: readonly Finding[]; problem?: string }> {
  const path = summaryPath(file);
  const summary = await readSummary(file);
  if (run !== undefined) return { summary: summary?.run === run ? summary : undefined, findings: [] };
  const sum = await readSum(file);
  const [, expected] = [...(sum ?? [])].find(([name]) => name.endsWith(summaryPath(''))) ?? [];
  // without a hash of it there is no telling whose it is
  if (expected === undefined) return { summary: undefined, findings: [] };
  const found = await sha256OfFile(path);
  if (found === null) {
    const problem = `${path} is not there: σ and what it follows from are not computed again`;
    return { summary: undefined, findings: [], problem };
  }
  if (found === expected && summary !== undefined) return { summary, findings: [] };
  const text = `is not the summary that was written: it has another hash than ${basename(sumPath(file))} says`;
  return { summary: undefined, findings: [{ file: path, text }] };
}
