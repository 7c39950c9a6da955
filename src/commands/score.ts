// The main job, and the map of the method: traces in, every token's entropy, values at exit points, σ, rows out.
import { type ExitCode, TraceRejected } from '../errors.js';
import { type AttributionOptions, attributionConfig } from '../estimate/attributing/attributed.js';
import { type BankSource, GroupBanks, referencesOf } from '../estimate/bank.js';
import {
  type GroupMean,
  type RewardedTrace,
  surveyedMean,
  withContiguousMeans,
} from '../estimate/baseline.js';
import type { Calibration } from '../estimate/calibrate/calibration.js';
import { calibrationDoubt, scoredWith, UNCALIBRATED } from '../estimate/calibrated.js';
import { type CreditOptions, creditConfig, creditTrace, onRewardScale } from '../estimate/credit.js';
import { natureOf, scorerOf, valueNameOf } from '../estimate/estimators.js';
import { type HintOptions, hintConfig, openHint } from '../estimate/hint/hint.js';
import { type Window, windowsOf } from '../estimate/passes/cut-windows.js';
import { type Scored, scoreWindows } from '../estimate/passes/windows.js';
import { openPrm, type PrmOptions, prmConfig } from '../estimate/prm/prm.js';
import { isSamePolicy, openProver, proverConfig } from '../estimate/prover/prover.js';
import { bankMaker } from '../estimate/references.js';
import { methodNotice, requestedColumns } from '../estimate/requested.js';
import { resolveReward } from '../estimate/reward.js';
import { type MonteCarloOptions, monteCarloConfig } from '../estimate/sampling/sampled.js';
import type { MateOptions } from '../estimate/siblings/mates.js';
import { siblingConfig } from '../estimate/siblings/sibling-values.js';
import { type WithMates, withMates } from '../estimate/siblings/with-mates.js';
import { type ExportName, withExport } from '../io/export/exports.js';
import { windowOf } from '../io/layout/chunks.js';
import { OUR_COLUMNS } from '../io/table/output-columns.js';
import { noteProof } from '../policy/canary/note-proof.js';
import { openWriting } from '../policy/check/open-writing.js';
import { openPolicy } from '../policy/run/open-policy.js';
import { PrmSession } from '../policy/run/prm-session.js';
import { graphFor, PolicySession } from '../policy/run/session.js';
import { encodeTrace, spelledText, withTexts } from '../policy/text/encode.js';
import type { Log } from '../report/log.js';
import { TokenMeter } from '../report/progress.js';
import { type BadRow, eachTrace } from '../rows.js';
import type { OutputRow } from '../scored.js';
import { cutTrace } from '../segment/given.js';
import type { Trace } from '../trace.js';
import type { Run, RunOptions } from './job/open-run.js';
import type { CutOptions } from './job/options.js';
import { runJob } from './job/run-job.js';
import type { Source } from './job/source.js';
import { writtenColumns } from './job/written-columns.js';
import { valueColumns } from './scored/value-columns.js';
import { dryRun as tellDryRun } from './scoring/dry-run.js';
import { farMates } from './scoring/far-mates.js';
import { valuesOf } from './scoring/values.js';

export interface ScoreOptions extends CutOptions, RunOptions {
  readonly policy: string;
  readonly bank: BankSource;
  readonly credit: CreditOptions;
  /** of `--estimator calibrated` */
  readonly calibration?: Calibration | undefined;
  /** how mates are used, for estimators that do */
  readonly mates?: MateOptions | undefined;
  /** how segments are attributed to, for estimators that read a trace again for it */
  readonly attribution?: AttributionOptions | undefined;
  /** how values are sampled, for estimators that do */
  readonly monteCarlo?: MonteCarloOptions | undefined;
  /** folder of the prover, for estimators that have one */
  readonly prover?: string | undefined;
  /** where the hint is, for estimators that have one */
  readonly hint?: HintOptions | undefined;
  /** of `--estimator prm` */
  readonly prm?: PrmOptions | undefined;
  /** a trainer's columns in place of ours */
  readonly exportName: ExportName | undefined;
  /** takes what is told of a run that is not made; undefined: the run is made */
  readonly dryRun?: ((line: string) => void) | undefined;
}

/** What it writes. */
export const COLUMNS = OUR_COLUMNS.filter((name) => name !== 'finish_reason');

/** `rredcot score`: reads traces, runs the policy over them, and writes each with its σ. @throws RredcotError as `runJob` */
export async function score(paths: readonly string[], opts: ScoreOptions, log: Log): Promise<ExitCode> {
  const { monteCarlo, mates, attribution, segments, chatTemplateArgs, dryRun, signal } = opts;
  // a calibration that stands back leaves the values as they are
  const calibration = opts.calibration?.standsBack ? undefined : opts.calibration;
  const isUncalibrated = opts.calibration !== calibration;
  const credit: CreditOptions =
    isUncalibrated && mates === undefined
      ? { ...opts.credit, estimator: 'pr' }
      : { ...opts.credit, calibration: opts.calibration?.model };
  const { estimator, baseline, rewardRange } = credit;
  const written = writtenColumns(COLUMNS, opts.columns, opts.exportName);
  await using opened = await openPolicy(opts, log);
  const { policy, device, tokenizer, prompts } = opened;
  const { architecture, exitTemplate } = policy;
  await using prover = opts.prover === undefined ? undefined : await openProver(opts.prover, tokenizer, opts);
  if (prover && isSamePolicy(policy, prover.policy))
    log.warn('prover', `${opts.prover}: is the policy itself, so its values are those without a prover`);
  await using hint = opts.hint === undefined ? undefined : await openHint(opts.hint, opened, opts);
  const second = prover ?? hint?.reader;
  await using prm = opts.prm && (await openPrm(opts.prm, tokenizer, opts, log));
  const notice = methodNotice(credit);
  if (notice !== undefined) log.info(notice);
  const scorer = scorerOf(credit);
  const answers = prover ?? opened;
  const makeBank = await bankMaker(answers.policy.exitTemplate, scorer, answers.tokenizer.encode);
  const textOf = (trace: Trace) => () =>
    trace.completion || spelledText(trace.completionIds ?? new Int32Array(0), tokenizer);
  const rewardOf = (trace: Trace) => resolveReward(trace, rewardRange, textOf(trace), exitTemplate);
  const banks = opts.bank === 'group' ? new GroupBanks(exitTemplate, scorer, textOf) : undefined;
  const usesReferences =
    natureOf(estimator).scores !== 'nothing' ||
    monteCarlo !== undefined ||
    hint !== undefined ||
    prm?.reference === true;
  const meter = new TokenMeter();
  const usesMean = baseline === 'group' || (baseline === 'auto' && !onRewardScale(credit));
  const usesGroups = banks !== undefined || usesMean || mates !== undefined;

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
        : eachTrace(rewarded, (item) => ({ ...item, ...surveyedMean(item.trace, groups) }));

    // encode, split into pieces: what the policy cannot take shows here
    const prepare = async (item: RewardedTrace & GroupMean) => {
      const { references, bankStatus } = referencesOf(item.trace, item.reward.reward, banks);
      if (run.survey === undefined) banks?.reach(item.trace.group);
      const made = await makeBank(references);
      // what a prover scores, the policy does not
      const proved = prover && made.continuations;
      const scoredBank = proved === undefined ? made : { ...made, continuations: [] };
      const longest = scoredBank.continuations.reduce(
        (most, { ids }) => Math.max(most, ids.length),
        mates?.mateTokens ?? 0,
      );
      const trace = await prompts.prepare(item.trace);
      const most = architecture.maxTokens - longest;
      const tokens = await encodeTrace(trace, tokenizer, architecture.vocab, most);
      if (proved !== undefined) prover?.check(tokens, proved);
      const hinted = await hint?.hinted(tokens, references);
      const valueStatus = isUncalibrated ? [UNCALIBRATED] : [];
      const status = [...tokens.status, ...bankStatus, ...scoredBank.status, ...valueStatus];
      const pieces = cutTrace(tokens, segments);
      const whole = { ...item, ...scoredBank, ...tokens, trace: withTexts(tokens, tokenizer) };
      const beside = {
        ...(proved && { proved }),
        ...(hinted && { hinted }),
        ...(prm && { prmPromptIds: await prm.promptIds(item.trace) }),
      };
      return { ...whole, references, status, pieces, ...beside };
    };
    const ready = eachTrace(withMeans, prepare);

    // windows of neighbours, where mates are read with each trace's, and with the guests that lie elsewhere
    const window = (row: number): number => windowOf(row, run.rowsPerChunk);
    await using far =
      mates && dryRun === undefined
        ? await farMates(
            source,
            run,
            window,
            ({ trace }) => prepare({ trace, reward: rewardOf(trace), groupMean: undefined }),
            log,
            signal,
          )
        : undefined;
    type Ready = Awaited<ReturnType<typeof prepare>>;
    const together = (
      items: AsyncIterable<Ready | BadRow>,
      of = window,
    ): AsyncIterable<Window<Ready & Partial<WithMates>>> => {
      const windows = windowsOf(items, of);
      return mates === undefined ? windows : withMates(windows, far?.mates, mates);
    };

    const open = monteCarlo === undefined ? PolicySession.open : openWriting;
    const session = await open(policy, device);
    noteProof(run, log, session, 'policy');
    let other: PolicySession | undefined;
    let judging: PrmSession | undefined;
    try {
      other = second && (await PolicySession.open(second.policy, second.device));
      if (other) noteProof(run, log, other, prover ? 'prover' : 'hint policy');
      const besides = { session: other ?? session };
      judging = prm && (await PrmSession.open(prm.folder, prm.device));
      if (judging) noteProof(run, log, judging, 'prm');
      const by = {
        ...{ policy, session, tokenizer, meter, signal, window },
        prover: prover && credit.prover && { ...credit.prover, ...besides },
        hint: hint && besides,
        prm: judging && prm && { ...prm, session: judging },
      };
      const how = { estimator, calibration, mates, monteCarlo, attribution };
      if (dryRun !== undefined) {
        const text = { maxTokens: architecture.maxTokens, device: device.name };
        const inOneWindow = (): number => 0;
        const forecastBy = {
          ...{ session, monteCarlo, attribution },
          ...{ text: { ...answers.policy.exitTemplate, ...text }, rows: run.survey?.rows },
          together: (items: AsyncIterable<Ready | BadRow>) => together(items, inOneWindow),
          again:
            (by.prover ?? by.hint ?? by.prm) &&
            ((scored: AsyncIterable<Scored<Ready> | BadRow>) =>
              valuesOf(scored, how, { ...by, window: inOneWindow })),
        };
        await tellDryRun(ready, forecastBy, dryRun);
        return;
      }
      // score: segments and the references' log-probabilities at exit points
      const scored = scoreWindows(together(ready), session);

      // values at the exit points
      const valued = valuesOf(scored, how, by);

      // the baseline, σ, the row; a trainer's form of it where one is asked for
      yield* eachTrace(valued, ({ job, result, values }) =>
        withExport(creditTrace(job, result, values, credit), written.export),
      );
    } finally {
      await session.close();
      await other?.close();
      await judging?.close();
    }
  }

  const config = {
    ...{
      export: opts.exportName,
      bank: opts.bank,
      chatTemplateArgs,
      ...creditConfig(opts.credit),
      ...(monteCarlo && monteCarloConfig(monteCarlo)),
      ...(mates && siblingConfig(mates)),
      ...(attribution && attributionConfig(attribution)),
      ...segments,
    },
    ...(opts.calibration && { calibration: opts.calibration.model }),
    ...(prover && { prover: proverConfig(prover) }),
    ...(hint && hintConfig(hint)),
    ...(prm && { prmReference: prm.reference, prm: prmConfig(prm) }),
  };
  const doubt =
    opts.calibration &&
    calibrationDoubt(opts.calibration, { policy: policy.files, scored_with: scoredWith(config) });
  if (doubt !== undefined) log.warn('calibration', doubt);
  const job = {
    command: 'score' as const,
    isDry: dryRun !== undefined,
    output: (stem: string) => ({ path: `${stem}.scored.parquet` }),
    columns: [
      ...written.columns,
      ...requestedColumns(credit),
      ...valueColumns(estimator, monteCarlo?.keep === true),
    ],
    texts: written.texts,
    config,
    policy,
    policiesBeside: [...(second ? [second.policy] : []), ...(prm ? [prm.folder] : [])],
    passes: { precision: graphFor(policy, device).precision },
    needs: { prompt: true, references: banks === undefined && usesReferences },
    meter: monteCarlo && meter,
    reward: usesGroups ? (trace: Trace) => orNull(() => rewardOf(trace).reward) : undefined,
    readsMates: mates !== undefined,
    rewardAsIs: rewardRange[0] === 0 && rewardRange[1] === 1,
    banks,
    valueName: valueNameOf(estimator),
    stages,
  };
  return await runJob(paths, opts, job, log);
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
