// The main job, and the map of the method: from a trace by its tokens' entropies and its values at exit points to σ.

import {
  asksForMean,
  type CreditOptions,
  creditConfig,
  credited,
  groupMeanOf,
  withContiguousMeans,
} from '../credit/credit.js';
import { scoresReferences, valueNameOf } from '../credit/nature.js';
import { requestedColumns } from '../credit/requested.js';
import type { ExitCode } from '../errors.js';
import type { EstimatorSetup } from '../estimate/estimator.js';
import { policyNeed, preparing, rewarding } from '../estimate/ready.js';
import type { ReferenceSource } from '../estimate/references.js';
import { valueColumns } from '../estimate/registry.js';
import { findRewardRange, RewardCheck, SIGNED_NOTICE } from '../estimate/reward.js';
import { openStages, valuesOf } from '../estimate/stages.js';
import { openPolicy } from '../model/onnx/open-model.js';
import { graphFor } from '../model/onnx/session.js';
import type { Log } from '../report/log.js';
import { eachTrace } from '../rows.js';
import type { CutOptions } from '../run/options.js';
import { type CommandJob, runJob } from '../run/run-job.js';
import { openInputs } from '../run/source.js';
import { chosenColumns, OUR_COLUMNS } from '../scored/columns.js';

export interface ScoreOptions extends CutOptions {
  readonly policy: string;
  readonly references: ReferenceSource;
  readonly credit: CreditOptions;
  /** the estimator as its flags ask for it */
  readonly setUp: EstimatorSetup;
  /** whether the user has named the rewards' range: else the inputs say it */
  readonly isRangeGiven: boolean;
}

/** Nothing is looked for that would run nothing. */
const NO_DEVICE = { name: 'cpu' } as const;

/** `rredcot score`: reads traces, runs the policy over them, and writes each with its σ. @throws RredcotError as `runJob` */
export async function score(paths: readonly string[], opts: ScoreOptions, log: Log): Promise<ExitCode> {
  const { setUp, segments, chatTemplateArgs, endToken, isRangeGiven, signal } = opts;
  const nature = setUp.nature ?? opts.credit.estimator;
  const readsReferences = scoresReferences(nature) || setUp.readsReferences === true;
  const written = chosenColumns(OUR_COLUMNS, opts.columns);

  // the inputs, the scale of their rewards, the policy as far as it is needed, and what else the estimator asks
  const given = await openInputs(paths, opts, log);
  const need = policyNeed(opts, given.mapping);
  const needs = { prompt: need === 'pass', references: opts.references !== 'group' && readsReferences };
  const rewardRange = isRangeGiven ? opts.credit.rewardRange : await findRewardRange(given, needs, signal);
  if (!isRangeGiven && rewardRange[0] < 0) log.info(SIGNED_NOTICE);
  const rewards = new RewardCheck(rewardRange, isRangeGiven);
  await using opened = await openPolicy(need === 'pass' ? opts : { ...opts, device: NO_DEVICE }, log);
  const { policy, device } = opened;
  const opening = await opened.prompts.opening();
  const marks = { ...policy.exitTemplate, thoughtTags: segments.thoughtTags, opening };
  const estimator = await setUp.open({ ...opened, choice: opts.device, marks, log, signal });
  await using _ = { [Symbol.asyncDispose]: async () => estimator[Symbol.asyncDispose]?.() };
  const own = { ...opts.credit, rewardRange };
  const credit: CreditOptions = { ...own, estimator: nature };
  if (need !== 'pass') log.info("no policy runs: values and segments are the rows' own");

  const method = {
    ...{ need, opened, segments, rewardRange, marks, endToken, nature, setUp, estimator },
    references: opts.references,
  };
  const { rewardOf, reward, counted, groupReferences } = rewarding(method);
  const usesGroups = groupReferences !== undefined || asksForMean(credit) || setUp.readsPeers === true;

  const stages: CommandJob['stages'] = async function* (source, run) {
    const isStream = run.prescan === undefined;
    // read, map, find the reward
    const traces = isStream ? rewards.watched(source.traces()) : source.traces();
    const rewarded = eachTrace(traces, (item) => reward(item, isStream));

    // the group's mean reward, before anything else can turn a trace down: its reward counts all the same
    const groups = usesGroups ? run.prescan?.groupRewards : new Map();
    const withMeans =
      groups === undefined
        ? withContiguousMeans(rewarded)
        : eachTrace(rewarded, (item) => ({
            ...item,
            ...groupMeanOf(groups.get(item.trace.group), item.reward.reward),
          }));

    // cut: tokens and pieces; what the policy cannot take shows here
    const prepare = await preparing(method, groupReferences, isStream);
    const cut = eachTrace(withMeans, prepare);

    // ask, answer, values: how likely references are at exit points, whoever says it, and what a state is worth by that
    await using stages = await openStages({ ...method, run, source, prepare, rewardOf, log, signal });
    const asked = stages.ask(cut);
    const answered = stages.answer(asked);
    const valued = valuesOf(answered, estimator);

    // credit: the baseline and σ
    yield* eachTrace(valued, ({ job, row }) => credited(row, job, credit));
  };

  const config = {
    ...{ references: opts.references, chatTemplateArgs, endToken },
    ...{ ...creditConfig(own), ...setUp.config, ...segments, ...estimator.config },
    ...(need !== 'pass' && { ofPolicy: need }),
  };
  const warning = setUp.warning?.({ policy: policy.files, config });
  if (warning !== undefined) log.warn('calibration', warning);
  const job = {
    command: 'score' as const,
    ending: '.scored.parquet',
    columns: [...written.columns, ...requestedColumns(credit), ...valueColumns(config)],
    texts: written.texts,
    ...{ config, needs, rewards, groupReferences, stages },
    policy: need === 'nothing' ? undefined : policy,
    policiesBeside: estimator.second?.model === undefined ? [] : [estimator.second.model.policy],
    passes: need === 'pass' ? { precision: graphFor(policy, device).precision } : null,
    reward: usesGroups ? counted : undefined,
    readsPeers: setUp.readsPeers === true,
    rewardAsIs: rewardRange[0] === 0 && rewardRange[1] === 1,
    valueName: valueNameOf(nature),
  };
  return await runJob(given, opts, job, log);
}
