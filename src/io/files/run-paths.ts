// The run folder (DESIGN §5): where each of its files stands.
import { basename, dirname, join } from 'node:path';
import { type Shard, shardName } from './chunks.js';

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
    chunk: (shard: Shard, chunk: number, extension: string) =>
      join(folder, 'chunks', shardName(shard), `${number(chunk)}.${extension}`),
    reject: (shard: Shard, chunk: number) =>
      join(folder, 'rejects', shardName(shard), `${number(chunk)}.jsonl`),
    record: (shard: Shard, chunk: number) => join(folder, 'done', shardName(shard), `${number(chunk)}.json`),
    done: (shard: Shard) => join(folder, 'done', `${shardName(shard)}.json`),
  };
}

/** Where a single file is made until it is whole: a run folder beside it. */
export function hiddenFolder(path: string): string {
  return join(dirname(path), `.${basename(path)}.rredcot-run`);
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
