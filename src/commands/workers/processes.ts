// `--workers` and `--devices`: the rows of one command shared by several processes, whose chunks become one result.
import { readdir, rm, stat } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { CORES_VARIABLE, coreShare } from '../../cores.js';
import { EXIT, type ExitCode, RredcotError, throwIfInterrupted, usageError } from '../../errors.js';
import { valueNameOf } from '../../estimate/estimators.js';
import { sumFigures } from '../../figures.js';
import { readJson } from '../../io/files/json-file.js';
import { statIfThere } from '../../io/files/stat-if-there.js';
import type { Shard } from '../../io/layout/chunks.js';
import { runPaths } from '../../io/layout/run-paths.js';
import { endEmptyRun } from '../../io/merge/empty-run.js';
import { publishFile, publishRejects, rejectsHash } from '../../io/merge/publish.js';
import { type Input, resolveInputs } from '../../io/read/inputs.js';
import { comeInto, dropAlone, type FolderPresence } from '../../io/run/claim.js';
import { type RunCommand, readRunDescription } from '../../io/run/description.js';
import { type ChunkRecord, hasRecords, sumCounts } from '../../io/run/records.js';
import { emptyRunFolder } from '../../io/run/remove.js';
import { readRunState, recordsInOrder } from '../../io/run/state.js';
import { writeSummary } from '../../io/run/summary-file.js';
import { readRejects } from '../../io/verify/stored-rejects.js';
import type { OutputFormat } from '../../io/write/output.js';
import { are, count, plural } from '../../plural.js';
import { parseDevice } from '../../policy/device/device.js';
import { policyFacts } from '../../policy/embedded.js';
import { openPolicyFolder } from '../../policy/folder.js';
import { escapeControls } from '../../printable.js';
import type { Log } from '../../report/log.js';
import { duration } from '../../report/progress.js';
import { figureLines, figureRecord, figureWarnings, listCodes } from '../../report/run-figures.js';
import { SharedProgress } from '../../report/shared-progress.js';
import type { RunOptions } from '../job/open-run.js';
import {
  type CommonReject,
  checkRejects,
  type MaxRejects,
  RejectTally,
  reasonsFile,
  refuseAllRejected,
} from '../job/reject-limits.js';
import { resolveShard } from '../job/shard.js';
import { resolveTarget, stemOf, type Target } from '../job/target.js';
import { superviseWorkers, type Worker } from './supervise.js';

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

/** So many workers may be asked for on any machine, however few its cores. */
const LEAST_MOST_WORKERS = 16;

const PROGRAM = fileURLToPath(new URL('../../../bin/rredcot.js', import.meta.url));

/**
 * `--workers n` and `--devices a,b`: the device of every worker.
 * @returns undefined where neither flag is given
 */
export function workerDevices(
  workers: number | undefined,
  devices: string | undefined,
): readonly (string | undefined)[] | undefined {
  const cores = availableParallelism();
  const most = Math.max(LEAST_MOST_WORKERS, 2 * cores);
  if (workers !== undefined && workers > most)
    throw usageError(
      `--workers ${workers}: expected at most ${most} on this machine, which has ${plural(cores, 'core')}`,
      `--workers ${cores}`,
    );
  if (devices === undefined) return workers === undefined ? undefined : new Array(workers).fill(undefined);
  const names = devices.split(',').map((name) => name.trim());
  for (const name of names) parseDevice(name, '--devices');
  return Array.from({ length: names.length * (workers ?? 1) }, (_, j) => names[j % names.length]);
}

/** Runs a command in several processes. @throws RredcotError as the command itself would */
export async function runWorkers(
  paths: readonly string[],
  opts: WorkersOptions,
  log: Log,
): Promise<ExitCode> {
  const started = performance.now();
  const inputs = await resolveInputs(paths);
  const target = await resolveWorkersTarget(inputs, opts);
  const shard = resolveShard(target, opts, false, log);
  const presence = await comeInto(target.folder, target.kind === 'file');
  try {
    await clearFolder(target, opts, presence);
    // the run is ours from here on, also while no worker is up
    await presence.work();
    return await shareWork(paths, target, shard, opts, log, started);
  } finally {
    await presence.leave();
  }
}

async function shareWork(
  paths: readonly string[],
  target: FolderTarget,
  shard: Shard,
  opts: WorkersOptions,
  log: Log,
  started: number,
): Promise<ExitCode> {
  const { folder } = target;
  const before = await ownCounts(folder, shard, opts.devices.length);
  if (before.chunks > 0)
    log.info(`resuming: ${plural(before.chunks, 'chunk')} ${are(before.chunks)} done, in ${folder}`);

  const workers = workerCommands(paths, folder, target, shard, opts);
  const progress = new SharedProgress(workers.length, before.traces + before.rejects, log);
  const { survey } = runPaths(folder);
  await superviseWorkers(workers, {
    program: PROGRAM,
    env: { ...process.env, [CORES_VARIABLE]: `${coreShare(workers.length)}` },
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
      if (message.kind === 'warning') log.warn(message.code, `${name}: ${message.message}`);
      // the others say the same
      else if (message.kind === 'info') {
        if (worker === 0) log.info(`${name}: ${message.message}`);
      } else progress.set(worker, message.fields);
    },
    onRestart(worker, how) {
      log.warn('worker_died', `${workers[worker]?.name} died (${how}) and is started again`);
    },
  }).catch(async (error: unknown) => {
    if (isDataError(error)) throw await withRejects(error, folder, target, shard, opts);
    throw await explained(error, folder, shard, opts);
  });

  const total = await ownCounts(folder, shard, opts.devices.length);
  const figures = sumFigures(total.figures);
  const facts =
    opts.policy === null ? undefined : policyFacts(await openPolicyFolder(opts.policy, NO_HASHES));
  const seconds = (performance.now() - started) / 1000;
  await checkAll(total, folder, target, shard, opts);
  const { traces, tokens, rejects } = total;
  const counted = { traces, tokens, rejects, seconds, workers: workers.length };
  const done = { ...counted, ...figureRecord(figures, facts), output: target.path };
  const { run, config } = await readRunDescription(folder);
  const records: ChunkRecord[] = [];
  if (target.kind === 'file')
    for await (const record of recordsInOrder(await readRunState(folder))) records.push(record);
  const rejectsSha256 = await rejectsHash(folder, records, shard.count * workers.length);
  const summarised = { run, config, folder, rejectsSha256 };
  const problem = shard.count === 1 ? await writeSummary(target.path, summarised, done) : undefined;
  if (problem !== undefined) log.warn('summary', problem);
  if (target.kind === 'file')
    await publishFile(folder, target, records, shard.count * workers.length, () => {
      throwIfInterrupted(opts.signal);
      log.progress(`joining ${plural(total.chunks, 'chunk')}`, {});
    });
  const rate = count(Math.round((total.tokens - before.tokens) / Math.max(seconds, 1e-3)));
  const tokensText = total.tokens === 0 ? '' : `, ${plural(total.tokens, 'token')}`;
  const rateText = total.tokens === before.tokens ? '' : `, ${rate} tokens/s`;
  log.text(
    [
      `${plural(total.traces, 'trace')}${tokensText} in ${duration(seconds)} (${plural(workers.length, 'worker')}${rateText})`,
      ...figureLines(figures, facts, total.valueName),
      ...(total.rejects > 0
        ? [
            `rejected: ${count(total.rejects)}${listCodes(Object.entries(figures.rejects))}`,
            `rejects in ${escapeControls(target.rejects)}`,
          ]
        : []),
      `written to ${escapeControls(target.path)}`,
    ].join('\n'),
  );
  for (const { code, message } of figureWarnings(figures, facts)) log.warn(code, message);
  log.record('done', done);
  return EXIT.done;
}

type FolderTarget = Target & { readonly folder: string };

async function resolveWorkersTarget(inputs: readonly Input[], opts: WorkersOptions): Promise<FolderTarget> {
  if (inputs.some(({ size }) => size === null))
    throw usageError('workers need files, stdin can be read only once', 'name the input files');
  if (opts.limit !== undefined)
    throw usageError('--limit counts traces from the first, so workers cannot share it', 'leave out --limit');
  const byDefault = opts.command === 'score' ? `${stemOf(inputs)}.scored.parquet` : '-';
  const target = await resolveTarget(opts.output ?? byDefault, opts.format, inputs);
  const { folder } = target;
  if (folder === undefined)
    throw usageError('workers need a file or a folder to write to, not stdout', '-o segments.parquet');
  return { ...target, folder };
}

/** `--restart`, for all of them; and the beginnings of another run, of which nothing is lost. */
async function clearFolder(
  { folder, kind }: FolderTarget,
  { restart }: WorkersOptions,
  presence: FolderPresence,
): Promise<void> {
  if (restart) await dropAlone(folder, kind === 'file', presence);
  else if (kind === 'file')
    // where others work on it, the workers tell whether it is the same run
    await presence.alone(async () => {
      if (!(await hasRecords(folder))) await emptyRunFolder(folder);
    });
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

/** What the records of this command's own workers hold. */
async function ownCounts(folder: string, { index, count: n }: Shard, workers: number) {
  const hasRun = (await readdir(folder).catch((): string[] => [])).includes('run.json');
  const state = hasRun ? await readRunState(folder) : undefined;
  // a run of another layout is told of by the workers
  const isOwn = state?.description.shards === n * workers;
  const own = (state?.shards ?? []).filter(({ shard }) => isOwn && shard.index % n === index);
  const chunks = own.reduce((sum, shard) => sum + shard.chunks, 0);
  return {
    ...sumCounts(own.map(({ counts }) => counts)),
    chunks,
    figures: own.map(({ figures }) => figures),
    valueName: valueNameOf(state?.description.config.estimator),
  };
}

/** The limits on rejects hold for all workers together. */
async function checkAll(
  total: { readonly traces: number; readonly rejects: number },
  folder: string,
  target: FolderTarget,
  shard: Shard,
  opts: WorkersOptions,
): Promise<void> {
  try {
    checkRejects(total, opts.maxRejects, target, true);
    if (shard.count === 1) refuseAllRejected(total, target, await commonestReject(folder));
  } catch (error) {
    await rm(runPaths(folder).success, { force: true });
    if (isDataError(error)) throw await withRejects(error, folder, target, shard, opts);
    throw error;
  }
}

function isDataError(error: unknown): error is RredcotError {
  return error instanceof RredcotError && error.exitCode === EXIT.data;
}

/**
 * The reasons of too many rejects are what the user needs next: put beside the file, and the error tells of that place. A
 * run without a trace goes.
 */
async function withRejects(
  error: RredcotError,
  folder: string,
  target: FolderTarget,
  shard: Shard,
  { devices }: WorkersOptions,
): Promise<RredcotError> {
  // an input can be so damaged that no run was begun
  if ((await statIfThere(runPaths(folder).run)) === null) return error;
  const { traces, rejects } = await ownCounts(folder, shard, devices.length);
  const isEmpty = shard.count === 1 && traces === 0 && rejects > 0;
  const { kind } = target;
  const reasons = isEmpty ? reasonsFile(target) : target.rejects;
  if (isEmpty && kind !== 'stdout') await endEmptyRun(kind, folder, reasons, () => {});
  else if (kind === 'file') await publishRejects(folder, reasons, () => {});
  const { message, exitCode, hint } = error;
  // a worker knows the hidden folder alone
  const text = message.replace(escapeControls(join(folder, 'rejects')), reasons);
  return new RredcotError(text, { exitCode, ...(hint === undefined ? {} : { hint }) });
}

/** What most rejects of a run have in common. */
async function commonestReject(folder: string): Promise<CommonReject | undefined> {
  const tally = new RejectTally();
  for (const name of (await readdir(join(folder, 'rejects'), { recursive: true })).sort()) {
    if (!name.endsWith('.jsonl')) continue;
    for await (const reject of readRejects(join(folder, 'rejects', name))) tally.add(reject);
  }
  return tally.commonest;
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
