// What of a run's configuration says why its σ is as it is, for the warnings at its end.
import { storedNature } from '../../estimators/registry.js';
import type { MadeBy } from '../../report/run-figures.js';

export function madeBy(config: Readonly<Record<string, unknown>>): MadeBy {
  const { command, rule, baseline, thoughtTags } = config;
  const isExpected = storedNature(config)?.onRewardScale === true;
  return {
    ...{ rule, baseline: baseline === 'auto' && isExpected ? 'value' : baseline },
    thoughtTags: thoughtTags as MadeBy['thoughtTags'],
    isSampled: command === 'sample',
  };
}
