// The flags by which a policy samples: those of `rredcot sample`, and of the estimators that sample completions.
import { JUDGES } from '../estimate/reward.js';
import { type Flag, finite, oneOf, positiveInteger } from '../flag-values.js';
import { DEFAULT_BATCH, type SamplingOptions } from '../policy/run/sampling.js';
import type { FlagValues } from './estimator.js';

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
  const temperature = finite(
    '--temperature',
    text('temperature', '1'),
    'a number of at least 0',
    '1',
    (x) => x >= 0,
  );
  const isShare = (x: number) => x > 0 && x <= 1;
  const topP = finite('--top-p', text('topP', '1'), 'a number above 0, up to 1', '0.95', isShare);
  const sampling: SamplingOptions = {
    temperature,
    topP,
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
  const { Environment, readEnvironment } = await import('../estimate/models/environment.js');
  const file = await readEnvironment(String(path));
  return {
    config: { environment: { sha256: file.sha256 } },
    open: (signal: AbortSignal) => Environment.open(file, { signal }),
  };
}

export type AskedEnvironment = Awaited<ReturnType<typeof askedEnvironment>>;
