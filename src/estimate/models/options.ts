// How states are sampled from, and what a configuration has of that.
import type { SamplingOptions } from '../../policy/run/sampling-options.js';
import type { Judge } from './judge.js';
import type { Unfinished } from './monte-carlo.js';

/** How states are sampled from. */
export interface MonteCarloOptions {
  /** completions an exit */
  readonly samples: number;
  readonly sampling: SamplingOptions;
  readonly judge: Judge;
  readonly unfinished: Unfinished;
  /** write the samples themselves */
  readonly keep: boolean;
}

/** The options as a configuration has them: keys by which flags are found, nothing that leaves the bytes as they are. */
export function monteCarloConfig({ samples, sampling, judge, unfinished, keep }: MonteCarloOptions) {
  const { temperature, topP, maxTokens, seed, stop } = sampling;
  return {
    ...{ mcSamples: samples, mcMaxTokens: maxTokens, mcUnfinished: unfinished },
    ...{ temperature, topP, seed, judge, keepSamples: keep },
    ...(stop === undefined ? {} : { stop }),
  };
}
