// What the attributions have in common for which the policy reads a trace again: `loo`, `attention`, `gradient`.
import type { AttributionOptions } from '../estimate/models/attributed.js';
import { count, plural } from '../plural.js';
import { duration } from '../report/progress.js';
import type { Asked, Config } from './estimator.js';

/** Facts of an attribution by what the answer's log-probability does. */
export const OF_ANSWERS = {
  scores: 'answers',
  isAttribution: true,
  noLevel: 'sums of attributions',
  valueName: 'Σa',
} as const;

/** @param config what the flags come to */
export function readAgain(opts: AttributionOptions, config: Config = {}): Asked {
  return {
    config,
    open: () => ({
      async start({ session }) {
        const { attributedValues, openAttribution } = await import('../estimate/models/attributed.js');
        const { AttributionTally } = await import('../estimate/models/attributing-forecast.js');
        await openAttribution(session, opts);
        return {
          values: (scored) => attributedValues(scored, session, opts),
          tally() {
            const tally = new AttributionTally(opts);
            return {
              add: (job) => tally.add(job),
              async measure() {
                const { sequences, tokens, seconds, measured } = await tally.measure(session);
                const all = `${plural(sequences, 'sequence')}, ${plural(tokens, 'token')} to be read besides`;
                const time =
                  measured === 0
                    ? ''
                    : `: about ${duration(seconds)} more, by ${count(measured)} that were read`;
                return ['again', `${all}${time}`];
              },
            };
          },
        };
      },
    }),
  };
}
