// `mc`: the mean reward of completions that the policy writes from a state; `mc-truncated`: the same with few tokens a completion.

import {
  type MonteCarloOptions,
  monteCarloColumns,
  monteCarloConfig,
  sampledAgain,
  sampledFaults,
  UNFINISHED,
} from '../estimate/models/monte-carlo.js';
import { type Flag, oneOf, positiveInteger } from '../flag-values.js';
import { stopsOf } from '../policy/text/stops.js';
import { TokenMeter } from '../report/progress.js';
import type { Asked, Estimator, FlagValues } from './estimator.js';
import { askedEnvironment, resolveSampling, samplingFlags } from './sampling-flags.js';

const OF = 'of mc and mc-truncated: ';

/** Tokens a completion at most. */
const MOST = { mc: 4096, truncated: 256 } as const;

const FLAGS: readonly Flag[] = [
  ['--mc-samples <n>', `${OF}completions an exit point (default: 20)`],
  [
    '--mc-max-tokens <n>',
    `${OF}new tokens a completion at most (default: ${MOST.mc}; ${MOST.truncated} for mc-truncated)`,
  ],
  ['--mc-unfinished <how>', `${OF}what a completion without a verdict counts: zero|drop (default: zero)`],
  ['--keep-samples', `${OF}write the completions too`],
  ...samplingFlags(OF),
];

const OF_SAMPLES = {
  scores: 'nothing',
  onRewardScale: true,
  flags: FLAGS,
  configKeys: [
    ...['mcSamples', 'mcMaxTokens', 'mcUnfinished', 'temperature', 'topP', 'seed', 'judge', 'keepSamples'],
    ...['stop', 'environment'],
  ],
  columns: ({ keepSamples }) => monteCarloColumns(keepSamples === true),
  remade: (row, { mcUnfinished }) =>
    sampledAgain(row, mcUnfinished).map((made) => ({ from: 'its samples', ...made })),
  faults: (row, _, columns) => sampledFaults(row, 'status' in columns),
} as const satisfies Partial<Estimator>;

export const mc: Estimator = {
  ...OF_SAMPLES,
  name: 'mc',
  card: 'the mean reward of going on from there, over completions that the policy wrote (`mcSamples` of them, `mcMaxTokens` long at most)',
  ask: (values) => sampled(values, MOST.mc),
};

export const mcTruncated: Estimator = {
  ...OF_SAMPLES,
  name: 'mc-truncated',
  card: 'the mean reward of going on from there for a few tokens (`mcMaxTokens`), over `mcSamples` completions that the policy wrote; `mcUnfinished` says what one that was cut counts',
  ask: (values) => sampled(values, MOST.truncated),
};

async function sampled(values: FlagValues, most: number): Promise<Asked> {
  const { mcSamples = '20', mcMaxTokens = most, mcUnfinished = 'zero', keepSamples = false } = values;
  const asked = await askedEnvironment(values);
  const opts: MonteCarloOptions = {
    samples: positiveInteger('--mc-samples', String(mcSamples), 20),
    unfinished: oneOf('--mc-unfinished', String(mcUnfinished), UNFINISHED),
    keep: keepSamples === true,
    ...resolveSampling(values, '--mc-max-tokens', String(mcMaxTokens)),
  };
  return {
    config: { ...monteCarloConfig(opts), ...asked?.config },
    readsReferences: asked === undefined,
    async open({ policy, tokenizer, prompts, marks, signal, log }) {
      const { openWriting } = await import('../policy/run/continue.js');
      const { SamplingTally, sampledValues } = await import('../estimate/models/sampled.js');
      const stops = await stopsOf(policy, opts.sampling.stop, tokenizer, log);
      const meter = new TokenMeter();
      const { maxTokens } = policy.architecture;
      const environment = await asked?.open(signal);
      const players = environment && { environment, prompts, tokenizer };
      return {
        openSession: openWriting,
        meter,
        [Symbol.asyncDispose]: async () => environment?.[Symbol.asyncDispose](),
        start({ session, window }) {
          const writer = { session, tokenizer, marks, stops, maxTokens, players };
          const how = { ...opts, signal, onTokens: (tokens: number) => meter.add(tokens) };
          return {
            values: (scored) => sampledValues(scored, writer, how, window),
            tally: () => new SamplingTally(session, maxTokens, opts),
          };
        },
      };
    },
  };
}
