// What `score` and `segment` have in common: inputs, mapping, run and output opened, the command's stages run, all closed.
import { EXIT, type ExitCode, TraceRejected } from '../errors.js';
import { chunkCount } from '../io/files/chunks.js';
import type { Needs } from '../io/map/fields.js';
import { mapRow } from '../io/map/map.js';
import { columnarColumns } from '../io/read/inputs.js';
import { watchInputs } from '../io/read/unchanged.js';
import { PART_KEY, type Part, partText, wholeText } from '../io/write/part.js';
import { watchPolicy } from '../model/onnx/unchanged-policy.js';
import { plural } from '../plural.js';
import type { Log } from '../report/log.js';
import { isWorker } from '../report/worker-log.js';
import { type BadRow, type InputRow, isBad, rejectTrace } from '../rows.js';
import { withoutMask } from '../scored/columns.js';
import { outputLayout, renamedText } from '../scored/layout.js';
import { type FoundPart, partOf } from '../scored/origins.js';
import { type OutputRow, ownTokens } from '../scored.js';
import { isOfTurns } from '../trace.js';
import { type JobInputs, logMapping } from './mapping.js';
import { openRun, type Run } from './open-run.js';
import type { JobOptions, Work } from './options.js';
import { checkRejects } from './reject-limits.js';
import { shareRows, writeRows } from './sink.js';
import { openSource, type Source } from './source.js';
import { surveyInputs } from './survey.js';
import { fileMetadata, inFolder, resolveTarget, stemOf, type Target } from './target.js';
import { scoredAlready } from './written-columns.js';

/** What a command adds to that. */
export interface CommandJob extends Work {
  /** where no `-o` is given: how the output's name ends behind the input's; absent: JSONL on stdout */
  readonly ending?: string;
  /** Makes rows of traces, in order. */
  stages(source: Source, run: Run): AsyncIterable<OutputRow | BadRow>;
}

/**
 * Does a command's work: all of it, or the shard that was asked for; where that is done already, says so.
 * @throws RredcotError: exit 2 where the folder holds another run, naming the field that differs; 65 where more traces were
 * rejected than `--max-rejects` allows, or all of them; 75 where the run was interrupted, or removed meanwhile
 */
export async function runJob(
  { inputs, mapping }: JobInputs,
  opts: JobOptions,
  job: CommandJob,
  log: Log,
): Promise<ExitCode> {
  const assertInputs = await watchInputs(inputs);
  const byDefault = job.ending === undefined ? '-' : `${stemOf(inputs)}${job.ending}`;
  const format = opts.format ?? (opts.output === undefined && byDefault === '-' ? 'jsonl' : undefined);
  const target = await resolveTarget(opts.output ?? byDefault, format, inputs);
  logMapping(mapping, opts, log);
  const { limit } = opts;
  const { command, policy, passes, needs, reward, rewards } = job;
  const { columns: ourChoice, choice = {}, text } = opts;
  const config = { command, ...mapping.config, limit, columns: ourChoice, ...choice, text, ...job.config };

  // a columnar input brings its types along
  const typed = target.format !== 'jsonl';
  const columnar = typed ? await columnarColumns(inputs) : null;
  const isInferred = typed && columnar === null;
  const surveyor = {
    isNeeded: isInferred || reward !== undefined || rewards !== undefined || limit !== undefined,
    async make() {
      const surveyed = { ...opts, ...job, map: mapping.map, typed: isInferred, log };
      const survey = await surveyInputs(inputs, surveyed);
      await assertInputs();
      return survey;
    },
  };
  return inFolder(target, opts.overwrite, async () => {
    const { files, assertUnchanged } = await watchModels(job, assertInputs);
    const vocab = policy?.architecture.vocab ?? null;
    const described = { command, config, policy: policy?.files ?? null, vocab, passes, files };
    await using run = await openRun(target, inputs, described, opts, surveyor, log);
    if (run.isDone) return alreadyDone(target, run, opts, log);
    const { survey } = run;
    if (survey?.banks !== undefined) job.banks?.restore(survey.banks);
    for (const { code, message } of survey?.warnings ?? []) log.warn(code, message);
    const opened = { ...opts, ...job, ...mapping, run, typed, columnar, assertUnchanged, log };
    const source = await openSource(inputs, opened);
    // what follows of a group follows of what is left of it
    const input = survey === undefined || reward !== undefined ? await partOf(inputs) : undefined;
    if (reward !== undefined && input !== undefined) log.warn('part_input', ofPart(input));
    // nobody knows what follows in a stream
    const ofStream: Part | undefined = limit === undefined ? input?.part : { by: 'limit', limit };
    const part = survey === undefined ? ofStream : survey.part;
    for (const warning of columnar?.warnings ?? []) log.warn('column_changed', warning);
    const hasTurns = job.hasTurns || (survey?.hasTurns ?? isFirstOfTurns(mapping, needs));
    const columns = ourChoice !== undefined || hasTurns ? job.columns : withoutMask(job.columns);
    const layout = outputLayout(source.columns, mapping, { ...job, columns, text, choice, typed });
    const again = command === 'score' ? scoredAlready(inputs, mapping.first, choice) : undefined;
    if (again !== undefined) log.warn('scored_already', again);
    for (const column of layout.passThrough)
      if (column.as !== column.name && (column.isJoined || again === undefined))
        log.warn('column_renamed', renamedText(column));
    const own = fileMetadata(config, policy, run.description?.run, inputs.length);
    const chunks =
      survey === undefined || run.folder === undefined ? 1 : chunkCount(survey.rows, run.rowsPerChunk);
    const piece: Part | undefined =
      part ?? (chunks > 1 ? { by: 'pieces', pieces: 1, of: chunks } : undefined);
    const metadata = { ...own, ...layout.metadata, ...(piece && { [PART_KEY]: JSON.stringify(piece) }) };
    const { expected } = source;
    const written = { ...layout, choice, metadata, config, part, isPieces: chunks > 1 };
    const sink = { ...opts, ...job, ...written, target, run, expected, log };
    const rows = columns === job.columns ? job.stages(source, run) : refusingTurns(job.stages(source, run));
    if (opts.workers === undefined) await writeRows(rows, sink);
    else await shareRows({ command, ...opts.workers }, sink);
    return EXIT.done;
  });
}

/** Of a stream that nobody surveys the first row says whether its traces have several turns. */
function isFirstOfTurns({ first, map, hasRow }: JobInputs['mapping'], needs: Needs): boolean {
  const traces = hasRow ? mapRow({ columns: first, stem: '', row: 0 } as InputRow, map, needs) : [];
  return [...traces].some((trace) => !isBad(trace) && isOfTurns(trace));
}

/** Traces of several turns have no place in an output without their mask. */
async function* refusingTurns(rows: AsyncIterable<OutputRow | BadRow>): AsyncGenerator<OutputRow | BadRow> {
  const reason =
    'it has several turns, and the first row has one, so that the output has no completion_mask: name a file in place of a stream, or --columns with completion_mask';
  for await (const row of rows)
    yield isBad(row) || ownTokens(row) === undefined
      ? row
      : rejectTrace(row.trace, new TraceRejected('turns', reason));
}

/** The policy, and others that run beside it, which have to stay what they are. */
async function watchModels({ policy, policiesBeside = [] }: CommandJob, assertInputs: () => Promise<void>) {
  const files = policy && (await watchPolicy(policy));
  const beside = await Promise.all(policiesBeside.map(watchPolicy));
  for (const other of beside) await other.assertSince(null);
  return {
    files,
    async assertUnchanged(): Promise<void> {
      await assertInputs();
      await files?.assertUnchanged();
      for (const other of beside) await other.assertUnchanged();
    },
  };
}

function ofPart({ path, part }: FoundPart): string {
  return `${path}: ${partText(part)}, so that its groups may lack traces, and what follows of a group, such as its mean reward, is of those that are left: score ${wholeText(part)}`;
}

/**
 * An output, or a shard of it, that was done before: nothing is touched.
 * @throws RredcotError (exit 65) where it has more rejects than this call allows
 */
function alreadyDone(
  target: Target,
  { shard, before }: Pick<Run, 'shard' | 'before'>,
  { maxRejects }: Pick<JobOptions, 'maxRejects'>,
  log: Log,
): ExitCode {
  checkRejects(before, maxRejects, target, true);
  const what = shard.count === 1 ? target.path : `${target.path}: shard ${shard.index}/${shard.count}`;
  const { traces, rejects } = before;
  const counts = traces + rejects === 0 ? '' : `: ${plural(traces, 'trace')}, ${plural(rejects, 'reject')}`;
  if (!isWorker()) log.info(`${what} is already done${counts}`);
  return EXIT.done;
}
