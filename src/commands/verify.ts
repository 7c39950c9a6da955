// `rredcot verify`: reads a run, or one of its files, again from end to end and tells what is not as it should be.
import { readdir, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { EXIT, type ExitCode, throwIfInterrupted } from '../errors.js';
import { chunkFindings, type Finding, type InputRows, rowFindings } from '../io/check-chunk.js';
import { type ChunkReader, openChunkReader } from '../io/chunk-reader.js';
import { EXPORT_FORMS, EXPORTS, type ExportName } from '../io/export/exports.js';
import { formatOf } from '../io/output.js';
import { readShard, runPaths } from '../io/run-folder.js';
import { chunkCount, locateRun, ownRows, type RunState, readRunState, sumCounts } from '../io/run-state.js';
import { shardName } from '../io/shard.js';
import { openRows } from '../io/stored-rows.js';
import { are, count, plural } from '../plural.js';
import type { Log } from '../report/log.js';
import { countInputs, inspectInputs } from './input-counts.js';
import { usageError } from './options.js';

export interface VerifyOptions {
  readonly signal: AbortSignal;
  /** takes one line for stdout */
  readonly print: (line: string) => void;
}

/** Columns that no input is likely to have. */
const OWN_COLUMNS = ['sigma', 'segments', 'entropies', 'logprobs', 'source_row', 'status'];

/** A file with more findings than this is told to be so: one cause has many effects. */
const MAX_FINDINGS_A_FILE = 20;

/**
 * Checks a run folder or a scored file; every finding is a line on stdout that names file and row.
 * @returns 65 where there are findings, 75 where there are none but the run is not finished
 */
export async function verify(out: string, opts: VerifyOptions, log: Log): Promise<ExitCode> {
  const parquet = openChunkReader();
  const found = new Findings(opts.print);
  try {
    if ((await stat(out).catch(() => null))?.isFile()) {
      const rows = await verifyFile(out, parquet, found, opts, log);
      return ending(
        found,
        `${out}: ${plural(rows, 'trace')}; a file names no inputs, only its rows were checked`,
        log,
      );
    }
    const folder = await locateRun(out);
    if (folder === undefined) throw usageError(`${out}: is neither a folder nor a file`, 'name a run folder');
    return await verifyRun(await readRunState(folder), parquet, found, opts, log);
  } finally {
    await parquet.close();
  }
}

async function verifyFile(
  path: string,
  parquet: ChunkReader,
  found: Findings,
  { signal }: VerifyOptions,
  log: Log,
): Promise<number> {
  const format = formatOf(path);
  let traces = 0;
  try {
    const { columns, chosen, rows } = await openRows(path, format, parquet);
    const form = columns && exportOf(columns);
    if (form)
      throw usageError(
        `${path}: has the columns of --export ${form}, none of which can be checked in a file by itself`,
        'give score a folder (-o out/) and verify that, then merge it into a file',
      );
    if (columns?.some((name) => OWN_COLUMNS.includes(name)) === false)
      throw usageError(
        `${path}: has none of our columns (${OWN_COLUMNS.join(', ')}), expected a file of score or segment`,
        'name an output, not an input',
      );
    for await (const finding of rowFindings(path, rows, chosen)) {
      throwIfInterrupted(signal);
      if ('text' in finding) found.add(finding);
      else log.progress(`checking: ${plural(++traces, 'trace')}`, { traces });
    }
  } catch (error) {
    rethrowOurs(error);
    found.add({ file: path, text: `cannot be read: ${(error as Error).message}` });
  }
  return traces;
}

/** The export whose columns a file has in place of ours; undefined where it has ours. */
function exportOf(columns: readonly string[]): ExportName | undefined {
  if (columns.includes('status') || columns.includes('sigma')) return undefined;
  return EXPORTS.find((form) => EXPORT_FORMS[form].columns.every(({ name }) => columns.includes(name)));
}

async function verifyRun(
  state: RunState,
  parquet: ChunkReader,
  found: Findings,
  { signal }: VerifyOptions,
  log: Log,
): Promise<ExitCode> {
  const { folder, description, shards } = state;
  const { replaced, touched, unread } = await inspectInputs(description);
  for (const finding of replaced) found.add(finding);
  for (const path of touched)
    log.warn('input_touched', `${path}: was written since, but its size and both its ends are the same`);
  if (unread !== undefined)
    log.warn(
      'inputs_gone',
      `the inputs cannot be compared, only what the run itself holds is checked: ${unread}`,
    );
  const inputs =
    unread !== undefined || replaced.length > 0
      ? undefined
      : await countInputs(description, (rows) => {
          throwIfInterrupted(signal);
          log.progress(`reading the inputs: ${plural(rows, 'row')}`, { rows });
        });
  const format = formatOf(`x.${description.output}`);
  const check = { folder, description, format, inputs, parquet };
  const all = shards.reduce((sum, { chunks }) => sum + chunks.length, 0);
  let done = 0;
  for (const { shard, chunks } of shards)
    for (const record of chunks) {
      for await (const finding of chunkFindings(check, shard, record)) {
        throwIfInterrupted(signal);
        found.add(finding);
      }
      throwIfInterrupted(signal);
      log.progress(`checking: ${count(++done)} of ${plural(all, 'chunk')}`, { chunks: done });
    }
  for await (const finding of recordFindings(state, inputs)) found.add(finding);

  const { traces, rejects } = sumCounts(shards.flatMap(({ chunks }) => chunks));
  const summary = `${plural(all, 'chunk')}, ${plural(traces, 'trace')}, ${plural(rejects, 'reject')}`;
  const unfinished = shards.filter(({ isDone }) => !isDone).length;
  if (unfinished === 0) return ending(found, `${folder}: ${summary}`, log);
  const code = ending(
    found,
    `${folder}: ${summary} so far; ${unfinished} of ${plural(shards.length, 'shard')} ${are(unfinished)} not done`,
    log,
  );
  return code === EXIT.done ? EXIT.interrupted : code;
}

/** What the records say of each other, of the files beside them, and of the number of input rows. */
async function* recordFindings(
  { folder, description, shards, rows, hasSuccess }: RunState,
  inputs: InputRows | undefined,
): AsyncGenerator<Finding> {
  const paths = runPaths(folder);
  const inputRows = inputs?.traces.length ?? rows;
  for (const { shard, chunks, isDone } of shards) {
    if (!isDone) continue;
    const file = paths.done(shard);
    const { done } = await readShard(folder, shard);
    const sum = sumCounts(chunks);
    for (const field of ['rows', 'traces', 'rejects', 'tokens'] as const)
      if (done?.[field] !== sum[field])
        yield {
          file,
          text: `counts ${plural(done?.[field] ?? 0, field.slice(0, -1))}, its chunks ${sum[field]} together`,
        };
    if (inputRows !== null && sum.rows !== ownRows(inputRows, shard))
      yield {
        file,
        text: `counts ${plural(sum.rows, 'row')}, the inputs have ${ownRows(inputRows, shard)} for ${shardName(shard)}`,
      };
    const expected =
      inputRows === null ? chunks.length : chunkCount(inputRows, shard, description.rows_per_chunk);
    for (let chunk = 0; chunk < expected; chunk++)
      if (!chunks.some((record) => record.chunk === chunk)) yield { file, text: `knows no chunk ${chunk}` };

    const known = new Set(
      chunks.flatMap(({ chunk }) => [
        basename(paths.chunk(shard, chunk, description.output)),
        basename(paths.reject(shard, chunk)),
      ]),
    );
    for (const at of [paths.chunks(shard), paths.rejects(shard)])
      for (const name of (await readdir(at).catch((): string[] => [])).sort())
        if (!name.startsWith('.') && !known.has(name))
          yield { file: join(at, name), text: 'is in no record, though its shard is done' };
  }
  if (hasSuccess && shards.some(({ isDone }) => !isDone))
    yield { file: paths.success, text: 'is there, though not every shard is done' };
}

/** Prints findings, and stops to do so for a file with too many. */
class Findings {
  total = 0;
  private readonly byFile = new Map<string, number>();

  constructor(private readonly print: (line: string) => void) {}

  add({ file, row, text }: Finding): void {
    this.total++;
    const n = (this.byFile.get(file) ?? 0) + 1;
    this.byFile.set(file, n);
    if (n > MAX_FINDINGS_A_FILE + 1) return;
    const place = row === undefined ? file : `${file}: row ${row}`;
    this.print(n > MAX_FINDINGS_A_FILE ? `${file}: and more` : `${place}: ${text}`);
  }
}

function ending(found: Findings, summary: string, log: Log): ExitCode {
  log.record('verified', { findings: found.total });
  log.info(`${summary}; ${found.total === 0 ? 'nothing found' : plural(found.total, 'finding')}`);
  return found.total === 0 ? EXIT.done : EXIT.data;
}

/** Errors meant for the user go on; what a reader throws at damaged bytes is a finding. */
function rethrowOurs(error: unknown): void {
  if (error instanceof Error && error.name === 'RredcotError') throw error;
}
