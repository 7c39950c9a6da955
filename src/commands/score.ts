// The main job, and the map of the method: from a trace by its tokens' entropies and its values at exit points to σ.

import { asksForMean, type CreditOptions, creditConfig, credited } from '../credit/credit.js';
import { scoresReferences, valueNameOf } from '../credit/nature.js';
import { requestedColumns } from '../credit/requested.js';
import { type ExitCode, usageError } from '../errors.js';
import type { EstimatorSetup } from '../estimate/estimator.js';
import { type PolicyNeed, policyNeed, preparing, rewarding } from '../estimate/ready.js';
import type { ReferenceSource } from '../estimate/references.js';
import { valueColumns } from '../estimate/registry.js';
import { findRewardRange, RewardCheck, SIGNED_NOTICE } from '../estimate/reward.js';
import { type Begin, openStages, openWhole, valuesOf } from '../estimate/stages.js';
import type { Engine } from '../model/engine/engine.js';
import { withGraphs } from '../model/onnx/folder.js';
import { type OpenPolicy, openPolicy } from '../model/onnx/open-model.js';
import { graphFor } from '../model/onnx/session.js';
import type { Log } from '../report/log.js';
import { eachTrace } from '../rows.js';
import type { CutOptions } from '../run/options.js';
import { type CommandJob, runJob } from '../run/run-job.js';
import { type JobInputs, openInputs, type RunContext, type Source } from '../run/source.js';
import { chosenColumns, OUR_COLUMNS } from '../scored/columns.js';

export interface ScoreOptions extends CutOptions {
  readonly policy: string;
  readonly references: ReferenceSource;
  readonly credit: CreditOptions;
  /** the estimator as its flags ask for it */
  readonly setUp: EstimatorSetup;
  /** whether the user has named the rewards' range: else the inputs say it */
  readonly isRangeGiven: boolean;
  /** opens who answers in the place of the policy's graph */
  readonly engine?: ((opened: OpenPolicy) => Promise<Engine>) | undefined;
}

/** A job whose run is to be made while what it has opened is open. */
type MakeRun = (given: JobInputs, job: CommandJob) => Promise<ExitCode>;

/** Nothing is looked for that would run nothing. */
const NO_DEVICE = { name: 'cpu' } as const;

/** `rredcot score`: reads traces, runs the policy over them, and writes each with its σ. @throws RredcotError as `runJob` */
export function score(paths: readonly string[], opts: ScoreOptions, log: Log): Promise<ExitCode> {
  return scoring(paths, opts, log, (given, job) => runJob(given, opts, job, log));
}

/** The same, whatever is made of its rows. */
export async function scoring(
  paths: readonly string[],
  opts: ScoreOptions,
  log: Log,
  makeRun: MakeRun,
): Promise<ExitCode> {
  const { setUp, segments, chatTemplateArgs, endToken, isRangeGiven, signal } = opts;
  const nature = setUp.nature ?? opts.credit.estimator;
  const readsReferences = setUp.readsReferences ?? scoresReferences(nature);

  // the inputs, the scale of their rewards, the policy as far as it is needed, and what else the estimator asks
  const given = await openInputs(paths, opts, log);
  const need = policyNeed(opts, given.mapping);
  const needs = { prompt: need === 'pass', references: opts.references !== 'group' && readsReferences };
  const rewardRange = isRangeGiven ? opts.credit.rewardRange : await findRewardRange(given, needs, signal);
  if (!isRangeGiven && rewardRange[0] < 0) log.info(SIGNED_NOTICE);
  const rewards = new RewardCheck(rewardRange, isRangeGiven);
  const runs = need === 'pass' && opts.engine === undefined;
  await using opened = await openPolicy(runs ? opts : { ...opts, device: NO_DEVICE }, log);
  const { policy, device } = opened;
  await using engine = await openEngine(opts, need, opened);
  const { thoughtTags } = segments;
  const marks = { ...policy.exitTemplate, thoughtTags, opening: await opened.prompts.opening() };
  const estimator = await setUp.open({ ...opened, choice: opts.device, marks, engine, log, signal });
  await using _ = { [Symbol.asyncDispose]: async () => estimator[Symbol.asyncDispose]?.() };
  const own = { ...opts.credit, rewardRange, estimator: nature };
  if (need !== 'pass') log.info("no policy runs: values and segments are the rows' own");

  const method = {
    ...{ need, opened, segments, rewardRange, marks, endToken, nature, setUp, estimator },
    ...{ references: opts.references, engine, log, signal },
  };
  const { rewardOf, rewarded, counted, groupReferences } = rewarding(method);
  const readsMean = setUp.readsPeers === true || setUp.readsMean === true;
  const usesGroups = groupReferences !== undefined || asksForMean(own) || readsMean;
  await using whole = estimator.whole && openWhole(estimator.whole, method);

  const begin: Begin = async (all, source, run) => {
    const isStream = run.prescan === undefined;
    // read, map, find the reward, and the mean of the group's
    const traces = rewarded(isStream ? rewards.watched(all) : all, run.prescan, usesGroups);

    // cut: tokens and pieces; what the policy cannot take shows here
    const prepare = await preparing(method, groupReferences, isStream);
    const stages = await openStages({ ...method, run, source, prepare, rewardOf, kept: whole?.kept() });
    return { cut: eachTrace(traces, prepare), stages };
  };

  const stages: CommandJob['stages'] = async function* (source, run) {
    const { cut, stages } = await begin(source.traces(), source, run);
    await using _ = stages;

    // ask, answer, values: how likely references are at exit points, whoever says it, and what a state is worth by that
    const asked = stages.ask(cut);
    const answered = stages.answer(asked);
    const valued = valuesOf(answered, estimator);

    // credit: the baseline and σ
    const credit = { ...own, estimator: whole?.nature() ?? nature };
    yield* eachTrace(valued, ({ job, row }) => credited(row, job, credit));
  };

  const asked = { ...own, estimator: opts.credit.estimator };
  const config = {
    ...{ references: opts.references, chatTemplateArgs, endToken },
    ...{ ...creditConfig(asked), ...setUp.config, ...segments, ...engine?.config, ...estimator.config },
    ...(need !== 'pass' && { ofPolicy: need }),
  };
  const warning = setUp.warning?.(policy.files, config);
  if (warning !== undefined) log.warn('calibration', warning);
  const beside = [...requestedColumns(own), ...valueColumns(config)];
  const written = chosenColumns(OUR_COLUMNS, opts.columns, beside);
  const job = {
    command: 'score' as const,
    ending: '.scored.parquet',
    columns: [...written.columns, ...beside],
    texts: written.texts,
    ...{ config, needs, rewards, groupReferences, stages, printsBeside: engine?.prints },
    ...(whole && { first: (source: Source, run: RunContext) => whole.first(begin, source, run, config) }),
    policy: need === 'nothing' ? undefined : policy,
    policiesBeside: estimator.second?.model === undefined ? [] : [estimator.second.model.policy],
    passes:
      need === 'pass' ? { precision: engine?.name ?? graphFor(withGraphs(policy), device).precision } : null,
    reward: usesGroups ? counted : undefined,
    readsPeers: setUp.readsPeers === true,
    rewardAsIs: rewardRange[0] === 0 && rewardRange[1] === 1,
    valueName: valueNameOf(nature),
  };
  return await makeRun(given, job);
}

/** @throws RredcotError (exit 2) where nobody is asked; as the engine */
async function openEngine({ engine }: ScoreOptions, need: PolicyNeed, opened: OpenPolicy) {
  if (need === 'pass' || engine === undefined) return engine?.(opened);
  throw usageError(
    "no policy is asked: values and segments are the rows' own",
    'leave out the flag that names who answers, or take another --estimator',
  );
}
