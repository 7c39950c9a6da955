// A custom estimator: rredcot score traces.jsonl --estimator ./own_estimator.mjs (docs/your-own-credit.md)
// The value of a state is the probability of the least likely token so far: once a thought has surprised its policy, it stays in warning.

export default {
  name: 'warning',
  // no answers are scored at the exits: the policy reads each trace once
  scores: 'nothing',
  // what a value is, for the dataset card
  card: 'the probability of the least likely token so far, at least `least`',
  flags: [['--least <p>', 'of warning: values are no lower than this (default: 0.01)']],

  /**
   * @param seen one trace: logprobs and entropies (T, nats), exits (K+1, in tokens), ends (K), trace,
   *   and, if references are scored, their branches and utilities
   * @param flags raw values
   * @returns K+1 values, one per exit
   */
  of({ logprobs, exits }, { least = '0.01' }) {
    return Array.from(exits, (exit) => {
      const lowest = logprobs.slice(0, exit).reduce((low, lp) => Math.min(low, lp), 0);
      return Math.max(Number(least), Math.exp(lowest));
    });
  },
};
