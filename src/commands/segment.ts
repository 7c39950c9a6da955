// `rredcot segment`: cuts traces into segments without scoring them, by the policy's entropies or by length.
import type { ExitCode } from '../errors.js';
import { TypesChangedError } from '../io/guess.js';
import { areJsonFiles, resolveInputs } from '../io/inputs.js';
import { explodes } from '../io/map.js';
import { type OurColumn, resolveColumnNames } from '../io/output.js';
import { eachTrace } from '../io/rows.js';
import type { Log } from '../report/log.js';
import { byLength } from '../segment/by-length.js';
import { inRun } from './in-run.js';
import { logMapping, resolveMapping } from './mapping.js';
import type { JobOptions } from './options.js';
import type { Run, RunOptions } from './run.js';
import { segmentBlocks } from './segment-blocks.js';
import { openSink } from './sink.js';
import { openSource } from './source.js';
import { fileMetadata, resolveTarget } from './target.js';
import { chosenColumns } from './written-columns.js';

export interface SegmentCommandOptions extends JobOptions, RunOptions {
  /** null: no policy, length stands in for entropy */
  readonly policy: string | null;
}

const COLUMNS: readonly OurColumn[] = ['id', 'group', 'segments', 'source_row', 'status'];
const POLICY_COLUMNS: readonly OurColumn[] = [
  ...COLUMNS,
  'prompt_ids',
  'completion_ids',
  'logprobs',
  'entropies',
];

/** Cuts every trace; errors and exit codes as `score`. Without `-o` it prints JSONL. */
export async function segment(
  paths: readonly string[],
  opts: SegmentCommandOptions,
  log: Log,
): Promise<ExitCode> {
  const ours = opts.policy === null ? COLUMNS : POLICY_COLUMNS;
  const ourColumns = chosenColumns(ours, opts.columns);
  // without a policy neither a tokenizer nor ONNX Runtime is loaded
  const prepared =
    opts.policy === null
      ? undefined
      : await (await import('./segment-policy.js')).preparePolicy(opts.policy, opts);
  const policy = prepared?.policy;
  const inputs = await resolveInputs(paths);
  const format = opts.format ?? (opts.output === undefined ? 'jsonl' : undefined);
  const target = await resolveTarget(opts.output ?? '-', format, inputs);
  const mapping = await resolveMapping(inputs, opts);
  const { map } = mapping;
  logMapping(mapping, opts, log);
  const config = {
    command: 'segment',
    weights: policy ? 'entropy' : 'characters',
    ...mapping.config,
    limit: opts.limit,
    columns: opts.columns,
    ...(policy && { chatTemplateArgs: opts.chatTemplateArgs }),
    ...opts.segments,
  };
  const runs = prepared?.runs ?? null;
  const described = { command: 'segment', config, policy: policy?.files ?? null, runs };
  log.info(
    policy === undefined
      ? 'no policy: pieces are merged by length in characters'
      : "pieces are merged by the policy's entropies",
  );

  // blocks of rows, which several threads can cut: not where the traces are counted, are sent to somebody who waits, or
  // make a block many times as large
  const isByBlocks =
    areJsonFiles(inputs) && opts.limit === undefined && target.folder !== undefined && !explodes(map);
  const recipe = isByBlocks ? mapping.recipe : undefined;

  async function cut(run: Run, mayGuess: boolean): Promise<void> {
    const source = await openSource(inputs, {
      run,
      read: mapping.read,
      map,
      needs: { prompt: policy !== undefined, references: false },
      limit: opts.limit,
      maxLineBytes: opts.maxLineBytes,
      typed: target.format !== 'jsonl',
      mayGuess,
      reward: undefined,
      log,
      signal: opts.signal,
    });
    const { columns, warnings } = resolveColumnNames(source.columns, ourColumns, map, true);
    for (const warning of warnings) log.warn('column_renamed', warning);
    const sink = await openSink({
      target,
      run,
      ourColumns,
      passThrough: columns,
      metadata: fileMetadata(config, policy),
      maxRejects: opts.maxRejects,
      ahead: source.ahead,
      log,
      signal: opts.signal,
    });
    if (prepared !== undefined) await sink.drain(prepared.byEntropy(source, run, log));
    else if (recipe === undefined)
      await sink.drain(eachTrace(source.traces(), ({ trace }) => byLength(trace, opts.segments)));
    else {
      const { segments, maxLineBytes } = opts;
      const job = { recipe, segments, format: target.format, ourColumns, passThrough: columns, maxLineBytes };
      await sink.drain(segmentBlocks(source, inputs, { ...job, guessed: source.guessed }));
    }
    sink.report();
  }
  try {
    // what a policy has computed is not to be thrown away
    const mayGuess = policy === undefined;
    return await inRun(target, inputs, described, opts, log, (run) => cut(run, mayGuess));
  } catch (error) {
    if (!(error instanceof TypesChangedError)) throw error;
    log.info(`${error.message}: all rows are read for their types first, then anew`);
    const anew = { ...opts, restart: true };
    return inRun(target, inputs, described, anew, log, (run) => cut(run, false));
  }
}
