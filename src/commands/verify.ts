// `rredcot verify`: reads a run, or one of its files, again from end to end and tells what is not as it should be.
import { EXIT, type ExitCode, throwIfInterrupted, usageError } from '../errors.js';
import { asksForMean, type CreditOptions, isOfMates } from '../estimate/credit.js';
import { knownCredit } from '../estimate/stored-credit.js';
import { stringifyJson } from '../io/arrow/json.js';
import { chunkCount, shardOf } from '../io/files/chunks.js';
import { sumPath } from '../io/files/json-file.js';
import { factsOf } from '../io/files/opened.js';
import { runPaths } from '../io/files/run-paths.js';
import { resolveInputs } from '../io/read/inputs.js';
import type { ExportName } from '../io/write/exports.js';
import { namedFormat } from '../io/write/output.js';
import { type Part, partText } from '../io/write/part.js';
import { are, count, plural } from '../plural.js';
import type { Log } from '../report/log.js';
import { type Named, SeenNames } from '../report/names.js';
import type { InputRow } from '../rows.js';
import { ForeignRecordError, readChunkRecord, sumCounts } from '../run/records.js';
import { inspectInputs, rereadRows } from '../run/reread-inputs.js';
import { locateRun, type RunState, readRunState } from '../run/state.js';
import { type MergedRecord, mergedPath, readMerged } from '../run/summary-file.js';
import { chunkFindings, type RereadRow } from '../scored/check-chunk.js';
import { fileFindings, mergedFindings, recordFindings, type StoredFacts } from '../scored/check-file.js';
import { textFaults } from '../scored/check-row.js';
import { type Finding, type RowChecks, SeenRows } from '../scored/check-rows.js';
import { partOf } from '../scored/origins.js';
import { columnsBeside, remadeFaults } from '../scored/remade.js';
import { type Cells, storedRow } from '../scored/stored-rows.js';
import { segmentFaults } from '../segment/segmenters.js';
import { COLUMNS as SAMPLE_COLUMNS } from './sample.js';
import { COLUMNS, POLICY_COLUMNS } from './segment.js';

export interface VerifyOptions {
  readonly signal: AbortSignal;
  /** takes one line for stdout */
  readonly print: (line: string) => void;
}

/** Columns that no input is likely to have. */
const OWN_COLUMNS = ['sigma', 'segments', 'entropies', 'logprobs', 'source_row', 'status'];

/**
 * Checks a run folder or a scored file; every finding is a line on stdout that names file and row.
 * @returns 65 where there are findings, 75 where there are none but the run is not finished
 */
export async function verify(out: string, opts: VerifyOptions, log: Log): Promise<ExitCode> {
  const found = new Findings(opts.print);
  if ((await factsOf(out).catch(() => null))?.isFile()) {
    const { traces, names } = await verifyFile(out, found, opts, log);
    // what is damaged need not say what it is
    const part = found.total === 0 ? (await partOf(await resolveInputs([out])))?.part : undefined;
    tellOf(out, part, names, log);
    return conclude(
      found,
      `${out}: ${plural(traces, 'trace')}; a file names no inputs, only its rows were checked`,
      log,
    );
  }
  const folder = await locateRun(out);
  if (folder === undefined) throw usageError(`${out}: is neither a folder nor a file`, 'name a run folder');
  const merged = await readMerged(folder);
  if (merged !== undefined && merged !== null) return await verifyMerged(folder, merged, found, opts, log);
  if (merged === null) {
    found.add({ file: mergedPath(folder), text: 'is damaged' });
    return conclude(found, folder, log);
  }
  const onForeign = ({ path }: ForeignRecordError): void =>
    found.add({ file: path, text: 'is of another run than run.json' });
  return await verifyRun(await readRunState(folder, onForeign), found, opts, log);
}

/** What is no fault of a run or of a file, and stands against what follows of its groups. */
function tellOf(out: string, part: Part | undefined, names: SeenNames | undefined, log: Log): void {
  if (part !== undefined) log.warn('part', `${out}: ${partText(part)}: groups may lack traces`);
  for (const { code, message } of names?.warnings ?? []) log.warn(code, message);
}

type NamedChecks = RowChecks & { readonly names: SeenNames };

/** How the rows of a run or of a file are checked, as far as it says how they were made. */
function rowChecks(
  path: string,
  facts: Pick<StoredFacts, 'chosen' | 'export' | 'config' | 'vocab' | 'inputs'>,
): NamedChecks {
  const { config, vocab, inputs } = facts;
  // what cannot be made again would pass unchecked
  const credit = config.command === 'score' ? knownCredit(path, config) : undefined;
  const readsMates = credit?.estimator.hasOutcome === true;
  const isGrouped = credit !== undefined && (asksForMean(credit) || config.bank === 'group' || readsMates);
  const names = new SeenNames(isGrouped);
  const beside = columnsBeside(credit, config);
  return {
    names,
    // a trainer's form has none of our columns
    chosen:
      facts.export === undefined
        ? (withRequested(facts.chosen, credit, config) ?? segmentColumns(config))
        : null,
    isScored: config.command === undefined ? undefined : config.command === 'score',
    vocab,
    seen: new SeenRows(inputs, credit === undefined || asksForMean(credit), credit && isOfMates(credit)),
    remake(ours, row) {
      // an id that comes twice is a finding
      if (isGrouped) names.add(namedRow(ours, row, readsMates), false);
      const stored = storedRow(ours, row, beside);
      return [
        ...segmentFaults(stored, config),
        ...remadeFaults(ours, stored, credit, config),
        ...textFaults(ours, row.columns, config.map),
      ];
    },
  };
}

/** What tells a row's prompt, and its completion where mates are told by it: their ids, or else their texts. */
function namedRow(ours: Cells, { columns }: InputRow, readsMates: boolean): Named {
  const { id, group } = ours;
  const keyOf = (name: string): string | null => {
    const found = ours[`${name}_ids`] ?? columns[name] ?? null;
    return found === null ? null : stringifyJson(found);
  };
  return {
    id: String(id ?? ''),
    group: typeof group === 'string' ? group : undefined,
    prompt: keyOf('prompt'),
    ...(readsMates && { completion: keyOf('completion') ?? undefined }),
  };
}

/** The chosen ones of our columns, and those that were asked for besides. */
function withRequested(
  chosen: readonly string[] | undefined,
  credit: CreditOptions | undefined,
  config: Readonly<Record<string, unknown>>,
) {
  if (chosen === undefined || credit === undefined) return chosen;
  return [...chosen, ...columnsBeside(credit, { ...config, keepSamples: true }).map(({ name }) => name)];
}

/** What `segment` writes where nothing was chosen; undefined for `score`, which writes all of ours. */
function segmentColumns({ command, weights }: Readonly<Record<string, unknown>>) {
  if (command === 'sample') return SAMPLE_COLUMNS;
  if (command !== 'segment') return undefined;
  return weights === 'entropy' ? POLICY_COLUMNS : COLUMNS;
}

/** The same for what a run or a merged folder is described by. */
function describedChecks(
  path: string,
  config: Readonly<Record<string, unknown>>,
  vocab: number | null,
  inputs: number,
): NamedChecks {
  const { columns, export: form } = config as { columns?: readonly string[]; export?: ExportName };
  return rowChecks(path, { chosen: columns, export: form, config, vocab: vocab ?? undefined, inputs });
}

async function verifyFile(
  path: string,
  found: Findings,
  opts: VerifyOptions,
  log: Log,
): Promise<{ readonly traces: number; readonly names: SeenNames | undefined }> {
  const format = namedFormat(path);
  if (format === undefined)
    throw usageError(
      `${path}: the name does not tell the format`,
      'give it the ending that it was written with',
    );
  let names: SeenNames | undefined;
  const checksOf = (facts: StoredFacts): RowChecks => {
    const { columns, export: form } = facts;
    if (form !== undefined)
      throw usageError(
        `${path}: has the columns of --export ${form}, none of which can be checked in a file by itself`,
        'give score a folder (-o out/) and verify that, then merge it into a file',
      );
    if (columns?.some((name) => OWN_COLUMNS.includes(name)) === false)
      throw usageError(
        `${path}: has none of our columns (${OWN_COLUMNS.join(', ')}), expected a file of score or segment`,
        'name an output, not an input',
      );
    const checks = rowChecks(path, facts);
    names = checks.names;
    if (facts.isUnsealed)
      log.warn(
        'no_hash',
        `${path}: nothing says which bytes were written${format === 'jsonl' ? `, ${sumPath(path)} is not there` : ''}: only its rows are checked`,
      );
    if (facts.problem !== undefined) log.warn('not_checked', facts.problem);
    return checks;
  };
  const traces = await gather(fileFindings(path, format, checksOf), found, opts, (n) =>
    log.progress(`checking: ${plural(n, 'trace')}`, { traces: n }),
  );
  return { traces, names };
}

async function verifyMerged(
  folder: string,
  record: MergedRecord,
  found: Findings,
  opts: VerifyOptions,
  log: Log,
): Promise<ExitCode> {
  const checks = describedChecks(folder, record.config, record.vocab, record.inputs);
  const traces = await gather(mergedFindings(folder, record, checks), found, opts, (n) =>
    log.progress(`checking: ${count(n)} of ${plural(record.traces, 'trace')}`, { traces: n }),
  );
  tellOf(folder, record.part ?? undefined, checks.names, log);
  const summary = `${plural(record.files.length, 'merged file')}, ${plural(traces, 'trace')}, ${plural(record.rejects, 'reject')}`;
  return conclude(found, `${folder}: ${summary}; the inputs are not compared`, log);
}

async function verifyRun(state: RunState, found: Findings, opts: VerifyOptions, log: Log): Promise<ExitCode> {
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
  const checks = describedChecks(folder, description.config, description.vocab, description.inputs.length);
  await gather(chunksFindings(state, checks, canReread), found, opts, (n) =>
    log.progress(`checking: ${count(n)} of ${plural(all, 'chunk')}`, { chunks: n }),
  );
  for await (const finding of recordFindings(state)) found.add(finding);

  tellOf(folder, state.part, checks.names, log);
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

/** Takes findings up as they come. @param tell how many things have been checked, after each @returns how many there were */
async function gather(
  findings: AsyncIterable<Finding | null>,
  found: Findings,
  { signal }: VerifyOptions,
  tell: (n: number) => void,
): Promise<number> {
  let checked = 0;
  for await (const finding of findings) {
    throwIfInterrupted(signal);
    if (finding !== null) found.add(finding);
    else tell(++checked);
  }
  return checked;
}

/** What is wrong with the chunks, in their order, beside the rows of the inputs; null after each that is there. */
async function* chunksFindings(
  { folder, description, shards, rows, end }: RunState,
  checks: RowChecks,
  canReread: boolean,
): AsyncGenerator<Finding | null> {
  const { shards: n, rows_per_chunk: rowsPerChunk } = description;
  const paths = runPaths(folder);
  const inputs = canReread ? rereadRows(description) : undefined;
  const last = Math.max(end, rows === null ? 0 : chunkCount(rows, rowsPerChunk));
  try {
    for (let chunk = 0; ; chunk++) {
      const own = inputs === undefined ? undefined : await take(inputs, rowsPerChunk);
      if (chunk >= last && (own === undefined || own.length === 0)) return;
      const shard = shardOf(chunk, n);
      // one of another run has been told of
      const record = await readChunkRecord(folder, description, chunk).catch((error: unknown) => {
        if (error instanceof ForeignRecordError) return null;
        throw error;
      });
      if (record !== undefined && record !== null)
        yield* chunkFindings({ folder, description, ...checks }, record, own);
      else if (record === undefined && shards[shard.index]?.isDone)
        yield { file: paths.record(shard, chunk), text: 'is missing or damaged, though its shard is done' };
      if (record) yield null;
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

function conclude(found: Findings, summary: string, log: Log): ExitCode {
  log.record('verified', { findings: found.total });
  log.info(`${summary}; ${found.total === 0 ? 'nothing found' : plural(found.total, 'finding')}`);
  return found.total === 0 ? EXIT.done : EXIT.data;
}

/** A file with more findings than this is told to be so: one cause has many effects. */
const MAX_FINDINGS_A_FILE = 20;

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
