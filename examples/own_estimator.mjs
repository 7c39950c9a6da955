// An estimator of one's own: rredcot score traces.jsonl --estimator ./own_estimator.mjs (docs/your-own-credit.md)
// A state is worth what the least likely token so far was likely: a thought that has once surprised its policy stays in doubt.

export default {
  name: 'doubt',
  // nothing is scored behind the exits: the policy reads each trace once
  scores: 'nothing',
  // what a value is, for the dataset card of a run
  card: 'the probability of the least likely token so far, at least `least`',
  flags: [['--least <p>', 'of doubt: values are no lower than this (default: 0.01)']],

  /**
   * @param seen of a trace: logprobs and entropies (T, nats), exits (K+1, in tokens), ends (K), trace,
   *   and branches and utilities of its references where they are scored
   * @param flags their raw values
   * @returns K+1 values, one for each exit
   */
  of({ logprobs, exits }, { least = '0.01' }) {
    return Array.from(exits, (exit) => {
      const lowest = logprobs.slice(0, exit).reduce((low, lp) => Math.min(low, lp), 0);
      return Math.max(Number(least), Math.exp(lowest));
    });
  },
};
