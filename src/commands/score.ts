// The main job, and the map of the method: traces in, every token's entropy, values at exit points, σ, rows out.
import { type ExitCode, TraceRejected } from '../errors.js';
import { type BankSource, GroupBanks, referencesOf } from '../estimate/bank.js';
import { surveyedMean, withContiguousMeans } from '../estimate/baseline.js';
import type { Calibration } from '../estimate/calibrate/calibration.js';
import { calibratedValues, calibrationDoubt, scoredWith, UNCALIBRATED } from '../estimate/calibrated.js';
import { type CreditOptions, creditConfig, creditTrace } from '../estimate/credit.js';
import { natureOf, valueNameOf } from '../estimate/estimators.js';
import type { Strategy } from '../estimate/passes/strategy.js';
import { scoreWindows } from '../estimate/passes/windows.js';
import { bankMaker } from '../estimate/references.js';
import { requestedColumns } from '../estimate/requested.js';
import { resolveReward } from '../estimate/reward.js';
import { monteCarloColumns } from '../estimate/sampling/monte-carlo.js';
import { type MonteCarloOptions, monteCarloConfig, sampledValues } from '../estimate/sampling/sampled.js';
import { givenValues, traceValues } from '../estimate/value.js';
import { type ExportName, withExport } from '../io/export/exports.js';
import { windowOf } from '../io/layout/chunks.js';
import { OUR_COLUMNS } from '../io/table/output-columns.js';
import { resolveDevice } from '../policy/device/device.js';
import { openPolicyFolder } from '../policy/folder.js';
import { graphFor, PolicySession } from '../policy/run/session.js';
import { encodeTrace, spelledText, withTexts } from '../policy/text/encode.js';
import { openTokenizer } from '../policy/text/open-tokenizer.js';
import { Prompts } from '../policy/text/prompts.js';
import type { Log } from '../report/log.js';
import { TokenMeter } from '../report/progress.js';
import { type BadRow, eachTrace } from '../rows.js';
import type { OutputRow } from '../scored.js';
import { cutTrace } from '../segment/given.js';
import type { Trace } from '../trace.js';
import { dryRun as tellDryRun } from './dry-run.js';
import type { Run, RunOptions } from './job/open-run.js';
import type { CutOptions } from './job/options.js';
import { runJob } from './job/run-job.js';
import type { Source } from './job/source.js';
import { writtenColumns } from './job/written-columns.js';

export interface ScoreOptions extends CutOptions, RunOptions {
  readonly policy: string;
  readonly strategy: Strategy;
  readonly bank: BankSource;
  readonly credit: CreditOptions;
  /** of `--estimator calibrated` */
  readonly calibration?: Calibration | undefined;
  /** how values are sampled, for estimators that do */
  readonly monteCarlo?: MonteCarloOptions | undefined;
  /** a trainer's columns in place of ours */
  readonly exportName: ExportName | undefined;
  /** takes what is told of a run that is not made; undefined: the run is made */
  readonly dryRun?: ((line: string) => void) | undefined;
}

/** What it writes. */
export const COLUMNS = OUR_COLUMNS.filter((name) => name !== 'finish_reason');

/** `rredcot score`: reads traces, runs the policy over them, and writes each with its σ. @throws RredcotError as `runJob` */
export async function score(paths: readonly string[], opts: ScoreOptions, log: Log): Promise<ExitCode> {
  const { monteCarlo, strategy, segments, chatTemplateArgs, dryRun, signal } = opts;
  // a calibration that stands back leaves the values as they are
  const calibration = opts.calibration?.standsBack ? undefined : opts.calibration;
  const isUncalibrated = opts.calibration !== calibration;
  const credit: CreditOptions = isUncalibrated ? { ...opts.credit, estimator: 'pr' } : opts.credit;
  const { estimator, baseline, rewardRange } = credit;
  const written = writtenColumns(COLUMNS, opts.columns, opts.exportName);
  const policy = await openPolicyFolder(opts.policy);
  const { architecture, exitTemplate } = policy;
  const [{ device }, tokenizer] = await Promise.all([
    resolveDevice(opts.device, policy),
    openTokenizer(policy.path, { signal }),
  ]);
  const prompts = await Prompts.open(policy, tokenizer, chatTemplateArgs, log, signal);
  const makeBank = await bankMaker(exitTemplate, estimator, tokenizer.encode);
  const textOf = (trace: Trace) => () =>
    trace.completion || spelledText(trace.completionIds ?? new Int32Array(0), tokenizer);
  const rewardOf = (trace: Trace) => resolveReward(trace, rewardRange, textOf(trace), exitTemplate);
  const banks = opts.bank === 'group' ? new GroupBanks(exitTemplate, estimator, textOf) : undefined;
  const usesReferences = natureOf(estimator).scores !== 'nothing' || monteCarlo !== undefined;
  const sampledColumns = monteCarlo === undefined ? [] : monteCarloColumns(monteCarlo.keep);
  const meter = new TokenMeter();
  const usesMean = baseline === 'group' || (baseline === 'auto' && !natureOf(estimator).onRewardScale);
  const usesGroups = banks !== undefined || usesMean;

  async function* stages(source: Source, run: Run): AsyncGenerator<OutputRow | BadRow> {
    // read, map, find the reward
    const rewarded = eachTrace(source.traces(), ({ trace }) => {
      const reward = rewardOf(trace);
      // a stream's groups are held back below, so that a bank is whole when its first trace is scored
      if (run.survey === undefined) banks?.add(trace, reward.reward);
      return { trace, reward };
    });

    // the group's mean reward, before anything else can turn a trace down: its reward counts all the same
    const groups = usesGroups ? run.survey?.groupRewards : new Map();
    const withMeans =
      groups === undefined
        ? withContiguousMeans(rewarded)
        : eachTrace(rewarded, (item) => ({ ...item, groupMean: surveyedMean(item.trace, groups) }));

    // encode, split into pieces: what the policy cannot take shows here
    const ready = eachTrace(withMeans, async (item) => {
      const { references, bankStatus } = referencesOf(item.trace, item.reward.reward, banks);
      if (run.survey === undefined) banks?.reach(item.trace.group);
      const scoredBank = await makeBank(references);
      const longest = scoredBank.continuations.reduce((most, { ids }) => Math.max(most, ids.length), 0);
      const trace = await prompts.prepare(item.trace);
      const most = architecture.maxTokens - longest;
      const tokens = await encodeTrace(trace, tokenizer, architecture.vocab, most);
      const valueStatus = isUncalibrated ? [UNCALIBRATED] : [];
      const status = [...tokens.status, ...bankStatus, ...scoredBank.status, ...valueStatus];
      const pieces = cutTrace(tokens, segments);
      const whole = { ...item, ...scoredBank, ...tokens, trace: withTexts(tokens, tokenizer) };
      return { ...whole, references, status, pieces };
    });

    const session = await PolicySession.open(policy, device);
    try {
      if (dryRun !== undefined) {
        const text = { ...exitTemplate, maxTokens: architecture.maxTokens, device: device.name };
        if (monteCarlo !== undefined) await session.openDecoder();
        await tellDryRun(ready, { session, strategy, text, rows: run.survey?.rows, monteCarlo }, dryRun);
        return;
      }
      // score: segments and the references' log-probabilities at exit points
      const window = (row: number): number => windowOf(row, run.rowsPerChunk);
      const scored = scoreWindows(ready, session, strategy, window);

      // continue: completions from the exit points, and what they have earned
      if (monteCarlo !== undefined) {
        await session.openDecoder();
        const onTokens = (count: number): void => meter.add(count);
        const writer = { session, tokenizer, template: exitTemplate, stops: policy.decoding?.stops ?? [] };
        const from = { ...writer, maxTokens: architecture.maxTokens };
        const valued = sampledValues(scored, from, { ...monteCarlo, signal, onTokens }, window);
        yield* eachTrace(valued, ({ job, result, values }) => {
          const row = creditTrace(job, result, values, credit);
          const requested = { ...row.requested, ...values.columns };
          return withExport({ ...row, requested, status: [...row.status, ...values.status] }, written.export);
        });
        return;
      }

      // values at the exit points, the baseline, σ, the row; a trainer's form of it where one is asked for
      yield* eachTrace(scored, ({ job, result }) => {
        if (result instanceof TraceRejected) throw result;
        const utilities = Float32Array.from(job.bank, (reference) => reference.utility);
        const found =
          estimator === 'given'
            ? givenValues(job.trace.values, result.segmentation.exits.length)
            : traceValues(result.branches, utilities, estimator);
        const values =
          calibration === undefined ? found : calibratedValues(found, job.trace, result, calibration);
        return withExport(creditTrace(job, result, values, credit), written.export);
      });
    } finally {
      await session.close();
    }
  }

  const config = {
    ...{
      export: opts.exportName,
      bank: opts.bank,
      chatTemplateArgs,
      ...creditConfig(opts.credit),
      ...(monteCarlo && monteCarloConfig(monteCarlo)),
      ...segments,
    },
    ...(opts.calibration && { calibration: opts.calibration.model }),
  };
  const doubt =
    opts.calibration &&
    calibrationDoubt(opts.calibration, { policy: policy.files, scored_with: scoredWith(config) });
  if (doubt !== undefined) log.warn('calibration', doubt);
  const job = {
    command: 'score' as const,
    isDry: dryRun !== undefined,
    output: (stem: string) => ({ path: `${stem}.scored.parquet` }),
    columns: [...written.columns, ...requestedColumns(credit), ...sampledColumns],
    texts: written.texts,
    config,
    policy,
    passes: { strategy, precision: graphFor(policy, device).precision },
    needs: { prompt: true, references: banks === undefined && usesReferences },
    meter: monteCarlo && meter,
    reward: usesGroups ? (trace: Trace) => orNull(() => rewardOf(trace).reward) : undefined,
    rewardAsIs: rewardRange[0] === 0 && rewardRange[1] === 1,
    banks,
    valueName: valueNameOf(estimator),
    stages,
  };
  try {
    return await runJob(paths, opts, job, log);
  } finally {
    await prompts.close();
    await tokenizer.close();
  }
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
