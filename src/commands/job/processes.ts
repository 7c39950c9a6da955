// `--workers` and `--devices`: the rows of one command shared by several processes, whose chunks become one result.
import { createHash } from 'node:crypto';
import { stat } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { CORES_VARIABLE, coreShare } from '../../cores.js';
import { EXIT, type ExitCode, RredcotError, throwIfInterrupted, usageError } from '../../errors.js';
import { isAnswerNow } from '../../estimate/nature.js';
import { storedNature } from '../../estimators/registry.js';
import type { Shard } from '../../io/files/chunks.js';
import { readJson } from '../../io/files/json-file.js';
import { hiddenFolder, runPaths } from '../../io/files/run-paths.js';
import { type Input, resolveInputs } from '../../io/read/inputs.js';
import type { RunCommand } from '../../io/run/description.js';
import { fingerprint } from '../../io/run/fingerprint.js';
import { removeHidden } from '../../io/run/hidden.js';
import { publishFile, rejectsHash } from '../../io/run/publish.js';
import { type ChunkRecord, holdsTraces } from '../../io/run/records.js';
import { dropRun, hasHalfWritten } from '../../io/run/remove.js';
import { readRunState, recordsInOrder } from '../../io/run/state.js';
import { writeSummary } from '../../io/run/summary-file.js';
import type { OutputFormat } from '../../io/write/output.js';
import { packageFile } from '../../package-files.js';
import { are, count, plural } from '../../plural.js';
import { policyFacts } from '../../policy/embedded.js';
import { openPolicyFolder } from '../../policy/folder.js';
import { escapeControls } from '../../printable.js';
import type { Log } from '../../report/log.js';
import { duration } from '../../report/progress.js';
import { figureRecord, figureWarnings } from '../../report/run-figures.js';
import { SharedProgress } from '../../report/shared-progress.js';
import { suggestCalibration } from '../../report/suggestion.js';
import { Summary, type SummaryPart } from '../../report/summary.js';
import { drawnHere, drawTrace } from '../../report/trace-view.js';
import { VERSION } from '../../version.js';
import { ownCounts } from './counts.js';
import { madeBy } from './made-by.js';
import type { RunOptions } from './open-run.js';
import type { MaxRejects } from './reject-limits.js';
import { checkAll, type FolderTarget, isDataError, withRejects } from './rejected.js';
import { alreadyDone } from './run-job.js';
import { resolveShard } from './shard.js';
import { assertFree, OUTPUT_VARIABLE, type Standing, standing } from './standing.js';
import { superviseWorkers, type Worker } from './supervise.js';
import { resolveTarget, stemOf, type Target } from './target.js';

export interface WorkersOptions extends RunOptions {
  readonly command: RunCommand;
  /** as the user gave them: whatever is not the workers' own matter */
  readonly flags: readonly string[];
  /** one entry a worker; undefined: as the command's own default */
  readonly devices: readonly (string | undefined)[];
  /** folder of the policy; null without one */
  readonly policy: string | null;
  readonly output: string | undefined;
  readonly format: OutputFormat | undefined;
  readonly maxRejects: MaxRejects | undefined;
  readonly signal: AbortSignal;
}

/** The workers have compared them. */
const NO_HASHES = { verify: false };

const PROGRAM = packageFile('bin/rredcot.js');

/** Runs a command in several processes. @throws RredcotError as the command itself would */
export async function runWorkers(
  paths: readonly string[],
  opts: WorkersOptions,
  log: Log,
): Promise<ExitCode> {
  const started = performance.now();
  const inputs = await resolveInputs(paths);
  const facts =
    opts.policy === null ? undefined : policyFacts(await openPolicyFolder(opts.policy, NO_HASHES));
  const asked = await resolveWorkersTarget(inputs, opts);
  const shard = resolveShard(asked, opts, false, log);
  const { kind, path } = asked;
  const isFile = kind === 'file';
  const folder = isFile ? hiddenFolder(path, await identityOf(inputs, shard, opts, facts)) : path;
  const target: FolderTarget = { ...asked, folder };
  if (opts.overwrite) await (isFile ? removeHidden(folder) : dropRun(folder));
  const stands = isFile && !opts.overwrite ? await standing(path) : undefined;
  try {
    return await shareWork(paths, target, shard, opts, log, { started, stands, facts });
  } finally {
    // a beginning that holds nothing
    if (isFile && !(await holdsTraces(folder)) && !(await hasHalfWritten(folder))) await removeHidden(folder);
  }
}

type Facts = ReturnType<typeof policyFacts>;

/** What is asked for, as far as the parent knows it: its workers compare all of it with what is in the folder. */
async function identityOf(
  inputs: readonly Input[],
  { count }: Shard,
  { command, flags, devices, policy }: WorkersOptions,
  facts: Facts | undefined,
): Promise<string> {
  const contents = (await fingerprint(inputs)).map(({ mtime_ms: _, ...print }) => print);
  const shards = count * devices.length;
  const all = { version: VERSION, command, flags, shards, policy, facts, inputs: contents };
  return createHash('sha256').update(JSON.stringify(all)).digest('hex');
}

/** What the workers share. */
interface Shared {
  readonly target: FolderTarget;
  readonly shard: Shard;
  /** what attempts before have done */
  readonly before: Awaited<ReturnType<typeof ownCounts>>;
}

async function shareWork(
  paths: readonly string[],
  target: FolderTarget,
  shard: Shard,
  opts: WorkersOptions,
  log: Log,
  {
    started,
    stands,
    facts,
  }: {
    readonly started: number;
    readonly stands: Standing | undefined;
    readonly facts: Facts | undefined;
  },
): Promise<ExitCode> {
  const { folder } = target;
  const before = await ownCounts(folder, shard, opts.devices.length);
  if (before.chunks > 0)
    log.info(`resuming: ${plural(before.chunks, 'chunk')} ${are(before.chunks)} done, in ${folder}`);

  const workers = workerCommands(paths, folder, target, shard, opts);
  const met = await superviseAll(workers, { target, shard, before }, opts, log).catch(
    async (error: unknown) => {
      if (isDataError(error)) throw await withRejects(error, folder, target, shard, opts);
      throw await explained(error, folder, shard, opts);
    },
  );

  const total = await ownCounts(folder, shard, opts.devices.length);
  // the workers have found that it is what was asked for
  if (stands !== undefined && total.chunks === 0)
    return alreadyDone(target, { shard, before: stands.counts }, opts, log);
  const summary = new Summary(total.figures);
  for (const part of met) summary.include(part);
  const { figures } = summary;
  const seconds = (performance.now() - started) / 1000;
  await checkAll(total, folder, target, shard, opts);
  const { traces, tokens, rejects } = total;
  const counted = { traces, tokens, rejects, seconds, workers: workers.length };
  const done = { ...counted, ...figureRecord(figures, facts), output: target.path };
  const state = await readRunState(folder);
  const { run, config } = state.description;
  if (target.kind === 'file' && !opts.overwrite) await assertFree(target.path, run);
  const records: ChunkRecord[] = [];
  if (target.kind === 'file') for await (const record of recordsInOrder(state)) records.push(record);
  const rejectsSha256 = await rejectsHash(folder, records, shard.count * workers.length);
  const summarised = { run, config, folder, rejectsSha256 };
  const problem =
    shard.count === 1
      ? await writeSummary(target.path, summarised, { ...done, part: state.part })
      : undefined;
  if (problem !== undefined) log.warn('summary', problem);
  if (target.kind === 'file')
    await publishFile(
      folder,
      { ...target, replaces: opts.overwrite },
      records,
      shard.count * workers.length,
      () => {
        throwIfInterrupted(opts.signal);
        log.progress(`joining ${plural(total.chunks, 'chunk')}`, {});
      },
    );
  const { example } = summary;
  if (total.valueName !== undefined && example !== undefined)
    log.text(`\n${drawTrace(example, { ...drawnHere(), valueName: total.valueName })}\n`);
  const rate = count(Math.round((total.tokens - before.tokens) / Math.max(seconds, 1e-3)));
  const tokensText = total.tokens === 0 ? '' : `, ${plural(total.tokens, 'token')}`;
  const rateText = total.tokens === before.tokens ? '' : `, ${rate} tokens/s`;
  log.text(
    [
      `${plural(total.traces, 'trace')}${tokensText} in ${duration(seconds)} (${plural(workers.length, 'worker')}${rateText})`,
      ...summary.describeFigures(facts, total.valueName),
      ...(total.rejects > 0 ? [`rejects in ${escapeControls(target.rejects)}`] : []),
      `written to ${escapeControls(target.path)}`,
    ].join('\n'),
  );
  const next =
    shard.count === 1 && suggestCalibration(figures, config, target.path, isAnswerNow(storedNature(config)));
  if (next) log.text(next);
  for (const { code, message } of [...state.warnings, ...figureWarnings(figures, facts, madeBy(config))])
    log.warn(code, message);
  const rejected = summary.rejectWarning(traces);
  if (rejected !== undefined) log.warn(rejected.code, rejected.message);
  log.record('done', done);
  return EXIT.done;
}

/** Starts the workers and tells what they tell. @returns what each has met of its traces */
async function superviseAll(
  workers: readonly Worker[],
  { target, shard, before }: Shared,
  opts: WorkersOptions,
  log: Log,
): Promise<SummaryPart[]> {
  const progress = new SharedProgress(workers.length, before.traces + before.rejects, log);
  const { survey } = runPaths(target.folder);
  const met: SummaryPart[] = [];
  const told = new Set<string>();
  await superviseWorkers(workers, {
    program: PROGRAM,
    env: {
      ...process.env,
      [CORES_VARIABLE]: `${coreShare(workers.length)}`,
      ...(target.kind === 'file' && !opts.overwrite && { [OUTPUT_VARIABLE]: target.path }),
    },
    signal: opts.signal,
    // the first one reads the inputs through, and the others find what it has found
    async firstIsReady() {
      while (!progress.hasBegun && !opts.signal.aborted && (await stat(survey).catch(() => null)) === null)
        await sleep(100, undefined, { ref: false });
      const found = await readJson<{ traces?: number | null; rejects?: number | null }>(survey);
      if (typeof found?.traces === 'number')
        progress.expect(Math.ceil((found.traces + (found.rejects ?? 0)) / shard.count));
    },
    onMessage(worker, message) {
      const name = workers[worker]?.name;
      if (message.kind === 'warning') {
        // what all of them say is told once
        if (!told.has(message.message)) log.warn(message.code, `${name}: ${message.message}`);
        told.add(message.message);
      } else if (message.kind === 'info') {
        if (worker === 0) log.info(`${name}: ${message.message}`);
      } else if (message.kind === 'met') met.push(message.fields);
      else progress.set(worker, message.fields);
    },
    onRestart(worker, how) {
      log.warn('worker_died', `${workers[worker]?.name} died (${how}) and is started again`);
    },
  });
  return met;
}

async function resolveWorkersTarget(inputs: readonly Input[], opts: WorkersOptions): Promise<Target> {
  if (inputs.some(({ size }) => size === null))
    throw usageError('workers need files, stdin can be read only once', 'name the input files');
  if (opts.limit !== undefined)
    throw usageError('--limit counts traces from the first, so workers cannot share it', 'leave out --limit');
  const byDefault = opts.command === 'score' ? `${stemOf(inputs)}.scored.parquet` : '-';
  const target = await resolveTarget(opts.output ?? byDefault, opts.format, inputs);
  if (target.kind === 'stdout')
    throw usageError('workers need a file or a folder to write to, not stdout', '-o segments.parquet');
  return target;
}

function workerCommands(
  paths: readonly string[],
  folder: string,
  { format }: Target,
  shard: Shard,
  { command, devices, flags }: WorkersOptions,
): Worker[] {
  const w = devices.length;
  return devices.map((device, j) => ({
    name: `worker ${j + 1} of ${w}${device === undefined ? '' : ` (${device})`}`,
    args: [
      command,
      ...flags,
      `--output=${folder}/`,
      `--format=${format}`,
      // chunk c of the whole with c mod n = i, every w-th of these
      `--shard=${shard.index + shard.count * j}/${shard.count * w}`,
      ...(device === undefined ? [] : [`--device=${device}`]),
      '--',
      ...paths,
    ],
  }));
}

/** An interruption, with what was kept. */
async function explained(
  error: unknown,
  folder: string,
  shard: Shard,
  { devices, signal }: WorkersOptions,
): Promise<unknown> {
  if (!signal.aborted || !(error instanceof RredcotError) || error.exitCode !== EXIT.interrupted)
    return error;
  const { chunks } = await ownCounts(folder, shard, devices.length);
  if (chunks === 0)
    return new RredcotError('interrupted before the first chunk was whole, nothing was kept', {
      exitCode: EXIT.interrupted,
    });
  return new RredcotError(`interrupted: ${plural(chunks, 'chunk')} ${are(chunks)} kept in ${folder}`, {
    exitCode: EXIT.interrupted,
    hint: 'the same command again, which goes on from there',
  });
}
