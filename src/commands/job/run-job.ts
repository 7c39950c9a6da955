// What `score` and `segment` have in common: inputs, mapping, run and output opened, the command's stages run, all closed.
import { resolve, sep } from 'node:path';
import { EXIT, type ExitCode, RredcotError, throwIfInterrupted } from '../../errors.js';
import type { GroupBanks } from '../../estimate/bank.js';
import { statIfThere } from '../../io/files/stat-if-there.js';
import type { Needs } from '../../io/map/sources.js';
import { columnarColumns, type Input, resolveInputs } from '../../io/read/inputs.js';
import { watchInputs } from '../../io/read/unchanged.js';
import { sweepFolder } from '../../io/run/claim.js';
import type { RunCommand, RunDescription } from '../../io/run/description.js';
import { isFiltered } from '../../io/scored/origins.js';
import type { TextColumn, WrittenColumn } from '../../io/table/output-columns.js';
import type { OutputFormat } from '../../io/write/output.js';
import { outputLayout } from '../../io/write/output-layout.js';
import { plural } from '../../plural.js';
import { policyFacts } from '../../policy/embedded.js';
import type { PolicyFolder } from '../../policy/folder.js';
import { watchPolicy } from '../../policy/unchanged.js';
import type { Log } from '../../report/log.js';
import type { TokenMeter } from '../../report/progress.js';
import { terminalNotice } from '../../report/terminal-input.js';
import { isWorker } from '../../report/worker-log.js';
import type { BadRow } from '../../rows.js';
import type { OutputRow } from '../../scored.js';
import type { Trace } from '../../trace.js';
import { logMapping, resolveMapping } from './mapping.js';
import { openRun, type Run, type RunOptions } from './open-run.js';
import type { JobOptions } from './options.js';
import { checkRejects } from './reject-limits.js';
import { openSink } from './sink.js';
import { openSource, type Source } from './source.js';
import { surveyInputs } from './survey.js';
import { fileMetadata, resolveTarget, stemOf, type Target } from './target.js';

/** What a command adds to that. */
export interface Job {
  readonly command: RunCommand;
  /** rows of the output that a trace of the input becomes (default 1) */
  readonly rowsPerTrace?: number;
  /** where the command counts tokens as it writes them */
  readonly meter?: TokenMeter | undefined;
  /** nothing is written: the stages tell what they would do */
  readonly isDry?: boolean;
  /** where no `-o` is given */
  output(stem: string): { readonly path: string; readonly format?: OutputFormat };
  /** beside the input's columns */
  readonly columns: readonly WrittenColumn[];
  /** texts that may be written besides; none where the user or an export says exactly what is written */
  readonly texts: readonly TextColumn[];
  /** flags that the bytes depend on, beside those that all jobs have */
  readonly config: Readonly<Record<string, unknown>>;
  readonly policy: PolicyFolder | undefined;
  /** others that run beside it, which have to stay what they are; their hashes are in `config` */
  readonly policiesBeside?: readonly Pick<PolicyFolder, 'path' | 'files'>[];
  readonly passes: RunDescription['passes'];
  readonly needs: Needs;
  /** the reward that counts, for the groups' means; undefined where nobody needs these */
  readonly reward?: ((trace: Trace) => number | null) | undefined;
  /** whether traces are looked at together with others of their group, wherever these lie */
  readonly readsMates?: boolean;
  /** whether the output's reward is the input's, on the same scale */
  readonly rewardAsIs: boolean;
  /** completions are the command's own, not the input's */
  readonly isSampled?: boolean;
  /** filled by the survey, for references from a trace's group */
  readonly banks?: GroupBanks | undefined;
  /** how values are called in the trace that is drawn at the end; undefined where there are none */
  readonly valueName?: string;
  /** Makes rows of traces, in order. */
  stages(source: Source, run: Run): AsyncIterable<OutputRow | BadRow>;
}

/**
 * Does a command's work: all of it, or the shard that was asked for; where that is done already, says so.
 * @throws RredcotError: exit 2 where the folder holds another run, naming the field that differs; 65 where more traces were
 * rejected than `--max-rejects` allows, or all of them; 75 where the run was interrupted, or removed meanwhile
 */
export async function runJob(
  paths: readonly string[],
  opts: JobOptions & RunOptions,
  job: Job,
  log: Log,
): Promise<ExitCode> {
  const inputs = await resolveInputs(paths);
  const notice = terminalNotice(inputs.map(({ path }) => path));
  if (notice !== undefined) log.info(notice);
  const assertInputs = await watchInputs(inputs);
  const byDefault = job.output(stemOf(inputs));
  const format = opts.format ?? (opts.output === undefined ? byDefault.format : undefined);
  const asked = await resolveTarget(opts.output ?? byDefault.path, format, inputs);
  // a run that is not made touches no folder
  const target: Target = job.isDry ? { ...asked, kind: 'stdout', folder: undefined } : asked;
  const mapping = await resolveMapping(inputs, opts);
  const { map, read } = mapping;
  logMapping(mapping, opts, log);
  const { limit, maxLineBytes, maxRejects, signal } = opts;
  const { command, policy, passes, needs, reward, banks } = job;
  const { columns: ourChoice, choice = {}, text } = opts;
  const config = { command, ...mapping.config, limit, columns: ourChoice, ...choice, text, ...job.config };

  // a columnar input brings its types along
  const typed = target.format !== 'jsonl';
  const columnar = typed ? await columnarColumns(inputs) : null;
  const surveyed = { map, needs, reward, banks, typed: typed && columnar === null, limit, maxLineBytes };
  const spans = job.readsMates;
  const surveyor = {
    isNeeded: surveyed.typed || reward !== undefined,
    async make() {
      const survey = await surveyInputs(inputs, { ...surveyed, spans, maxRejects, log, signal });
      await assertInputs();
      return survey;
    },
  };
  return inFolder(target, async () => {
    const files = policy && (await watchPolicy(policy));
    const beside = await Promise.all((job.policiesBeside ?? []).map(watchPolicy));
    for (const other of beside) await other.assertSince(null);
    const vocab = policy?.architecture.vocab ?? null;
    const described = { command, config, policy: policy?.files ?? null, vocab, passes, files };
    await using run = await openRun(target, inputs, described, opts, surveyor, log);
    if (run.isDone) return alreadyDone(target, run, opts, log);
    if (run.survey?.banks !== undefined) banks?.restore(run.survey.banks);
    const assertUnchanged = async (): Promise<void> => {
      await assertInputs();
      await files?.assertUnchanged();
      for (const other of beside) await other.assertUnchanged();
    };
    const { rowsPerTrace, meter } = job;
    const opened = {
      run,
      read,
      map,
      needs,
      limit,
      maxLineBytes,
      typed,
      columnar,
      assertUnchanged,
      log,
      rowsPerTrace,
    };
    const source = await openSource(inputs, opened);
    // what follows of a group follows of what is left of it
    if (reward !== undefined)
      for (const input of inputs) if (await isFiltered(input)) log.warn('filtered_input', filtered(input));
    for (const warning of columnar?.warnings ?? []) log.warn('column_changed', warning);
    const layout = outputLayout(source.columns, mapping, { ...job, text, choice, typed });
    for (const warning of layout.warnings) log.warn('column_renamed', warning);
    const own = fileMetadata(config, policy, run.description?.run, inputs.length);
    const metadata = { ...own, ...layout.metadata };
    const { expected } = source;
    if (job.isDry) {
      for await (const _ of job.stages(source, run)) throwIfInterrupted(signal);
      return EXIT.done;
    }
    const written = { ...layout, choice, metadata, config };
    const made = policy === undefined ? undefined : policyFacts(policy);
    const sink = await openSink({
      target,
      run,
      ...written,
      maxRejects,
      expected,
      meter,
      isGrouped: reward !== undefined,
      policy: made,
      log,
      signal,
    });
    await sink.drain(job.stages(source, run));
    sink.report(job.valueName);
    return EXIT.done;
  });
}

function filtered({ path }: Input): string {
  return `${path}: was filtered, so that its groups may lack traces, and what follows of a group, such as its mean reward, is of those that are left: score the file before it was filtered, then filter`;
}

/** Tells a run's folder that was taken away from a failure of the machine. */
async function inFolder(target: Target, work: () => Promise<ExitCode>): Promise<ExitCode> {
  const started = Date.now();
  try {
    return await work();
  } catch (error) {
    const { folder, path, kind } = target;
    if (folder === undefined || !hasLostFile(error, folder)) throw error;
    // what the other process could not remove, since this one still wrote there
    const isMade = ((await statIfThere(path))?.mtimeMs ?? 0) >= started;
    if (kind === 'file') await sweepFolder(folder, isMade).catch(() => {});
    throw new RredcotError(
      `${folder}: was removed while this process was at work in it: another one has made ${path}, or dropped the run`,
      { exitCode: EXIT.interrupted, hint: `if ${path} is not there, the same command again`, cause: error },
    );
  }
}

/** Whether a run's folder, or something in it, was no longer there: nobody removes a part of it. */
function hasLostFile(error: unknown, folder: string): boolean {
  const whole = resolve(folder);
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    const { code, path, syscall } = cause as NodeJS.ErrnoException;
    if (code !== 'ENOENT' || path === undefined) continue;
    // where the folder cannot be made, it never was there
    if (resolve(path).startsWith(`${whole}${sep}`) || (resolve(path) === whole && syscall !== 'mkdir'))
      return true;
  }
  return false;
}

/**
 * A shard that was done before: nothing is touched.
 * @throws RredcotError (exit 65) where it has more rejects than this call allows
 */
function alreadyDone(target: Target, { shard, before }: Run, { maxRejects }: JobOptions, log: Log): ExitCode {
  // a worker's share is a part of what its parent counts
  if (!isWorker()) checkRejects(before, maxRejects, target, true);
  const what = shard.count === 1 ? target.path : `${target.path}: shard ${shard.index}/${shard.count}`;
  log.info(`${what} is already done: ${plural(before.traces, 'trace')}, ${plural(before.rejects, 'reject')}`);
  return EXIT.done;
}
