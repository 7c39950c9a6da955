// The run folder (DESIGN §5): where each of its files stands.
import { createHash } from 'node:crypto';
import { homedir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { type Shard, shardName } from './chunks.js';
import { isStored } from './opened.js';

/** Where hubs and loaders look for a dataset's card. */
export const CARD_NAME = 'README.md';

/** The files of a run folder. */
export function runPaths(folder: string) {
  const number = (chunk: number) => String(chunk).padStart(6, '0');
  return {
    run: join(folder, 'run.json'),
    survey: join(folder, 'survey.json'),
    success: join(folder, '_SUCCESS'),
    card: join(folder, CARD_NAME),
    chunks: (shard: Shard) => join(folder, 'chunks', shardName(shard)),
    rejects: (shard: Shard) => join(folder, 'rejects', shardName(shard)),
    records: (shard: Shard) => join(folder, 'done', shardName(shard)),
    ofShard: (shard: Shard) =>
      ['chunks', 'rejects', 'done'].map((name) => join(folder, name, shardName(shard))),
    chunk: (shard: Shard, chunk: number, extension: string) =>
      join(folder, 'chunks', shardName(shard), `${number(chunk)}.${extension}`),
    reject: (shard: Shard, chunk: number) =>
      join(folder, 'rejects', shardName(shard), `${number(chunk)}.jsonl`),
    record: (shard: Shard, chunk: number) => join(folder, 'done', shardName(shard), `${number(chunk)}.json`),
    done: (shard: Shard) => join(folder, 'done', `${shardName(shard)}.json`),
  };
}

/** Notes of the workers that are at work in a run folder; in a name that nobody reads rows from. */
export const WORKERS_NAME = '.workers';

/** Where a single file is made until it is whole: a folder beside it, named by what is made, so that no two runs meet in one. */
export function hiddenFolder(path: string, identity: string): string {
  return `${hiddenStem(path)}${identity.slice(0, HASH_DIGITS)}`;
}

/** Where a merge makes its file or its folder. */
export function mergeFolder(path: string): string {
  return `${hiddenStem(path)}rredcot-merge`;
}

/** The folder in which the folders of an output's runs lie. */
export function hiddenParent(path: string): string {
  return dirname(hiddenStem(path));
}

const HASH_DIGITS = 16;
const HASH = new RegExp(`^[0-9a-f]{${HASH_DIGITS}}$`);

/** Beside the output; of one that goes to a store a place of its own on this machine. */
function hiddenStem(path: string): string {
  if (!isStored(path)) return join(dirname(path), `.${basename(path)}.`);
  const { XDG_CACHE_HOME, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL } = process.env;
  const store = AWS_ENDPOINT_URL_S3 || AWS_ENDPOINT_URL || '';
  const own = createHash('sha256').update(`${store}\n${path}`).digest('hex').slice(0, HASH_DIGITS);
  return join(XDG_CACHE_HOME || join(homedir(), '.cache'), 'rredcot', own, `.${basename(path)}.`);
}

/** The folder of a run of this output in which another path lies, or which it is; undefined where it lies elsewhere. */
export function hiddenFolderAround(output: string, path: string): string | undefined {
  const stem = hiddenStem(output);
  const [name = ''] = path.startsWith(stem) ? path.slice(stem.length).split('/') : [];
  return HASH.test(name) ? `${stem}${name}` : undefined;
}

/** The number of a chunk, by the name of one of its files. */
export function chunkNumber(name: string): number {
  return Number.parseInt(basename(name), 10);
}

/** The rejects of a single file, or of a merged folder, beside it. */
export function rejectsPath(output: string): string {
  return `${output}.rejects.jsonl`;
}

/** A run's closing figures, beside a file or a folder. */
export function summaryPath(output: string): string {
  return `${output}.summary.json`;
}
