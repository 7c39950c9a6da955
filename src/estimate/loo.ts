// `loo`: what a segment counts for in the answer, by what its log-probability loses without it; the policy reads the trace again without each segment.
import { oneOf } from '../flag-values.js';
import type { Estimator } from './estimator.js';
import type { Loo } from './leave-one-out.js';

/** What {@link Loo} may be, in a file that loads no ONNX Runtime; the first is the default. */
const LOO = ['deleted', 'masked'] as const satisfies readonly Loo[];

export const loo: Estimator = {
  name: 'loo',
  scores: 'answers',
  isAttribution: true,
  noLevel: 'sums of attributions',
  valueName: 'Σa',
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
    return {
      config: { loo: own },
      open: () => ({
        async start({ session }) {
          const { deletionValues } = await import('./leave-one-out.js');
          return { values: (scored) => deletionValues(scored, session, own) };
        },
      }),
    };
  },
};
