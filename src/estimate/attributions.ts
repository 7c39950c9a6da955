// Estimators for which the policy reads a trace again: what a segment counts for in the answer, by what is lost without it (`loo`), attention or gradient.

import { oneOf } from '../flag-values.js';
import type { Config } from '../io/write/output.js';
import type { AttributionOptions, Loo } from './attributed.js';
import type { AskedValues, Estimator } from './estimator.js';

/** Facts of an attribution by what the answer's log-probability does. */
const OF_ANSWERS = {
  scores: 'answers',
  isAttribution: true,
  noLevel: 'sums of attributions',
  valueName: 'Σa',
} as const;

/** @param config what the flags come to */
function readAgain(opts: AttributionOptions, config: Config = {}): AskedValues {
  return {
    config,
    open: () => ({
      async start({ session }) {
        const { attributedValues } = await import('./attributed.js');
        if (opts.estimator !== 'loo') await session.openAttribution(opts.estimator);
        return { values: (scored) => attributedValues(scored, session, opts) };
      },
    }),
  };
}

/** What {@link Loo} may be, in a file that loads no ONNX Runtime; the first is the default. */
const LOO = ['deleted', 'masked'] as const satisfies readonly Loo[];

export const loo: Estimator = {
  ...OF_ANSWERS,
  name: 'loo',
  card: 'no value: what the segments so far count for, each by how much less likely the reference answer is without it, as a logarithm',
  flags: [
    [
      '--loo <how>',
      `of loo: a segment is ${LOO.join('|')} (what follows moves up, or stays and does not see it; default: ${LOO[0]})`,
    ],
  ],
  configKeys: ['loo'],
  ask({ loo: how = LOO[0] }) {
    const own = oneOf('--loo', String(how), LOO);
    return readAgain({ estimator: 'loo', loo: own }, { loo: own });
  },
};

export const gradient: Estimator = {
  ...OF_ANSWERS,
  name: 'gradient',
  isMagnitude: true,
  isUnitless: true,
  card: "no value: what the segments so far count for, each by the norm of the gradient of the reference answer's log-probability in its input embeddings",
  ask: () => readAgain({ estimator: 'gradient' }),
};

export const attention: Estimator = {
  ...OF_ANSWERS,
  name: 'attention',
  isMagnitude: true,
  isUnitless: true,
  card: 'no value: what the segments so far count for, each by the share of attention that it gets from the tokens of the reference answer',
  ask: () => readAgain({ estimator: 'attention' }),
};
