// What `score` and `segment` have in common: inputs, mapping, run and output opened, the command's stages run, all closed.
import { EXIT, type ExitCode } from '../errors.js';
import type { ColumnarColumns } from '../io/arrow/types.js';
import { isStored, orAbort } from '../io/files/files.js';
import {
  defaultRowsPerPart,
  partCount,
  partOfRow,
  ROWS_OF_STREAM,
  type Shard,
  WHOLE,
} from '../io/files/run-folder.js';
import { assertSameInputs, type InputPrint } from '../io/read/input-file.js';
import { columnarColumns } from '../io/read/inputs.js';
import { type Counts, PART_KEY, type Part, partText, sumCounts, wholeText } from '../io/write/facts.js';
import type { Config } from '../io/write/output.js';
import { assertShardable, fileMetadata, resolveTarget, stemOf, type Target } from '../io/write/target.js';
import { watchPolicy } from '../model/onnx/folder.js';
import { VERSION } from '../package-files.js';
import { plural } from '../plural.js';
import type { Log } from '../report/log.js';
import { checkRejects } from '../report/reject-limits.js';
import { openStats } from '../report/run-stats.js';
import type { BadRow } from '../rows.js';
import { columnName, kindOf } from '../scored/columns.js';
import { outputLayout, renamedText } from '../scored/layout.js';
import { type FoundPart, partOf } from '../scored/stored-run.js';
import type { OutputRow } from '../scored.js';
import { finishFolder } from './folder.js';
import { describeRun } from './identity.js';
import type { JobOptions, Work } from './options.js';
import { type Prescan, prescanInputs } from './prescan.js';
import { type JobInputs, logMapping, openSource, type RunContext, type Source } from './source.js';
import { beginRun, leaveRun, openSink, type RunPlace, refuseColumns, writeRows } from './write-run.js';

/** What a command adds to that. */
export interface CommandJob extends Work {
  /** where no `-o` is given: how the output's name ends behind the input's; absent: JSONL on stdout */
  readonly ending?: string;
  /** what of all traces has to be known before the first row is made: goes into the configuration that the output tells */
  first?(source: Source, run: RunContext): Promise<{ readonly config: Config; readonly isResumed: boolean }>;
  /** Makes rows of traces, in order. */
  stages(source: Source, run: RunContext): AsyncIterable<OutputRow | BadRow>;
  readonly writes?: () => string;
}

/**
 * Does a command's work: all of it, or the shard that was asked for; where that is done already, says so.
 * @throws RredcotError: exit 2 where another run is at the output, naming the field that differs; 65 where more traces were
 * rejected than `--max-rejects` allows, or all of them; 75 where the run was interrupted, or taken away meanwhile
 */
export async function runJob(
  { inputs, mapping }: JobInputs,
  opts: JobOptions,
  job: CommandJob,
  log: Log,
): Promise<ExitCode> {
  const prints = inputs.map(({ print }) => print);
  const byDefault = job.ending === undefined ? '-' : `${stemOf(inputs)}${job.ending}`;
  const format = opts.format ?? (opts.output === undefined && byDefault === '-' ? 'jsonl' : undefined);
  const found = await resolveTarget(opts.output ?? byDefault, format, inputs, opts.partition);
  const { rejects = found.rejects } = opts.answer ?? {};
  const target = { ...found, rejects, ...(job.writes && { kind: 'stdout' as const }) };
  const isStream = inputs.some(({ size }) => size === null);
  const { shard = WHOLE } = opts;
  assertShardable(target, shard, opts.limit, isStream);
  logMapping(mapping, opts, log);
  const { limit, columns, drop, partition } = opts;
  const { command, policy, passes, reward, rewards } = job;
  const config = { command, ...mapping.config, limit, columns, drop, partition, ...job.config };

  // a columnar input brings its types along
  const typed = target.format !== 'jsonl';
  const columnar = typed ? await columnarColumns(inputs) : null;
  const isInferred = typed && columnar === null;
  const isAsked = isInferred || reward !== undefined || rewards !== undefined || limit !== undefined;
  const assertUnchanged = await watchModels(job, prints);
  const prescan =
    isStream || (target.kind === 'stdout' && !isAsked)
      ? undefined
      : await prescanInputs(inputs, { ...opts, ...job, map: mapping.map, typed: isInferred, log });
  await assertSameInputs(prints);
  const rowsPerPart =
    opts.rowsPerPart ??
    (prescan === undefined
      ? ROWS_OF_STREAM
      : defaultRowsPerPart(prescan.rows, policy !== undefined, prescan.rowBytes));
  // up to the one in which a limit is reached
  const rows = prescan?.lastRow === undefined ? (prescan?.rows ?? 0) : prescan.lastRow + 1;
  const run = describeRun({
    ...{ rredcot: VERSION, command, config, policy: policy?.files ?? null, passes },
    ...{ output: target.format, inputs: prints, rows_per_part: rowsPerPart },
    ...{ part: prescan?.part ?? null, parts: partCount(rows, rowsPerPart) },
  });
  const begun = await beginRun(target, run, shard, { ...opts, isStream, log });
  if (begun.made !== undefined) return alreadyDone(target, shard, begun.made, opts, log);
  const known = { inputs, mapping, config, typed, columnar, prescan, assertUnchanged };
  return orAbort(makeRun({ ...known, target, run, shard, begun, log }, opts, job), (error) =>
    leaveRun(begun, target, run, shard.count === 1, error),
  );
}

/** A run that has been begun, and what is known of its inputs. */
interface BegunJob extends JobInputs, Omit<RunPlace, 'isAll'> {
  readonly config: Config;
  /** whether the output has column types */
  readonly typed: boolean;
  readonly columnar: ColumnarColumns | null;
  readonly prescan: Prescan | undefined;
  readonly shard: Shard;
  readonly assertUnchanged: () => Promise<void>;
}

/** Makes what is to be made of it. */
async function makeRun(known: BegunJob, opts: JobOptions, job: CommandJob): Promise<ExitCode> {
  const began = performance.now();
  const { inputs, mapping, typed, columnar, prescan, target, run, shard, begun, log } = known;
  const { limit, columns: ourChoice, drop = [], partition, maxRejects, signal } = opts;
  const { parts, folder } = begun;
  const context: RunContext = {
    ...{ prescan, rowsPerPart: run.rows_per_part, shards: shard.count },
    folder: folder === undefined || isStored(folder) ? undefined : folder,
    wanted: (row) =>
      parts?.todo.has(partOfRow(row, run.rows_per_part, run.parts)) ??
      partOfRow(row, run.rows_per_part) % shard.count === shard.index,
  };
  const before = sumCounts(parts?.existing.values() ?? []);
  for (const { code, message } of prescan?.warnings ?? []) log.warn(code, message);
  const done = before.traces + before.rejects;
  const source = await openSource(inputs, { ...opts, ...job, ...mapping, ...known, run: context, done });
  // in a folder all of whose parts stand nothing may be left to find it by
  const isMade = parts?.todo.size === 0 && target.kind === 'folder';
  // what follows of a group follows of what is left of it
  const input = prescan === undefined || job.reward !== undefined ? await partOf(inputs) : undefined;
  if (job.reward !== undefined && input !== undefined) log.warn('part_input', ofPart(input));
  // nobody knows what follows in a stream
  const ofStream: Part | undefined = limit === undefined ? input?.part : { by: 'limit', limit };
  const part = prescan === undefined ? ofStream : prescan.part;
  for (const warning of columnar?.warnings ?? []) log.warn('column_changed', warning);
  // traces of one turn each need no mask; of rows that nobody has looked at it is written
  const isMasked = ourChoice !== undefined || typeof prescan?.traces !== 'number' || prescan.hasTurns;
  const columns = job.columns.filter((each) => isMasked || columnName(each) !== 'completion_mask');
  const layout = outputLayout(source.columns, mapping, { ...job, columns, drop, partition, typed });
  const isAgain = job.command === 'score' && kindOf(mapping.first) === 'scored' && !drop.includes('sigma');
  if (isAgain) log.warn('scored_already', AGAIN);
  for (const column of layout.passThrough)
    if (column.as !== column.name && (column.isJoined || !isAgain))
      log.warn('column_renamed', renamedText(column));
  await refuseColumns(target, run, layout);
  const asked = isMade ? undefined : await job.first?.(source, context);
  const config = { ...known.config, ...asked?.config };
  const identity = target.kind === 'stdout' ? undefined : run.run;
  const metadataOf = (said: Config) => {
    const own = fileMetadata(said, job.policy, identity, inputs.length);
    return { ...own, ...layout.metadata, ...(part && { [PART_KEY]: JSON.stringify(part) }) };
  };
  const stats = openStats({
    ...{ ...job, target, config, before, log, expected: source.expected, isComputed: true, began },
    isPartlyTimed: asked?.isResumed === true,
    usesGroups: job.reward !== undefined,
    ...{ isNamed: typeof prescan?.traces === 'number', whole: prescan?.whole },
    // JSON lines have no metadata: their summary says what has cut them
    ...(part && { beside: { part } }),
  });
  // whoever ends a run of which all parts stand knows no more than its identity
  const ofCard = { ...layout, metadata: metadataOf(known.config) };
  const finish = (at: string) => finishFolder(at, run, ofCard, log);
  const place = { target, run: { ...run, config }, begun, log, maxRejects, isAll: shard.count === 1 };
  const written = { metadata: metadataOf(config), stats, finish, writes: job.writes };
  const sink = await openSink({ ...layout, ...place, ...opts, ...written });
  if (isMade) {
    await sink.close();
    return alreadyDone(target, shard, before, opts, log);
  }
  const rows = parts?.todo.size === 0 ? [] : job.stages(source, context);
  await writeRows(rows, sink, stats, signal, place);
  return EXIT.done;
}

/** What is said of an input that has our columns already. */
const AGAIN =
  'the input was scored already: rredcot redistribute gives another credit without a policy; here what that run has made is kept as input_<name>, but for what --drop names';

/** Looks at the policy, and others that run beside it. @returns what throws where one of them, or an input, is no longer what it was */
async function watchModels(
  { policy, policiesBeside = [], printsBeside = [] }: CommandJob,
  inputs: readonly InputPrint[],
): Promise<() => Promise<void>> {
  const models = await Promise.all([...(policy ? [policy] : []), ...policiesBeside].map(watchPolicy));
  for (const each of models) await each.assertAsBuilt();
  return async () => {
    await assertSameInputs([...inputs, ...printsBeside]);
    for (const each of models) await each.assertUnchanged();
  };
}

function ofPart({ path, part }: FoundPart): string {
  return `${path}: ${partText(part)}, so that its groups may lack traces, and what follows of a group, such as its mean reward, is of those that are left: score ${wholeText(part)}`;
}

/** An output, or a shard, that was done before: nothing is touched. @throws RredcotError (exit 65) where it has more rejects than this call allows */
function alreadyDone(
  target: Target,
  shard: Shard,
  counts: Pick<Counts, 'traces' | 'rejects'>,
  { maxRejects }: Pick<JobOptions, 'maxRejects'>,
  log: Log,
): ExitCode {
  checkRejects(counts, { maxRejects, target, isAll: false }, true);
  const what = shard.count === 1 ? target.path : `${target.path}: shard ${shard.index}/${shard.count}`;
  const { traces, rejects } = counts;
  const told = traces + rejects === 0 ? '' : `: ${plural(traces, 'trace')}, ${plural(rejects, 'reject')}`;
  log.info(`${what} is already done${told}`);
  return EXIT.done;
}
