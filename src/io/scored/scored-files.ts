// Finds the files that names of scored files and run folders stand for, and what each says of how it was made.

import { realpath, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { dataError, EXIT, RredcotError, usageError } from '../../errors.js';
import { shardOf } from '../files/chunks.js';
import { addressError } from '../files/elsewhere.js';
import { runPaths } from '../files/run-paths.js';
import type { ChunkReader } from '../parquet/chunk-reader.js';
import { readMerged } from '../run/merged.js';
import { readRunState, recordsInOrder } from '../run/state.js';
import { readSummary } from '../run/summary-file.js';
import { formatOf, type OutputFormat, POLICY_KEY } from '../write/output.js';
import { assertRecorded, bytesFault, edited } from './as-written.js';
import { openRows, type StoredRow, storedConfig } from './stored-rows.js';

/** A file of scored rows, opened. */
export interface ScoredFile {
  readonly path: string;
  /** undefined where it has no row and no columns */
  readonly columns: readonly string[] | undefined;
  /** the resolved configuration of the run that made it; undefined where nothing tells */
  readonly config: Readonly<Record<string, unknown>> | undefined;
  /** sha256 of the policy's files; undefined where nothing tells */
  readonly policy: Readonly<Record<string, string>> | undefined;
  /** to be read to the end, or returned, before the next file */
  readonly rows: AsyncGenerator<StoredRow>;
}

/** What is known of a file before it is opened. */
interface KnownFile {
  readonly path: string;
  readonly format: OutputFormat;
  readonly config?: ScoredFile['config'];
  readonly policy?: ScoredFile['policy'];
  /** of a folder, whose records its bytes were held against */
  readonly isRecorded?: boolean;
}

/**
 * Opens scored files one after the other, those of folders in the order of their rows.
 * @throws RredcotError: exit 2 for a name that stands for nothing of ours or for a file that was there before, 65 for a file that cannot be read, 75 for a run
 * that is not finished
 */
export async function* scoredFiles(
  paths: readonly string[],
  parquet: ChunkReader,
): AsyncGenerator<ScoredFile> {
  const seen = new Map<string, string>();
  for (const path of paths)
    for await (const file of filesOf(path)) {
      const real = await realpath(file.path).catch(() => file.path);
      const other = seen.get(real);
      // each of its traces would count twice
      if (other !== undefined)
        throw usageError(
          `${file.path}: is given twice${other === file.path ? '' : `, also as ${other}`}`,
          'name each file once',
        );
      seen.set(real, file.path);
      const { metadata, columns, rows } = await openRows(file.path, file.format, parquet).catch(
        (error: unknown) => {
          throw unreadable(error, file.path);
        },
      );
      const fault = file.isRecorded ? null : await bytesFault(file.path, file.format === 'jsonl');
      if (typeof fault === 'string') throw edited(file.path, fault);
      const stored = storedConfig(metadata);
      const policy = metadata.get(POLICY_KEY);
      yield {
        path: file.path,
        columns,
        config: file.config ?? (Object.keys(stored).length > 0 ? stored : undefined),
        policy: file.policy ?? (policy === undefined ? undefined : JSON.parse(policy)),
        rows: named(rows, file.path),
      };
    }
}

/** Damage of a file is told as what it is, by the file's name. */
async function* named(rows: AsyncGenerator<StoredRow>, path: string): AsyncGenerator<StoredRow> {
  try {
    yield* rows;
  } catch (error) {
    throw unreadable(error, path);
  }
}

function unreadable(error: unknown, path: string): unknown {
  if (error instanceof RredcotError) return error;
  const { message } = error as Error;
  return dataError(
    message.startsWith(path) ? message : `${path}: ${message}`,
    'rredcot verify names what is damaged; score makes it again',
  );
}

async function* filesOf(path: string): AsyncGenerator<KnownFile> {
  const found = await stat(path).catch(() => null);
  if (found === null)
    throw (
      addressError(path) ??
      usageError(`${path}: no such file or folder`, 'name a file or folder that score has written')
    );
  if (found.isFile()) {
    const format = formatOf(path);
    // JSON lines say nothing of themselves, the summary beside them does
    const config = format === 'jsonl' ? (await readSummary(path))?.config : undefined;
    yield { path, format, config };
    return;
  }
  const folder = path.replace(/(?<=.)\/+$/, '');
  const merged = await readMerged(folder);
  if (merged === null)
    throw dataError(`${folder}: its _merged.json is damaged`, 'rredcot merge makes it again');
  if (merged !== undefined) {
    await assertRecorded(folder);
    const known = { format: merged.output, config: merged.config, isRecorded: true };
    for (const { name } of merged.files) yield { path: join(folder, name), ...known };
    return;
  }
  const state = await readRunState(folder);
  const { config, policy, output: format } = state.description;
  if (!state.isFinished)
    throw new RredcotError(`${folder}: the run is not finished`, {
      exitCode: EXIT.interrupted,
      hint: 'the command that made it, once more; rredcot status says what is missing',
    });
  await assertRecorded(folder);
  for await (const { chunk } of recordsInOrder(state)) {
    const at = runPaths(folder).chunk(shardOf(chunk, state.shards.length), chunk, format);
    yield { path: at, format, config, isRecorded: true, ...(policy === null ? {} : { policy }) };
  }
}
