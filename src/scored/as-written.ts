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

/** The summary beside a file of lines, where a hash says that it is that of its run; `fault` says that it is another one. */
export async function ownSummary(
  file: string,
): Promise<{ readonly summary?: StoredSummary | undefined; readonly fault?: string }> {
  const path = summaryPath(file);
  const [summary, sum] = [await readSummary(file), await readSum(file)];
  const [, expected] = [...(sum ?? [])].find(([name]) => name.endsWith(summaryPath(''))) ?? [];
  const found = expected === undefined ? null : await sha256OfFile(path);
  if (found === null) return {};
  if (found === expected && summary !== undefined) return { summary };
  return {
    fault: `is not the summary that was written: it has another hash than ${basename(sumPath(file))} says`,
  };
}
