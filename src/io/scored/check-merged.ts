// Checks a merged folder: its files, rejects and card against its record, and its rows.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { plural } from '../../plural.js';
import { sha256OfFile } from '../files/file-bytes.js';
import { CARD_NAME, rejectsPath } from '../files/run-paths.js';
import type { ChunkReader } from '../parquet/chunk-reader.js';
import { type MergedRecord, mergedPath } from '../run/merged.js';
import { RUN_KEY } from '../write/output.js';
import { type RowChecks, rowFindings } from './check-rows.js';
import type { Finding } from './finding.js';
import { openRows } from './stored-rows.js';

/** Checks a folder that `merge` has made; null after every trace that is there. */
export async function* mergedFindings(
  folder: string,
  record: MergedRecord,
  parquet: ChunkReader,
  checks: RowChecks,
): AsyncGenerator<Finding | null> {
  const rejects = rejectsPath(folder);
  yield* await hashFindings(rejects, record.rejects_sha256);
  yield* await hashFindings(join(folder, CARD_NAME), record.card_sha256);
  const known = new Set(record.files.map(({ name }) => name));
  for (const name of (await readdir(folder)).sort())
    if (!/^[._]/.test(name) && name !== CARD_NAME && !known.has(name))
      yield { file: join(folder, name), text: `is not in ${mergedPath(folder)}` };
  let total = 0;
  for (const { name, traces, sha256 } of record.files) {
    const file = join(folder, name);
    total += traces;
    const changed = await hashFindings(file, sha256);
    yield* changed;
    if (changed.length > 0) continue;
    let found = 0;
    try {
      const { rows, metadata } = await openRows(file, record.output, parquet);
      if (record.output !== 'jsonl' && metadata.get(RUN_KEY) !== record.run)
        yield { file, text: `is of another run than ${mergedPath(folder)}` };
      for await (const each of rowFindings(file, rows, checks)) {
        if ('text' in each) yield each;
        else {
          found++;
          yield null;
        }
      }
    } catch (error) {
      yield { file, text: `cannot be read: ${(error as Error).message}` };
      continue;
    }
    if (found !== traces) yield { file, text: `holds ${plural(found, 'trace')}, its record says ${traces}` };
  }
  if (total !== record.traces)
    yield {
      file: mergedPath(folder),
      text: `counts ${plural(record.traces, 'trace')}, its files ${total} together`,
    };
}

/** At most one. */
async function hashFindings(file: string, expected: string | null): Promise<Finding[]> {
  const found = await sha256OfFile(file);
  if (found === expected) return [];
  if (found === null) return [{ file, text: 'is missing' }];
  return [
    {
      file,
      text: expected === null ? 'is there, its record knows of none' : 'has changed since it was written',
    },
  ];
}
