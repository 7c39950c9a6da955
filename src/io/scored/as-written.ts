// Refuses a scored file or folder whose bytes are not those that were written.
import { dataError, type RredcotError } from '../../errors.js';
import { shardOf } from '../files/chunks.js';
import { sha256OfFile } from '../files/file-bytes.js';
import { sealFault } from '../files/seal.js';
import { readSum } from '../files/sum-file.js';
import { readMerged } from '../run/merged.js';
import { chunkDamage } from '../run/records.js';
import { readRunState, recordsInOrder } from '../run/state.js';
import { sumFault } from './check-beside.js';

/** What is said of bytes that nobody of ours has written. */
export function edited(file: string, fault: string): RredcotError {
  return dataError(`${file}: ${fault}`, 'take the file as score wrote it; to edit rows, score them again');
}

/** What is wrong with a file's bytes: null where nothing is, undefined where nobody knows their hash. @param isText JSON lines */
export async function bytesFault(file: string, isText: boolean): Promise<string | null | undefined> {
  return isText ? sumFault(file, await readSum(file)) : sealFault(file);
}

/** Holds a folder against its records. @throws RredcotError (exit 65) */
export async function assertRecorded(folder: string): Promise<void> {
  const merged = await readMerged(folder);
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
