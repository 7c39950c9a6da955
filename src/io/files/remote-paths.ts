// Says how to get what a path names that is nothing on this machine: an address.
import { basename } from 'node:path';
import { type RredcotError, usageError } from '../../errors.js';
import { shellWord } from '../../printable.js';

/** An address of whatever kind. */
export const ADDRESS = /^(?!file:)[a-z][a-z0-9+.-]*:\/\/.+$/i;
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

/** @param datasets `datasets/` where it is no model's */
export function hubDownload(repository: string, datasets?: string): string {
  const type = datasets === undefined ? '' : ' --repo-type dataset';
  return `hf download ${repository}${type} --local-dir ${shellWord(basename(repository))}`;
}
