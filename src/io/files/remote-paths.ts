// Says how to get what a path names that is nothing on this machine: an address.
import { basename } from 'node:path';
import { type RredcotError, usageError } from '../../errors.js';
import { shellWord } from '../../printable.js';

const ADDRESS = /^(?!file:)([a-z][a-z0-9+.-]*):\/\/.+$/i;
/** An address of the Hub: of a data set or a model, its owner and name. */
export const HUB =
  /^(?:hf:\/\/|https?:\/\/(?:www\.)?(?:huggingface\.co|hf\.co)\/)(datasets\/)?([\w.-]+\/[\w.-]+)/i;
const FILE = /\.[a-z]+(\.(gz|zst))?$/i;

/** What is wrong with a path that is an address; undefined where it is none. */
export function addressError(path: string): RredcotError | undefined {
  const [, scheme] = ADDRESS.exec(path) ?? [];
  if (scheme === undefined) return undefined;
  const [, datasets, repository] = HUB.exec(path) ?? [];
  const command = repository === undefined ? copying(path, scheme) : hubDownload(repository, datasets);
  return usageError(
    `${path}: is an address that is not opened here`,
    `download it first${command === undefined ? '' : `: ${command}`}, then give that file or folder`,
  );
}

/** @throws RredcotError (exit 2) for an output that is an address, and no file or folder of this machine */
export function assertHere(path: string): void {
  const [, scheme] = ADDRESS.exec(path) ?? [];
  if (scheme === undefined) return;
  const name = shellWord(basename(path));
  const verb = FILE.test(path) ? 'cp' : 'sync';
  const command = /^s3$/i.test(scheme) ? `: aws s3 ${verb} ${name} ${shellWord(path)}` : '';
  throw usageError(
    `${path}: is an address, which is not written here`,
    `${name}${path.endsWith('/') ? '/' : ''}, and upload that when it is done${command}`,
  );
}

/** The same of an output that may be an object, or a folder of them. @throws RredcotError (exit 2) for a bucket */
export function assertWritable(path: string): void {
  const isOfS3 = /^s3:/i.test(path);
  if (!isOfS3) assertHere(path);
  if (isOfS3 && !/^s3:\/\/[^/]+\/./i.test(path))
    throw usageError(
      `${path}: names no object`,
      's3://<bucket>/<key>.parquet, or a folder: s3://<bucket>/out/',
    );
}

/** The command that most have for it; of a pattern none has one. */
function copying(path: string, scheme: string): string | undefined {
  if (/[*?[\]{}]/.test(path)) return undefined;
  const [address, folder] = [shellWord(path), shellWord(basename(path))];
  if (/^https?$/i.test(scheme)) return `curl -LO ${address}`;
  if (!/^s3$/i.test(scheme)) return undefined;
  return FILE.test(path) ? `aws s3 cp ${address} .` : `aws s3 sync ${address} ${folder}`;
}

/** @param datasets `datasets/` where it is no model's */
export function hubDownload(repository: string, datasets?: string): string {
  const type = datasets === undefined ? '' : ' --repo-type dataset';
  return `hf download ${repository}${type} --local-dir ${shellWord(basename(repository))}`;
}
