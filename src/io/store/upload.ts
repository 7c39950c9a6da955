// Files of this machine put into a store: whole or not at all, and in the place of nothing unless that is asked for.
import { createHash } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import { OvertakenError } from '../../errors.js';
import type { HttpAnswer } from './http.js';
import { lookAtObject, StoredObject } from './object.js';
import { askS3, refusalOf, textOf } from './s3.js';

/** What a larger file is sent in: what is cut off costs no more. */
const PART_BYTES = 16 * 2 ** 20;
/** S3 takes so many. */
const MOST_PARTS = 10_000;
const IF_NEW = { 'if-none-match': '*' } as const;

/**
 * Puts a file there. An answer that was lost is asked for again: then it is found there, and is ours by its bytes.
 * @param replaces whatever is there; else the store refuses what is not the first
 * @throws RredcotError (exit 2) where another file is there, or the store refuses, (exit 75) where it stays away
 */
export async function putObject(from: string, path: string, replaces: boolean): Promise<void> {
  await using file = await open(from, 'r');
  const { size } = await file.stat();
  const condition = replaces ? {} : IF_NEW;
  const answer =
    size <= PART_BYTES
      ? await askS3(path, { method: 'PUT', headers: condition, body: await bytesOf(file, 0, size) })
      : await putParts(file, size, path, condition);
  if (answer.status === 200 && !answer.body.includes('<Error>')) return;
  // 404: the parts are gone, since the first try has put them together
  const isUnknown = answer.status === 501 && !replaces;
  const mayBeOurs = isUnknown || answer.status === 412 || (answer.status === 404 && answer.triedBefore > 0);
  if (mayBeOurs && (await isSame(file, size, path))) return;
  // a store that does not know the condition: what is there is looked for, as on a disk
  if (isUnknown && (await lookAtObject(path)) === null) return putObject(from, path, true);
  if (answer.status === 412 || isUnknown) throw new OvertakenError(path);
  throw await refusalOf(path, answer, 'written');
}

/** @returns the answer that says whether all of it is there now */
async function putParts(
  file: FileHandle,
  size: number,
  path: string,
  condition: Readonly<Record<string, string>>,
): Promise<HttpAnswer> {
  const begun = await askS3(path, { method: 'POST', query: { uploads: '' } });
  const [uploadId] = textOf(begun, 'UploadId');
  if (begun.status !== 200 || uploadId === undefined) return begun;
  const length = Math.max(PART_BYTES, Math.ceil(size / MOST_PARTS));
  let parts = '';
  let answer = begun;
  try {
    for (let from = 0, n = 1; from < size; from += length, n++) {
      const body = await bytesOf(file, from, Math.min(size, from + length));
      answer = await askS3(path, { method: 'PUT', query: { partNumber: `${n}`, uploadId }, body });
      if (answer.status !== 200) return answer;
      parts += `<Part><PartNumber>${n}</PartNumber><ETag>${answer.header('etag')}</ETag></Part>`;
    }
    const body = Buffer.from(`<CompleteMultipartUpload>${parts}</CompleteMultipartUpload>`);
    answer = await askS3(path, { method: 'POST', query: { uploadId }, headers: condition, body });
    return answer;
  } finally {
    // a store keeps parts that were never put together, and wants to be paid for them
    if (answer.status !== 200 || answer.body.includes('<Error>'))
      await askS3(path, { method: 'DELETE', query: { uploadId } }).catch(() => {});
  }
}

/** Removes what is there. */
export async function removeObject(path: string): Promise<void> {
  const answer = await askS3(path, { method: 'DELETE' });
  if (answer.status >= 300 && answer.status !== 404) throw await refusalOf(path, answer, 'written');
}

async function isSame(file: FileHandle, size: number, path: string): Promise<boolean> {
  const found = await lookAtObject(path);
  if (found?.size !== size) return false;
  const [own, there] = [createHash('sha256'), createHash('sha256')];
  for (let from = 0; from < size; from += PART_BYTES)
    own.update(await bytesOf(file, from, Math.min(size, from + PART_BYTES)));
  for await (const bytes of (await StoredObject.open(path, found.version)).bytes()) there.update(bytes);
  return own.digest('hex') === there.digest('hex');
}

async function bytesOf(file: FileHandle, from: number, until: number): Promise<Buffer> {
  const bytes = Buffer.alloc(until - from);
  const { bytesRead } = await file.read(bytes, 0, bytes.length, from);
  if (bytesRead < bytes.length) throw new Error('the file has become shorter');
  return bytes;
}
