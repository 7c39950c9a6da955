// `probe`: the probability of winning by going on, read off the policy's own hidden state there, fitted to the outcomes of all traces (METHOD §3).
import { isDeepStrictEqual } from 'node:util';
import type { Nature } from '../credit/nature.js';
import { usageError } from '../errors.js';
import { STDIN } from '../io/files/files.js';
import { WHOLE } from '../io/files/run-folder.js';
import type { Config } from '../io/write/output.js';
import { fromFloat16 } from '../model/onnx/float16.js';
import { plural } from '../plural.js';
import type { Answers } from '../question.js';
import type { Log } from '../report/log.js';
import { compact, ownBefore } from '../trace.js';
import { CALIBRATION, scoredWith, UNCALIBRATED } from './calibrated.js';
import { groupPlace } from './calibration-fit.js';
import type { Estimator, EstimatorSetup, OpenEstimator, ValueJob } from './estimator.js';
import { ofReferences, pr } from './one-pass.js';
import { refuseStream } from './peers.js';
import { Probe, type ProbeFile, probeFile, readProbe } from './probe-file.js';
import { fitProbe, type ProbeTrace, peersFeature } from './probe-fit.js';
import { referenceSetMaker } from './references.js';
import { FEATURES_OF, stateFeatures } from './states.js';
import { geoValuesOf, listColumn, type TraceValues, traceValues, utilitiesOf } from './value.js';

/** Status of values without hidden states: nobody gave any, or they help nothing. */
const NO_STATES = 'value:no-states';

export const probe: Estimator = {
  name: 'probe',
  scores: 'answers',
  onRewardScale: true,
  steps: 'bridged',
  card: "the probability of winning by going on, from the policy's hidden state there, the surprise of the thought so far and the rewards of the trace's peers, fitted to rewards",
  creditFlags: [CALIBRATION],
  flags: [['--keep-states', 'of probe: writes the hidden states that it reads, for calibrate --probe']],
  configKeys: ['calibration', 'keepStates', 'stateLayer'],
  columns: ({ keepStates }) => (keepStates === true ? [STATES_COLUMN] : []),
  stored: ({ calibration }) => natureOf(calibration as ProbeFile | undefined),
  async setUp(values, { inputs, shard = WHOLE }, { name }): Promise<EstimatorSetup> {
    const isAuto = name === auto.name;
    const given = values.calibration === undefined ? undefined : await readProbe(String(values.calibration));
    if (given === undefined) refuseStream(probe.name, inputs);
    if (given === undefined && shard.count > 1)
      throw usageError(
        '--estimator probe is fitted to all traces, and a shard has some of them',
        'score a part with --keep-states, rredcot calibrate --probe, then --calibration probe.json in every shard',
      );
    const keepStates = values.keepStates === true;
    return {
      nature: natureOf(given?.file),
      readsMean: true,
      config: { ...(keepStates && { keepStates }), ...(given && { ...told(given.file, isAuto) }) },
      warning: (policy, config) => given && warningOf(given.file, policy, config),
      async open({ policy, tokenizer, engine, log }): Promise<OpenEstimator> {
        const layer = engine === undefined && 'stateLayer' in policy ? policy.stateLayer : undefined;
        const hidden = layer === undefined || !('cuda' in policy) ? 0 : policy.architecture.hidden;
        const needed = given?.file.hidden ?? 0;
        const cause = engine
          ? `${engine.name} gives none`
          : `${policy.path} was built before it gave any: rredcot policy build`;
        if (needed > 0 && needed !== hidden)
          throw usageError(
            `--calibration ${values.calibration}: reads hidden states of ${needed} numbers, and ${hidden > 0 ? `those of ${policy.path} have ${hidden}` : cause}`,
            hidden > 0
              ? 'a probe of this policy'
              : 'rredcot policy build, which makes a folder that gives them',
          );
        if (hidden === 0 && given === undefined)
          log.warn('no_states', `no hidden states: ${cause}; values are fitted without (${NO_STATES})`);
        let own = given;
        return {
          config: { ...(hidden > 0 && { stateLayer: layer }) },
          referenceSetOf: await referenceSetMaker(policy.exitTemplate, pr, tokenizer.encode),
          ask: ({ continuations }) => ({ atExits: continuations, ...(hidden > 0 && { states: true }) }),
          values: (trace, answers) => probeValues(trace, answers, own, { keepStates, isAuto }),
          ...(given === undefined && {
            whole: {
              partOf: (trace, answers) => fitTrace(trace, answers),
              async fit(parts, config) {
                async function* traces() {
                  for await (const [part, said] of parts())
                    yield { ...(part as ProbeTrace), states: said.states ?? NONE };
                }
                const fit = await fitProbe(traces, { D: hidden, F: FEATURES });
                own = new Probe(
                  probeFile(fit, layer ?? null, {
                    policy: policy.files,
                    scored_with: scoredWith(config),
                    skipped: {},
                  }),
                );
                tellProbe(own.file, log, { isAuto });
                return { nature: natureOf(own.file), config: told(own.file, isAuto) };
              },
            },
          }),
        };
      },
    };
  },
};

/** Takes `probe` or `pr`, by what the traces have, and says which. */
export const auto: Estimator = {
  ...probe,
  name: 'auto',
  card: 'probe, or pr where there was nothing to fit',
  async setUp(values, call, nature) {
    const { inputs, shard = WHOLE } = call;
    const isStream = inputs.length === 0 || inputs.includes(STDIN);
    if (values.calibration !== undefined || (!isStream && shard.count === 1))
      return (await probe.setUp?.(values, call, nature)) as EstimatorSetup;
    const { open } = ofReferences(pr);
    return {
      ...{ nature: pr, config: { estimator: pr.name } },
      open(context) {
        context.log.info(`--estimator auto takes pr: a ${isStream ? 'stream' : 'shard'} is not all traces`);
        return open(context);
      },
    };
  },
};

export const FEATURES = FEATURES_OF.probe.length;
const NONE = new Uint16Array(0);
/** The column of `--keep-states`. */
export const STATES_COLUMN = listColumn(
  'exit_states',
  'hidden states of the policy at the exit points, one after the other',
);

/** What values are, by what they are made of: those that a fit leaves as they are are those of `pr`. */
function natureOf(file: Pick<ProbeFile, 'uses'> | undefined): Nature {
  return file?.uses === 'now' ? pr : { ...probe, scores: 'nothing' };
}

/** What a run's configuration says of the fit, and what `auto` has taken by it. */
function told({ uses, why, layer, traces, sha256 }: ProbeFile, isAuto: boolean): Config {
  const taken = uses === 'now' ? pr : probe;
  return { calibration: { uses, why, layer, traces, sha256 }, ...(isAuto && { estimator: taken.name }) };
}

function warningOf(file: ProbeFile, policy: Config, config: Config): string | undefined {
  const isSame = isDeepStrictEqual([file.policy, file.scored_with], [policy, scoredWith(config)]);
  return isSame
    ? undefined
    : 'the probe was fitted to traces of another policy, or cut or scored in another way: its values are off as far as these differ';
}

/** What `probe` knows of a trace's states: all but hidden ones. */
function known(job: ValueJob, { branches, segmentation, logprobs, entropies }: Answers) {
  const utilities = utilitiesOf(job);
  const scored = traceValues(branches, utilities, pr);
  const { own } = job.tokens;
  const before = own && ownBefore(own);
  const features = stateFeatures(
    {
      values: scored.values,
      geoValues: geoValuesOf(scored.referenceLogprobs, scored.referenceTokens, utilities),
      ends: segmentation.thoughtEnds.map((end) => before?.[end] ?? end),
      ...{ logprobs: compact(logprobs, own), entropies: compact(entropies, own) },
    },
    'probe',
  );
  return { scored, features, peers: peersFeature(job.peersMean, job.peersCount) };
}

/** A trace as the fit takes it, without its hidden states; undefined where its reward is not known. */
function fitTrace(job: ValueJob, answers: Answers): Omit<ProbeTrace, 'states'> | undefined {
  const { reward } = job.reward;
  const { features, peers } = known(job, answers);
  return reward === null
    ? undefined
    : { features, peers, reward, place: groupPlace(job.trace.group ?? job.trace.id) };
}

/** V(s_0..K); v̂ where there is no probe, or it uses nothing. */
function probeValues(
  job: ValueJob,
  answers: Answers,
  own: Probe | undefined,
  { keepStates, isAuto }: Readonly<Record<'keepStates' | 'isAuto', boolean>>,
): TraceValues {
  const { scored, features, peers } = known(job, answers);
  const states = answers.states ?? NONE;
  const columns = { [STATES_COLUMN.name]: answers.states && numbersOf(states) };
  const found = { ...scored, ...(keepStates && { columns }) };
  if (own === undefined || own.file.uses === 'now') return { ...found, status: isAuto ? [] : [UNCALIBRATED] };
  const read = { features, peers, states: own.file.hidden > 0 ? states : NONE };
  const values = own.values(job.trace.group ?? job.trace.id, read);
  return { ...found, values, status: own.file.uses === 'states' ? [] : [NO_STATES] };
}

function numbersOf(states: Uint16Array): Float32Array {
  const numbers = new Float32Array(states.length);
  fromFloat16(states, numbers);
  return numbers;
}

const WHY = {
  'too-few-groups': 'too few groups to leave some of them out',
  'one-reward': 'all traces have the same reward',
  'no-gain': "on groups that it has not seen, it is no better than the mean reward of a trace's peers",
  'no-states': 'nobody gave hidden states',
  'no-gain-of-states': 'hidden states say nothing more on groups that it has not seen',
} as const;

/** Tells what a fit has found. */
export function tellProbe(
  file: ProbeFile,
  log: Log,
  { output, isAuto }: { readonly output?: string; readonly isAuto?: boolean },
): void {
  const { uses, why, with_states, without_states, traces, groups } = file;
  const fixed = (x: number | null | undefined) => x?.toFixed(3) ?? '–';
  const used = uses === 'states' ? with_states : without_states;
  if (used !== null) {
    const { constant, group_mean } = used.log_loss;
    log.info(
      `probe: ${plural(traces, 'trace')} of ${plural(groups, 'group')}; nats a trace on groups left out: with hidden states ${fixed(with_states?.log_loss.calibrated)}, without ${fixed(without_states?.log_loss.calibrated)}, peers' mean ${fixed(group_mean)}, mean ${fixed(constant)}; right above wrong in ${fixed(used.auc.start)} at the start, ${fixed(used.auc.middle)} halfway, ${fixed(used.auc.end)} at the end`,
    );
  }
  const taken = { states: 'probe', features: 'probe, without hidden states', now: 'pr' }[uses];
  if (isAuto) log.info(`--estimator auto takes ${taken}${why === null ? '' : `: ${WHY[why]}`}`);
  else if (why !== null)
    log.warn(
      'probe_stands_back',
      `${WHY[why]}: ${uses === 'now' ? `the values of pr stay as they are (status ${UNCALIBRATED})` : `values are made without (status ${NO_STATES})`}`,
    );
  if (output !== undefined) log.info(`written to ${output}`);
}
