// `siblings`: the probability of winning by going on, from the outcomes of the trace's mates, weighed by how well their tails fit its states.
import { usageError } from '../errors.js';
import { storedModel } from '../estimate/calibrated/calibration.js';
import { calibratedValues } from '../estimate/calibrated.js';
import { farMates } from '../estimate/siblings/apart.js';
import {
  SIBLING_COLUMNS,
  SIBLING_KEYS,
  siblingConfig,
  siblingValues,
} from '../estimate/siblings/sibling-values.js';
import { type WithMates, withMates } from '../estimate/siblings/with-mates.js';
import { traceValues } from '../estimate/value.js';
import { positiveInteger } from '../flag-values.js';
import { STDIN } from '../io/files/byte-source.js';
import { declarationOf, SEGMENTERS } from '../segment/segmenters.js';
import { CALIBRATION, calibrationFacts, givenCalibration } from './calibration-flag.js';
import type { Call, Estimator } from './estimator.js';
import { perTrace, utilitiesOf } from './one-pass.js';
import { pr } from './pr.js';

/** Measured: docs/fidelity.md. */
const DEFAULTS = { mates: 3, mateTokens: 40 };

export const siblings: Estimator = {
  name: 'siblings',
  scores: 'answers',
  onRewardScale: true,
  hasOutcome: true,
  card: "the probability of winning by going on, from the outcomes of the trace and of its group's most similar completions, weighted by how likely their next tokens are there",
  creditFlags: [CALIBRATION],
  flags: [
    ['--mates <n>', `of siblings: mates a trace, the most similar of its group (default: ${DEFAULTS.mates})`],
    [
      '--mate-tokens <n>',
      `of siblings: tokens of a mate's tail that are scored (default: ${DEFAULTS.mateTokens})`,
    ],
  ],
  configKeys: [...SIBLING_KEYS, 'calibration'],
  columns: () => SIBLING_COLUMNS,
  stored({ calibration }) {
    const model = storedModel(calibration);
    return model && (model.stands_back === null ? siblings : UNFITTED);
  },
  async ask(values, call) {
    const calibration = await givenCalibration(siblings.name, values);
    const { model, ...facts } = calibrationFacts(calibration);
    refuseWithout(call);
    const count = (name: keyof typeof DEFAULTS, flag: string): number =>
      positiveInteger(flag, String(values[name] ?? DEFAULTS[name]), DEFAULTS[name]);
    const opts = { mates: count('mates', '--mates'), mateTokens: count('mateTokens', '--mate-tokens') };
    return {
      ...facts,
      ...(calibration.standsBack && { nature: UNFITTED }),
      config: siblingConfig(opts),
      readsMates: true,
      open: ({ policy, log, signal }) => ({
        config: model,
        async start({ window, whole }) {
          const far = whole && (await farMates(whole, window, log, signal));
          return {
            together: (windows) => withMates(windows, far?.mates, opts, policy.architecture.maxTokens),
            values: perTrace((job, result, needed) => {
              const utilities = utilitiesOf(job);
              const found = traceValues(result.branches, utilities, pr);
              const prior = calibration.standsBack
                ? found
                : calibratedValues(found, job.trace, result, utilities, calibration);
              return siblingValues(prior, result, job as typeof job & Partial<WithMates>, needed, opts);
            }),
            [Symbol.asyncDispose]: async () => far?.[Symbol.asyncDispose](),
          };
        },
      }),
    };
  },
};

/** Its facts where the calibration stands back: nothing has put values on the reward's scale. */
const { onRewardScale: _, ...UNFITTED } = siblings;

/** @throws RredcotError (exit 2) for what mates cannot be had with */
function refuseWithout({ segments: { segmenter }, inputs }: Call): void {
  const isLate = (name: typeof segmenter) => declarationOf(name).cuts !== undefined;
  if (isLate(segmenter))
    throw usageError(
      `--estimator siblings aligns pieces of text, and --segmenter ${segmenter} has none before the policy has read the trace`,
      `--segmenter ${SEGMENTERS.filter((name) => !isLate(name)).join('|')}`,
    );
  if (inputs.length === 0 || inputs.includes(STDIN))
    throw usageError(
      "--estimator siblings looks for a trace's mates in the whole input, which stdin gives once",
      'name a file',
    );
}
