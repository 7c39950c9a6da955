// Says how to get what a path names that is nothing on this machine: an address.
import { basename } from 'node:path';
import { type RredcotError, usageError } from '../../errors.js';
import { shellWord } from '../../printable.js';

const ADDRESS = /^(?!file:)[a-z][a-z0-9+.-]*:\/\/.+$/i;
/** An address of the Hub: of a data set or a model, its owner and name. */
export const HUB =
  /^(?:hf:\/\/|https?:\/\/(?:www\.)?(?:huggingface\.co|hf\.co)\/)(datasets\/)?([\w.-]+\/[\w.-]+)/i;

/** What is wrong with a path that is an address; undefined where it is none. */
export function addressError(path: string): RredcotError | undefined {
  if (!ADDRESS.test(path)) return undefined;
  const [, datasets, repository] = HUB.exec(path) ?? [];
  const command = repository === undefined ? '' : `: ${hubDownload(repository, datasets)}`;
  return usageError(
    `${path}: is an address that is not opened here`,
    `download it first${command}, then give that file or folder`,
  );
}

/** @throws RredcotError (exit 2) for an output that is an address, and no file or folder of this machine */
export function assertHere(path: string): void {
  if (!ADDRESS.test(path)) return;
  throw usageError(
    `${path}: is an address, which is not written here`,
    `${shellWord(basename(path))}${path.endsWith('/') ? '/' : ''}, and upload that when it is done`,
  );
}

/** The same of an output that may be an object, or a folder of them. @throws RredcotError (exit 2) for a bucket */
export function assertWritable(path: string): void {
  if (!/^s3:/i.test(path)) assertHere(path);
  else if (!/^s3:\/\/[^/]+\/./i.test(path))
    throw usageError(
      `${path}: names no object`,
      's3://<bucket>/<key>.parquet, or a folder: s3://<bucket>/out/',
    );
}

/** @param datasets `datasets/` where it is no model's */
export function hubDownload(repository: string, datasets?: string): string {
  const type = datasets === undefined ? '' : ' --repo-type dataset';
  return `hf download ${repository}${type} --local-dir ${shellWord(basename(repository))}`;
}
