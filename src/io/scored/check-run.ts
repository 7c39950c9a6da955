// Checks a run's records against each other, against `_SUCCESS` and the card, and finds files of no record.
import { readdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { plural } from '../../plural.js';
import { chunkCount, ownChunks } from '../files/chunks.js';
import { readJson, textOf } from '../files/json-file.js';
import { chunkNumber, runPaths } from '../files/run-paths.js';
import { type ShardRecord, sumCounts } from '../run/records.js';
import type { RunState } from '../run/state.js';
import { runEnd, successOf } from '../run/success.js';
import { surveyFault } from '../run/summary-file.js';
import type { Finding } from './check-rows.js';

/** What the records of shards say of their chunks, and the files that no record knows. */
export async function* recordFindings(state: RunState): AsyncGenerator<Finding> {
  const { folder, description, shards, rows } = state;
  const paths = runPaths(folder);
  const fault = await surveyFault(paths.survey, description.run);
  if (fault !== undefined) yield { file: paths.survey, text: fault };
  for (const { shard } of shards) {
    const file = paths.done(shard);
    const done = await readJson<ShardRecord>(file);
    if (done === undefined || !Array.isArray(done.chunks)) continue;
    const sum = sumCounts(done.chunks);
    for (const field of ['rows', 'traces', 'rejects', 'tokens'] as const)
      if (done[field] !== sum[field])
        yield {
          file,
          text: `counts ${plural(done[field], field.slice(0, -1))}, its chunks ${sum[field]} together`,
        };
    for (const own of done.chunks) {
      const path = paths.record(shard, own.chunk);
      const record = await readJson(path);
      if (record !== undefined && !isDeepStrictEqual(record, own))
        yield { file: path, text: `is not what ${basename(file)} says of the chunk` };
    }
    const chunks = rows === null ? undefined : chunkCount(rows, description.rows_per_chunk);
    const expected = chunks === undefined ? done.chunks.length : ownChunks(chunks, shard);
    const known = new Set(done.chunks.map(({ chunk }) => chunk));
    for (let k = 0, chunk = shard.index; k < expected; k++, chunk += shard.count)
      if (!known.has(chunk)) yield { file, text: `knows no chunk ${chunk}` };
    const names = { [paths.chunks(shard)]: description.output, [paths.rejects(shard)]: 'jsonl' };
    for (const [at, extension] of Object.entries(names))
      for (const name of (await readdir(at).catch((): string[] => [])).sort())
        if (!name.startsWith('.') && !(name.endsWith(`.${extension}`) && known.has(chunkNumber(name))))
          yield { file: join(at, name), text: 'is in no record, though its shard is done' };
  }
  yield* endFindings(state);
}

/** `_SUCCESS` and the dataset card against the records. */
async function* endFindings({ folder, description, shards, hasSuccess }: RunState): AsyncGenerator<Finding> {
  const { success, card } = runPaths(folder);
  const isDone = shards.every((shard) => shard.isDone);
  if (hasSuccess && !isDone) yield { file: success, text: 'is there, though not every shard is done' };
  if (isDone && !hasSuccess) yield { file: success, text: 'is missing, though every shard is done' };
  if (!hasSuccess || !isDone) return;
  if (!isDeepStrictEqual(await readJson(success), successOf(description)))
    yield { file: success, text: 'is not that of the run in run.json' };
  const end = await runEnd(folder, description);
  const text = await textOf(card);
  if (end?.card !== undefined && text !== end.card)
    yield {
      file: card,
      text: text === undefined ? 'is missing' : "is not the card that the run's records make",
    };
}
