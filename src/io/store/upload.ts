// Files of this machine put into a store: whole or not at all, and in the place of nothing unless that is asked for.
import { createHash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { OvertakenError } from '../../errors.js';
import { sha256OfFiles } from '../files/files.js';
import { lookAtObject, StoredObject } from './object.js';
import { askS3, refusalOf } from './s3.js';

/**
 * Puts a file there, in one request. An answer that was lost is asked for again: then it is found there, and is ours by its bytes.
 * @param replaces whatever is there; else the store refuses what is not the first
 * @throws RredcotError (exit 2) where another file is there, or the store refuses, (exit 75) where it stays away
 */
export async function putObject(from: string, path: string, replaces: boolean): Promise<void> {
  const file = { path: from, size: (await stat(from)).size, sha256: await sha256OfFiles([from]) };
  const headers: Record<string, string> = replaces ? {} : { 'if-none-match': '*' };
  const answer = await askS3(path, { method: 'PUT', headers, file });
  if (answer.status === 200) return;
  const isUnknown = answer.status === 501 && !replaces;
  if ((isUnknown || answer.status === 412) && (await isThere(file, path))) return;
  // a store that does not know the condition: what is there is looked for, as on a disk
  if (isUnknown && (await lookAtObject(path)) === null) return putObject(from, path, true);
  if (answer.status === 412 || isUnknown) throw new OvertakenError(path);
  throw await refusalOf(path, answer, 'written');
}

export async function removeObject(path: string): Promise<void> {
  const answer = await askS3(path, { method: 'DELETE' });
  if (answer.status >= 300 && answer.status !== 404) throw await refusalOf(path, answer, 'written');
}

async function isThere(file: { readonly size: number; readonly sha256: string }, path: string) {
  const found = await lookAtObject(path);
  if (found?.size !== file.size) return false;
  const there = createHash('sha256');
  for await (const bytes of (await StoredObject.open(path, found.version)).bytes()) there.update(bytes);
  return there.digest('hex') === file.sha256;
}
