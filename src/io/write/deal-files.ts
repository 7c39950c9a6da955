// Deals the rows of a run's parts out to folders by what they have in a column, `step=3/part-00000.parquet`, whose names alone keep that.
import { randomBytes } from 'node:crypto';
import { rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Data, RecordBatch } from 'apache-arrow';
import { type AtomicFile, makeFolder, putInPlace } from '../files/atomic-file.js';
import { failed, orAbort, statIfThere } from '../files/files.js';
import { runPaths } from '../files/run-folder.js';
import { hiveFolders } from '../read/hive.js';
import { PART_KEY, sumCounts } from './facts.js';
import { type JoinedParts, joinFiles, openPart } from './join-files.js';

/** @returns a folder of these, whole, for the caller to publish at `path` @throws RredcotError (exit 2) as `hiveFolders` */
export async function dealFiles(path: string, parts: readonly string[], column: string, opts: JoinedParts) {
  const temporaryPath = join(opts.folder, `dealt.${randomBytes(4).toString('hex')}.tmp`);
  const dealt: Pick<AtomicFile, 'temporaryPath' | 'publish' | 'abort'> = {
    temporaryPath,
    abort: () => rm(temporaryPath, { recursive: true, force: true }),
    async publish() {
      const isThere = (await statIfThere(path)) !== null;
      if (isThere) await rename(path, `${temporaryPath}.old`).catch(failed(path, 'written'));
      await putInPlace(temporaryPath, path).catch(failed(path, 'written'));
    },
  };
  const { valueAt } = await import('../arrow/values.js');
  const folderOf = hiveFolders(column);
  /** of each row */
  const foldersOf = ({ data, schema, numRows }: RecordBatch): string[] => {
    const values = data.children[schema.names.indexOf(column)] as Data;
    return Array.from({ length: numRows }, (_, row) => folderOf(valueAt(values, row)));
  };
  const deal = async () => {
    await makeFolder(temporaryPath);
    const partsOf = new Map<string, Set<string>>();
    for (const part of parts) {
      const source = await openPart(part, opts.format);
      for await (const { batch } of source.batches(undefined, (name) => name === column)) {
        opts.onProgress();
        for (const name of new Set(foldersOf(batch)))
          partsOf.set(name, (partsOf.get(name) ?? new Set()).add(part));
      }
      await source.close();
    }
    const metadata = { [PART_KEY]: JSON.stringify({ by: 'pieces', pieces: 1, of: partsOf.size }) };
    // the first says what is of no row that is left
    let { facts } = opts;
    for (const [name, own] of [...partsOf].sort()) {
      const counts = { ...facts, traces: 0, tokens: 0, sigma: 0 };
      const rows = (batch: RecordBatch) => {
        const [ids, sigma] = ['completion_ids', 'sigma'].map((each) => batch.getChild(each));
        const ranges: { from: number; to: number }[] = [];
        for (const [row, each] of foldersOf(batch).entries()) {
          if (each !== name) continue;
          counts.traces++;
          counts.tokens += ids?.get(row)?.length ?? 0;
          for (const share of sigma?.get(row) ?? []) counts.sigma += share;
          const last = ranges.at(-1);
          if (last?.to === row) last.to++;
          else ranges.push({ from: row, to: row + 1 });
        }
        return ranges;
      };
      const file = runPaths(join(temporaryPath, name)).part(0, opts.format);
      await makeFolder(dirname(file));
      const taken = { without: column, metadata, rows };
      await (await joinFiles(file, [...own], { ...opts, facts: counts, taken })).publish();
      facts = { run: facts.run, ...sumCounts([]), rejects_sha256: null };
    }
  };
  await orAbort(deal(), dealt.abort);
  return dealt;
}
