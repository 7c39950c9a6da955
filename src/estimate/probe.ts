// `probe`: the probability of winning by going on, read off the policy's own hidden state, fitted to the outcomes of all traces (METHOD §3); `auto`, which takes it where there is something to fit.
import { setImmediate } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Nature } from '../credit/nature.js';
import { throwIfInterrupted, usageError } from '../errors.js';
import { WHOLE } from '../io/files/run-folder.js';
import type { Config } from '../io/write/output.js';
import { fromFloat16 } from '../model/onnx/float16.js';
import { stateNumbers } from '../model/onnx/folder.js';
import { plural } from '../plural.js';
import type { Answers } from '../question.js';
import type { Log } from '../report/log.js';
import {
  CALIBRATION,
  calibratedValues,
  calibrationWarning,
  knownOf,
  scoredWith,
  UNCALIBRATED,
} from './calibrated.js';
import { Calibration, calibrationFile, readCalibration, storedModel } from './calibration.js';
import type { Estimator, LoadContext, OpenEstimator, ValueJob } from './estimator.js';
import { type Between, fitStates, type KnownTrace, WHY } from './fit/fit.js';
import { groupPlace } from './fit/groups.js';
import { pr } from './one-pass.js';
import { isStream, refuseStream } from './peers.js';
import { listColumn, stateValues, type TraceValues, utilitiesOf } from './value.js';

/** Status of values without hidden states: nobody gave any, or they help nothing. */
export const NO_STATES = 'value:no-states';

/** The column of `--keep-states`. */
export const STATES_COLUMN = listColumn(
  'exit_states',
  'hidden states of the policy at the exit points, one after the other',
);

/** How a probe follows the pass over a part of the traces. */
const LATER =
  '--keep-states, rredcot calibrate --probe out/ -o probe.json, rredcot redistribute out/ --estimator probe --calibration probe.json';

export const probe: Estimator = {
  name: 'probe',
  scores: 'answers',
  onRewardScale: true,
  card: "the probability of winning by going on, from the policy's hidden state there, the surprise of the thought so far and the rewards of the trace's peers, fitted to rewards",
  creditFlags: [CALIBRATION],
  flags: [
    ['--keep-states', 'of auto and probe: writes the hidden states that they read, for calibrate --probe'],
  ],
  configKeys: ['stateLayers'],
  stored({ calibration }) {
    const model = storedModel(calibration);
    return model && natureOf(model);
  },
  async setUp({ calibration: path, keepStates: isKept }, { inputs, shard = WHOLE, isBatch }, { name }) {
    const isAuto = name === auto.name;
    const given = path === undefined ? undefined : await readCalibration(String(path), true);
    // one batch may be fitted to where that was asked for; what auto takes is the same for all
    const isOne = isStream(inputs) || (isAuto && isBatch === true);
    const part = given === undefined && (shard.count > 1 ? 'a shard' : isOne && 'a stream');
    if (part && !isAuto) refuseStream(probe.name, inputs);
    if (part && !isAuto)
      throw usageError(
        '--estimator probe is fitted to all traces, and a shard has some of them',
        `leave it out, and ${LATER}`,
      );
    const keepStates = isKept === true;
    return {
      nature: part ? pr : natureOf(given?.file),
      ...(!part && { readsMean: true }),
      // the probe that follows needs none
      ...(part && keepStates && { readsReferences: false }),
      config: {
        ...(keepStates && { keepStates }),
        ...(part && { estimator: pr.name }),
        ...(given && told(given, isAuto)),
      },
      ...(given && !(isAuto && given.standsBack) && { warning: calibrationWarning.bind(null, given) }),
      open(context) {
        if (part)
          context.log.info(`--estimator auto takes pr: ${part} is not all traces; for a probe, ${LATER}`);
        else if (isAuto && given) tellTaken(given.file, context.log);
        return openProbe(context, given, { isAuto, keepStates, isPart: part !== false });
      },
    };
  },
};

/** Takes `probe` or `pr`, by what the traces have, and says which. */
export const auto: Estimator = {
  ...probe,
  name: 'auto',
  card: 'probe, or pr where there was nothing to fit',
};

/** What values are, by what they are made of: those that a fit leaves as they are are those of `pr`. */
export function natureOf(model: Pick<Calibration['file'], 'uses'> | undefined): Nature {
  return model?.uses === 'now' ? pr : { ...probe, needsNoReference: true };
}

/** What a run's configuration says of the fit, and what `auto` has taken by it. */
function told({ model, standsBack }: Calibration, isAuto: boolean): Config {
  const taken = standsBack ? pr : probe;
  return {
    calibration: model,
    ...(isAuto && { estimator: taken.name }),
  };
}

type ProbeOptions = Readonly<Record<'isAuto' | 'keepStates' | 'isPart', boolean>>;

/** @param given undefined: one is fitted to the traces */
async function openProbe(
  { policy, engine, log, signal }: LoadContext,
  given: Calibration | undefined,
  opts: ProbeOptions,
): Promise<OpenEstimator> {
  const answers = engine === undefined && 'canary' in policy ? policy : undefined;
  const isRead = opts.keepStates || !opts.isPart;
  const hidden = answers && isRead ? stateNumbers(answers) : 0;
  const layers = answers?.stateLayers ?? [];
  const who = engine?.name ?? policy.path;
  const mend = engine ? 'a policy folder gives them' : 'rredcot policy build makes a folder that gives them';
  const reads = given?.file.uses === 'states';
  if (reads && hidden === 0)
    throw usageError(`--calibration reads hidden states, and ${who} gives none`, mend);
  if (given) refuseStates(given, policy.files);
  const bare = hidden === 0 && isRead && given === undefined && `${who} gives no hidden states: ${mend}`;
  // whoever named no estimator has asked for none
  if (bare && opts.isAuto) log.info(bare);
  else if (bare) log.warn('no_states', bare);
  let own = given;
  const fit: NonNullable<OpenEstimator['whole']>['fit'] = async (parts, config) => {
    async function* traces() {
      for await (const [part, { states }] of parts())
        yield { ...(part as KnownTrace), ...(states && { states }) };
    }
    const kind = 'probe' as const;
    const about = { kind, policy: policy.files, scored_with: scoredWith(config), skipped: {}, layers };
    const fitted = await fitStates(traces, kind, hidden, betweenPasses(log, signal));
    own = new Calibration(calibrationFile(fitted, about));
    tellProbe(own.file, log, opts.isAuto);
    return { nature: natureOf(own.file), config: told(own, opts.isAuto) };
  };
  return {
    config: { ...(hidden > 0 && { stateLayers: layers }) },
    ask: ({ continuations }) => ({ atExits: continuations, ...(hidden > 0 && { states: true }) }),
    values: (trace, answers) => probeValues(trace, answers, own, opts),
    ...(given === undefined && !opts.isPart && { whole: { partOf, fit } }),
  };
}

/** Tells of each pass of a fit, and ends it where the program is to end: from memory, passes leave no other chance to. */
export function betweenPasses(log: Log, signal: AbortSignal): Between {
  let passes = 0;
  return async () => {
    log.progress(`fitting: pass ${++passes} over the traces`, { passes });
    await setImmediate();
    throwIfInterrupted(signal);
  };
}

/** @throws RredcotError (exit 2) for a fit to hidden states of another policy than the one whose files these are */
export function refuseStates({ file: { uses, policy } }: Calibration, files: unknown): void {
  if (uses === 'states' && !isDeepStrictEqual(policy, files))
    throw usageError(
      '--calibration reads hidden states of another policy, which say nothing of those of this one',
      'leave it out, or rredcot calibrate --probe traces of this policy',
    );
}

/** A trace as the fit takes it, without its hidden states; undefined where its reward is not known. */
function partOf(job: ValueJob, answers: Answers): Omit<KnownTrace, 'states'> | undefined {
  const { reward } = job.reward;
  const { states: _, ...said } = answers;
  const values = stateValues(answers.branches, utilitiesOf(job), pr);
  const known = knownOf(job, { ...said, values }, 'probe');
  return reward === null ? undefined : { ...known, reward, place: groupPlace(job.trace) };
}

/** V(s_0..K); v̂ where there is no fit, or it stands back. */
function probeValues(
  job: ValueJob,
  answers: Answers,
  own: Calibration | undefined,
  { isAuto, keepStates }: ProbeOptions,
): TraceValues {
  const numbers = new Float32Array(answers.states?.length ?? 0);
  fromFloat16(answers.states ?? new Uint16Array(0), numbers);
  const { isMade: _, ...found } = calibratedValues(job, answers, own);
  const columns = keepStates ? { [STATES_COLUMN.name]: numbers } : {};
  const code = { now: isAuto ? [] : [UNCALIBRATED], features: isAuto ? [] : [NO_STATES], states: [] };
  return { ...found, columns, status: code[own?.file.uses ?? 'now'] };
}

/** Tells what a fit has found. */
export function tellProbe(file: Calibration['file'], log: Log, isAuto = false): void {
  const { uses, why, with_states, without_states, log_loss: loss, auc, traces, groups } = file;
  // the rejects say more
  if (traces === 0) return;
  const fixed = (x: number | null | undefined) => x?.toFixed(3) ?? '–';
  if (loss !== null) {
    const losses = `with hidden states ${fixed(with_states)}, without ${fixed(without_states)}, peers' mean ${fixed(loss.group_mean)}, mean ${fixed(loss.constant)}`;
    const ranks = `right above wrong in ${fixed(auc?.start)} at the start, ${fixed(auc?.middle)} halfway, ${fixed(auc?.end)} at the end`;
    log.info(
      `probe: ${plural(traces, 'trace')} of ${plural(groups, 'group')}; nats a trace on groups left out: ${losses}; ${ranks}`,
    );
  }
  if (isAuto) tellTaken(file, log);
  else if (why !== null)
    log.warn(
      'probe_stands_back',
      `${WHY[why]}: ${uses === 'now' ? `the values of pr stay as they are (status ${UNCALIBRATED})` : `values are made without (status ${NO_STATES})`}`,
    );
}

function tellTaken({ uses, why }: Calibration['file'], log: Log): void {
  const taken = { states: 'probe', features: 'probe, without hidden states', now: 'pr' }[uses];
  log.info(`--estimator auto takes ${taken}${why === null ? '' : `: ${WHY[why]}`}`);
}
