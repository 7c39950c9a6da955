// `rredcot verify`: reads a run, or one of its files, again from end to end and tells what is not as it should be.
import { readdir, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { EXIT, type ExitCode, throwIfInterrupted, usageError } from '../errors.js';
import { EXPORT_FORMS, EXPORTS, type ExportName } from '../io/export/exports.js';
import { readJson } from '../io/files/json-file.js';
import { chunkCount, ownChunks, shardOf } from '../io/layout/chunks.js';
import { chunkNumber, runPaths } from '../io/layout/run-paths.js';
import { type ChunkReader, openChunkReader } from '../io/parquet/chunk-reader.js';
import { type ChunkRecord, type ShardRecord, sumCounts } from '../io/run/records.js';
import { locateRun, type RunState, readRunState } from '../io/run/state.js';
import { chunkFindings, type Finding, type RereadRow, rowFindings } from '../io/verify/check-chunk.js';
import { openRows } from '../io/verify/stored-rows.js';
import { formatOf } from '../io/write/output.js';
import { are, count, plural } from '../plural.js';
import type { Log } from '../report/log.js';
import { inspectInputs, rereadRows } from './job/reread-inputs.js';

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
      return conclude(
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
  const canReread = unread === undefined && replaced.length === 0;
  const all = shards.reduce((sum, { chunks }) => sum + chunks, 0);
  let checked = 0;
  for await (const finding of chunksFindings(state, canReread, parquet)) {
    throwIfInterrupted(signal);
    if (finding !== null) found.add(finding);
    else log.progress(`checking: ${count(++checked)} of ${plural(all, 'chunk')}`, { chunks: checked });
  }
  for await (const finding of recordFindings(state)) found.add(finding);

  const { traces, rejects } = sumCounts(shards.map(({ counts }) => counts));
  const summary = `${plural(all, 'chunk')}, ${plural(traces, 'trace')}, ${plural(rejects, 'reject')}`;
  const unfinished = shards.filter(({ isDone }) => !isDone).length;
  if (unfinished === 0) return conclude(found, `${folder}: ${summary}`, log);
  const code = conclude(
    found,
    `${folder}: ${summary} so far; ${unfinished} of ${plural(shards.length, 'shard')} ${are(unfinished)} not done`,
    log,
  );
  return code === EXIT.done ? EXIT.interrupted : code;
}

/** What is wrong with the chunks, in their order, beside the rows of the inputs; null after each that is there. */
async function* chunksFindings(
  { folder, description, shards, rows, end }: RunState,
  canReread: boolean,
  parquet: ChunkReader,
): AsyncGenerator<Finding | null> {
  const { shards: n, rows_per_chunk: rowsPerChunk } = description;
  const paths = runPaths(folder);
  const format = description.output;
  const inputs = canReread ? rereadRows(description) : undefined;
  const last = Math.max(end, rows === null ? 0 : chunkCount(rows, rowsPerChunk));
  try {
    for (let chunk = 0; ; chunk++) {
      const own = inputs === undefined ? undefined : await take(inputs, rowsPerChunk);
      if (chunk >= last && (own === undefined || own.length === 0)) return;
      const shard = shardOf(chunk, n);
      const record = await readJson<ChunkRecord>(paths.record(shard, chunk));
      if (record !== undefined) yield* chunkFindings({ folder, description, format, parquet }, record, own);
      else if (shards[shard.index]?.isDone)
        yield { file: paths.record(shard, chunk), text: 'is missing or damaged, though its shard is done' };
      if (record !== undefined) yield null;
    }
  } finally {
    await inputs?.return(undefined);
  }
}

/** The next rows, at most so many. */
async function take(rows: AsyncGenerator<RereadRow>, count: number): Promise<RereadRow[]> {
  const taken: RereadRow[] = [];
  while (taken.length < count) {
    const next = await rows.next();
    if (next.done) break;
    taken.push(next.value);
  }
  return taken;
}

/** What the records of shards say of their chunks, and the files that no record knows. */
async function* recordFindings({
  folder,
  description,
  shards,
  rows,
  hasSuccess,
}: RunState): AsyncGenerator<Finding> {
  const paths = runPaths(folder);
  for (const { shard } of shards) {
    const file = paths.done(shard);
    const done = await readJson<ShardRecord>(file);
    if (done === undefined) continue;
    const sum = sumCounts(done.chunks);
    for (const field of ['rows', 'traces', 'rejects', 'tokens'] as const)
      if (done[field] !== sum[field])
        yield {
          file,
          text: `counts ${plural(done[field], field.slice(0, -1))}, its chunks ${sum[field]} together`,
        };
    for (const own of done.chunks) {
      const record = await readJson<ChunkRecord>(paths.record(shard, own.chunk));
      if (record !== undefined && !isDeepStrictEqual(record, own))
        yield {
          file: paths.record(shard, own.chunk),
          text: `is not what ${basename(file)} says of the chunk`,
        };
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

function conclude(found: Findings, summary: string, log: Log): ExitCode {
  log.record('verified', { findings: found.total });
  log.info(`${summary}; ${found.total === 0 ? 'nothing found' : plural(found.total, 'finding')}`);
  return found.total === 0 ? EXIT.done : EXIT.data;
}

/** Errors meant for the user go on; what a reader throws at damaged bytes is a finding. */
function rethrowOurs(error: unknown): void {
  if (error instanceof Error && error.name === 'RredcotError') throw error;
}
