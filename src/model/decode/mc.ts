// `mc`: the mean reward of completions that the policy writes from a state. The flags by which a policy samples, which `rredcot sample` has too.

import type { Estimator, EstimatorSetup, FlagValues } from '../../estimate/estimator.js';
import { type Flag, finite, oneOf, positiveInteger } from '../../flag-values.js';
import {
  FLOAT32,
  FLOAT32_LIST,
  INT32,
  INT32_LIST,
  type OutputColumn,
  requestedColumn,
  STRING,
} from '../../io/arrow/output-columns.js';
import { TokenMeter } from '../../report/progress.js';
import type { MonteCarloOptions, Sample } from './sampled.js';
import { DEFAULT_BATCH, JUDGES, type SamplingOptions, stopsOf } from './sampling.js';

const UNFINISHED = ['zero', 'drop'] as const satisfies readonly MonteCarloOptions['unfinished'][];

const OF = 'of mc: ';

const FLAGS: readonly Flag[] = [
  ['--mc-samples <n>', `${OF}completions an exit point (default: 20)`],
  ['--mc-max-tokens <n>', `${OF}new tokens a completion at most (default: 4096)`],
  ['--mc-unfinished <how>', `${OF}what a completion without a verdict counts: zero|drop (default: zero)`],
  ['--keep-samples', `${OF}write the completions too`],
  ...samplingFlags(OF),
];

export const mc: Estimator = {
  name: 'mc',
  card: 'the mean reward of going on from there, over completions that the policy wrote (`mcSamples` of them, `mcMaxTokens` long at most; `mcUnfinished` says what one that was cut counts)',
  scores: 'nothing',
  onRewardScale: true,
  flags: FLAGS,
  configKeys: [
    ...['mcSamples', 'mcMaxTokens', 'mcUnfinished', 'temperature', 'topP', 'seed', 'judge', 'keepSamples'],
    ...['stop', 'environment'],
  ],
  columns: ({ keepSamples }) => (keepSamples === true ? [...OF_EXITS, SAMPLES] : OF_EXITS),
  setUp: sampled,
};

async function sampled(values: FlagValues): Promise<EstimatorSetup> {
  const { mcSamples = '20', mcMaxTokens = '4096', mcUnfinished = 'zero', keepSamples = false } = values;
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
      const { openWriting } = await import('./continue.js');
      const { sampledAnswers, sampledValues } = await import('./sampled.js');
      const stops = await stopsOf(policy, opts.sampling.stop, tokenizer, log);
      const meter = new TokenMeter();
      const { maxTokens } = policy.architecture;
      const environment = await asked?.open(signal);
      const players = environment && { environment, prompts, tokenizer };
      const how = { ...opts, signal, onTokens: (tokens: number) => meter.add(tokens) };
      return {
        sampling: {
          meter,
          async open(folder, device) {
            const session = await openWriting(folder, device);
            const from = { session, stops, maxTokens, players };
            return { session, sampled: (answered, window) => sampledAnswers(answered, from, how, window) };
          },
        },
        ask: () => ({ atExits: [] }),
        values: (trace, answers) => sampledValues(trace, answers, { tokenizer, marks }, opts),
        [Symbol.asyncDispose]: async () => environment?.[Symbol.asyncDispose](),
      };
    },
  };
}

/** @param of what they are about, for the help of a command with other flags */
export function samplingFlags(of = ''): readonly Flag[] {
  return [
    ['--temperature <t>', `${of}1 samples from the policy itself, 0 takes the likeliest token (default: 1)`],
    ['--top-p <p>', `${of}only the likeliest tokens that hold so much probability together (default: 1)`],
    ['--seed <n>', `${of}the same seed writes the same, whatever --batch, shards or workers (default: 0)`],
    ['--batch <n>', `${of}completions that are written at once (default: ${DEFAULT_BATCH})`],
    [
      '--stop <text|id>',
      `${of}a token that ends a completion, beside those that the policy names (default: none)`,
    ],
    [
      '--environment <file>',
      `${of}module that answers each turn of the policy's, or ends the episode: code that runs, at most 30 s an answer (docs/sampling.md)`,
    ],
    [
      '--judge <how>',
      `${of}reward: compare (docs/answers.md)|exact (the answer's very text) (default: compare)`,
    ],
  ];
}

/**
 * Checks the values.
 * @param maxTokensFlag of the flag with the limit, @param maxTokens its raw value
 * @throws RredcotError (exit 2)
 */
export function resolveSampling(values: FlagValues, maxTokensFlag: string, maxTokens: string) {
  const text = (name: string, fallback: string): string => String(values[name] ?? fallback);
  const [isLeast, isShare] = [(x: number) => x >= 0, (x: number) => x > 0 && x <= 1];
  const sampling: SamplingOptions = {
    temperature: finite('--temperature', text('temperature', '1'), 'a number of at least 0', '1', isLeast),
    topP: finite('--top-p', text('topP', '1'), 'a number above 0, up to 1', '0.95', isShare),
    maxTokens: positiveInteger(maxTokensFlag, maxTokens, 2048),
    seed: positiveInteger('--seed', text('seed', '0'), 1, 0),
    batch: positiveInteger('--batch', text('batch', String(DEFAULT_BATCH)), DEFAULT_BATCH),
    ...(values.stop === undefined ? {} : { stop: String(values.stop) }),
  };
  return { sampling, judge: oneOf('--judge', text('judge', 'compare'), JUDGES) };
}

/**
 * The module that `--environment` names, read; undefined without the flag.
 * @throws RredcotError for a file that cannot be read
 */
export async function askedEnvironment({ environment: path }: FlagValues) {
  if (path === undefined) return undefined;
  const { Environment, readEnvironment } = await import('./environment.js');
  const file = await readEnvironment(String(path));
  return {
    config: { environment: { sha256: file.sha256 } },
    open: (signal: AbortSignal) => Environment.open(file, { signal }),
  };
}

export type AskedEnvironment = Awaited<ReturnType<typeof askedEnvironment>>;

// ------ what the file keeps of them

/** The options as a configuration has them: keys by which flags are found, nothing that leaves the bytes as they are. */
function monteCarloConfig({ samples, sampling, judge, unfinished, keep }: MonteCarloOptions) {
  const { maxTokens, batch: _, ...drawn } = sampling;
  const own = { mcSamples: samples, mcMaxTokens: maxTokens, mcUnfinished: unfinished };
  return { ...own, ...drawn, judge, keepSamples: keep };
}

const SAMPLE_FIELDS: readonly { name: string; key?: keyof Sample; type: OutputColumn['type'] }[] = [
  { name: 'exit', type: INT32 },
  { name: 'completion', type: STRING },
  { name: 'completion_ids', key: 'ids', type: INT32_LIST },
  { name: 'finish_reason', key: 'finish', type: STRING },
  { name: 'utility', type: FLOAT32 },
];
const SAMPLES = requestedColumn(
  'samples',
  { kind: 'list', element: { kind: 'struct', fields: SAMPLE_FIELDS } },
  'the samples: number of the exit point, text, token ids, how it ended, what it earned',
);
const OF_EXITS: readonly OutputColumn[] = [
  requestedColumn(
    'value_sd',
    FLOAT32_LIST,
    'standard deviation of the value at each exit point, by the bootstrap over its samples',
  ),
  requestedColumn(
    'lost_fraction',
    FLOAT32_LIST,
    'share of the samples at each exit point that were cut, or could not be judged',
  ),
];
