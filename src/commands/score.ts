// The main job, and the map of the program: traces in, every token's entropy, values at exit points, σ, rows out.
import { type ExitCode, TraceRejected } from '../errors.js';
import { type BankSource, GroupBanks, referencesOf } from '../estimate/bank.js';
import { surveyedMean, withContiguousMeans } from '../estimate/baseline.js';
import { type CreditOptions, creditTrace } from '../estimate/credit.js';
import { bankMaker } from '../estimate/references.js';
import { resolveReward } from '../estimate/reward.js';
import { traceValues } from '../estimate/value.js';
import { type ExportName, withExport } from '../io/export/exports.js';
import { resolveInputs } from '../io/inputs.js';
import { OUR_COLUMNS, resolveColumnNames } from '../io/output.js';
import { eachTrace } from '../io/rows.js';
import { windowOf } from '../io/shard.js';
import { resolveDevice } from '../policy/device.js';
import { encodeTrace, spelledText } from '../policy/encode.js';
import { openPolicyFolder } from '../policy/folder.js';
import { Prompts } from '../policy/prompts.js';
import { graphFor, PolicySession } from '../policy/session.js';
import type { Strategy } from '../policy/strategy.js';
import { loadTokenizer } from '../policy/tokenizer.js';
import { scoreWindows } from '../policy/windows.js';
import type { Log } from '../report/log.js';
import { cutTrace } from '../segment/given.js';
import type { Trace } from '../trace.js';
import { inRun } from './in-run.js';
import { logMapping, resolveMapping } from './mapping.js';
import type { JobOptions } from './options.js';
import type { RunOptions } from './run.js';
import { openSink } from './sink.js';
import { openSource } from './source.js';
import { fileMetadata, resolveTarget, stemOf } from './target.js';
import { writtenColumns } from './written-columns.js';

export interface ScoreOptions extends JobOptions, RunOptions {
  readonly policy: string;
  readonly strategy: Strategy;
  readonly bank: BankSource;
  readonly credit: CreditOptions;
  /** a trainer's columns in place of ours */
  readonly exportName: ExportName | undefined;
}

/**
 * `rredcot score`: reads traces, runs the policy over them, and writes each with its σ.
 * @throws RredcotError with exit code 65 where more traces were rejected than `--max-rejects` allows, or all of them
 */
export async function score(paths: readonly string[], opts: ScoreOptions, log: Log): Promise<ExitCode> {
  const written = writtenColumns(OUR_COLUMNS, opts.columns, opts.exportName);
  const policy = await openPolicyFolder(opts.policy);
  const { device } = await resolveDevice(opts.device, policy);
  const tokenizer = await loadTokenizer(policy.path);
  const { architecture, exitTemplate } = policy;
  const prompts = await Prompts.open(policy, tokenizer, opts.chatTemplateArgs, log);
  const makeBank = bankMaker(exitTemplate, opts.credit.estimator, tokenizer.encode);
  const textOf = (trace: Trace) => () =>
    trace.completion || spelledText(trace.completionIds ?? new Int32Array(0), tokenizer);
  const rewardOf = (trace: Trace) =>
    resolveReward(trace, opts.credit.rewardRange, textOf(trace), exitTemplate);
  const banks =
    opts.bank === 'group' ? new GroupBanks(exitTemplate, opts.credit.estimator, textOf) : undefined;

  const inputs = await resolveInputs(paths);
  const target = await resolveTarget(opts.output ?? `${stemOf(inputs)}.scored.parquet`, opts.format, inputs);
  const mapping = await resolveMapping(inputs, opts);
  const { map } = mapping;
  logMapping(mapping, opts, log);
  const config = {
    command: 'score',
    ...mapping.config,
    limit: opts.limit,
    columns: opts.columns,
    export: opts.exportName,
    bank: opts.bank,
    chatTemplateArgs: opts.chatTemplateArgs,
    ...opts.credit,
    ...opts.segments,
  };
  const { precision } = graphFor(policy, device);
  const runs = { strategy: opts.strategy, precision };
  const described = { command: 'score', config, policy: policy.files, runs };
  return inRun(target, inputs, described, opts, log, async (run) => {
    const { baseline, rewardRange } = opts.credit;
    const usesGroups = banks !== undefined || baseline === 'auto' || baseline === 'group';
    const source = await openSource(inputs, {
      run,
      read: mapping.read,
      map,
      needs: { prompt: true, references: banks === undefined },
      limit: opts.limit,
      maxLineBytes: opts.maxLineBytes,
      typed: target.format !== 'jsonl',
      reward: usesGroups ? (trace) => orNull(() => rewardOf(trace).reward) : undefined,
      banks,
      log,
      signal: opts.signal,
    });
    const rewardAsIs = rewardRange[0] === 0 && rewardRange[1] === 1;
    const { columns, warnings } = resolveColumnNames(source.columns, written.columns, map, rewardAsIs);
    for (const warning of warnings) log.warn('column_renamed', warning);
    const session = await PolicySession.open(policy, device);
    try {
      const sink = await openSink({
        target,
        run,
        ourColumns: written.columns,
        passThrough: columns,
        metadata: fileMetadata(config, policy),
        maxRejects: opts.maxRejects,
        ahead: source.ahead,
        log,
        signal: opts.signal,
      });

      // read, map, find the reward
      const rewarded = eachTrace(source.traces(), ({ trace }) => {
        const reward = rewardOf(trace);
        // a stream's groups are held back below, so that a bank is whole when its first trace is scored
        if (source.survey === undefined) banks?.add(trace, reward.reward);
        return { trace, reward };
      });

      // the group's mean reward, before anything else can turn a trace down: its reward counts all the same
      const groups = usesGroups ? source.survey?.groupRewards : new Map();
      const withMeans =
        groups === undefined
          ? withContiguousMeans(rewarded)
          : eachTrace(rewarded, (item) => ({ ...item, groupMean: surveyedMean(item.trace, groups) }));

      // encode, split into pieces: what the policy cannot take shows here
      const ready = eachTrace(withMeans, async (item) => {
        const { references, bankStatus } = referencesOf(item.trace, item.reward.reward, banks);
        if (source.survey === undefined) banks?.reach(item.trace.group);
        const scoredBank = makeBank(references);
        const longest = scoredBank.continuations.reduce((most, { ids }) => Math.max(most, ids.length), 0);
        const trace = await prompts.prepare(item.trace);
        const tokens = encodeTrace(trace, tokenizer, architecture.vocab, architecture.maxTokens - longest);
        const status = [...tokens.status, ...bankStatus];
        return { ...item, ...scoredBank, ...tokens, status, pieces: cutTrace(tokens, opts.segments) };
      });

      // score: segments and the references' log-probabilities at exit points
      const scored = scoreWindows(ready, session, opts.strategy, (row) => windowOf(row, run.layout));

      // values at the exit points, the baseline, σ, the row; a trainer's form of it where one is asked for
      const credited = eachTrace(scored, ({ job, result }) => {
        if (result instanceof TraceRejected) throw result;
        const utilities = Float32Array.from(job.bank, (reference) => reference.utility);
        const values = traceValues(result.branches, utilities, opts.credit.estimator);
        return withExport(creditTrace(job, result, values, opts.credit), written.export);
      });
      await sink.drain(credited);
      sink.report(opts.credit.estimator === 'joint' ? 'log v̂' : 'v̂');
    } finally {
      await prompts.close();
      await session.close();
    }
  });
}

/** The survey passes over what is turned down later, where the rejects file is open. */
function orNull<T>(action: () => T | null): T | null {
  try {
    return action();
  } catch (error) {
    if (error instanceof TraceRejected) return null;
    throw error;
  }
}
