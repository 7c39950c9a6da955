// The flags and help of `rredcot sample`, and those of sampling that `score` shares with it.
import type { Command } from 'commander';
import { finite, oneOf, positiveInteger } from '../commands/job/flag-values.js';
import { type Interruption, parseTimeLimit } from '../commands/job/interrupt.js';
import { type ExitCode, usageError } from '../errors.js';
import { type Estimator, natureOf } from '../estimate/estimators.js';
import { JUDGES } from '../estimate/sampling/judge.js';
import { UNFINISHED } from '../estimate/sampling/monte-carlo.js';
import { EMBEDDED_POLICY } from '../policy/embedded.js';
import { DEFAULT_BATCH, type SamplingOptions } from '../policy/run/sampling-options.js';
import { FROM_FILE } from './flags/config-file.js';
import { type RunFlags, run, runOptions } from './flags/job-flags.js';
import { jobLog, shareAmongWorkers } from './flags/worker-flags.js';

/** Raw flag values of sampling. */
export interface SamplingFlags {
  readonly temperature: string;
  readonly topP: string;
  readonly seed: string;
  readonly batch: string;
  readonly judge: string;
}

/** The flags of sampling. @param of what they are about, for the help of a command with other flags */
export function sampling(command: Command, of = ''): Command {
  return command
    .option('--temperature <t>', `${of}1 samples from the policy itself, 0 takes the likeliest token`, '1')
    .option('--top-p <p>', `${of}only the likeliest tokens that hold so much probability together`, '1')
    .option('--seed <n>', `${of}the same seed writes the same, whatever --batch, shards or workers`, '0')
    .option('--batch <n>', `${of}completions that are written at once`, String(DEFAULT_BATCH))
    .option(
      '--judge <how>',
      `${of}reward: compare (docs/answers.md)|exact (the answer's very text)`,
      'compare',
    );
}

/** Checks the values. @param maxTokens raw value of the flag of that name */
export function resolveSampling(flags: SamplingFlags, maxTokensFlag: string, maxTokens: string) {
  const temperature = finite('--temperature', flags.temperature, 'a number of at least 0', '1');
  if (temperature < 0)
    throw usageError(
      `--temperature ${flags.temperature}: expected a number of at least 0`,
      '--temperature 1',
    );
  const topP = finite('--top-p', flags.topP, 'a number above 0, up to 1', '0.95');
  if (topP <= 0 || topP > 1)
    throw usageError(`--top-p ${flags.topP}: expected a number above 0, up to 1`, '--top-p 0.95');
  const options: SamplingOptions = {
    temperature,
    topP,
    maxTokens: positiveInteger(maxTokensFlag, maxTokens, 2048),
    seed: positiveInteger('--seed', flags.seed, 1, 0),
    batch: positiveInteger('--batch', flags.batch, DEFAULT_BATCH),
  };
  return { sampling: options, judge: oneOf('--judge', flags.judge, JUDGES) };
}

/** The flags of the Monte Carlo estimators, as commander hands them on. */
export interface MonteCarloFlags extends SamplingFlags {
  readonly mcSamples: string;
  readonly mcMaxTokens?: string;
  readonly mcUnfinished: string;
  readonly keepSamples: boolean;
}

/** Tokens a sample at most. */
const MOST_TOKENS = { mc: 4096, 'mc-truncated': 256 } as const;

/** The flags of the Monte Carlo estimators. */
export function monteCarlo(command: Command): Command {
  const { mc, 'mc-truncated': truncated } = MOST_TOKENS;
  command
    .option('--mc-samples <n>', 'of mc and mc-truncated: completions an exit point', '20')
    .option(
      '--mc-max-tokens <n>',
      `of mc and mc-truncated: new tokens a completion at most (default: ${mc}; ${truncated} for mc-truncated)`,
    )
    .option('--mc-unfinished <how>', 'what a completion without a verdict counts: zero|drop', 'zero')
    .option('--keep-samples', 'write the completions too', false);
  return sampling(command, 'of mc and mc-truncated: ');
}

const MONTE_CARLO_FLAGS = [
  ...(['mcSamples', 'mcMaxTokens', 'mcUnfinished', 'keepSamples'] as const),
  ...(['temperature', 'topP', 'seed', 'batch', 'judge'] as const),
] as const;

/** Checks the values; undefined for an estimator that samples nothing. @throws RredcotError (exit 2) for a flag without meaning */
export function resolveMonteCarlo(flags: MonteCarloFlags, estimator: Estimator, command: Command) {
  if (!natureOf(estimator).isSampled) {
    const given = MONTE_CARLO_FLAGS.find((name) =>
      ['cli', FROM_FILE].includes(command.getOptionValueSource(name) ?? ''),
    );
    const long = command.options.find((option) => option.attributeName() === given)?.long;
    if (long !== undefined && long !== null)
      throw usageError(`${long} has no meaning with --estimator ${estimator}`, 'add --estimator mc');
    return undefined;
  }
  const most = MOST_TOKENS[estimator as keyof typeof MOST_TOKENS];
  const method = resolveSampling(flags, '--mc-max-tokens', flags.mcMaxTokens ?? String(most));
  return {
    samples: positiveInteger('--mc-samples', flags.mcSamples, 20),
    unfinished: oneOf('--mc-unfinished', flags.mcUnfinished, UNFINISHED),
    keep: flags.keepSamples,
    ...method,
  };
}

/** Adds the command; it reports its exit code, and throws what goes wrong. */
export function addSample(
  program: Command,
  interruption: Interruption,
  done: (code: ExitCode) => void,
): void {
  sampling(run(program.command('sample'), 'samples.jsonl'))
    .summary('write completions of prompts: traces that score reads')
    .description(
      'Lets the policy complete every prompt, and writes the completions with token ids, log-probabilities and, where the row has references, rewards. Columns of the input pass through.',
    )
    .option('-n, --samples <n>', 'completions a prompt', '8')
    .option('--max-tokens <n>', "tokens a completion at most; the policy's context ends it too", '4096')
    .option('--policy <folder>', 'policy folder', EMBEDDED_POLICY)
    .addHelpText('after', '\nExample:\n  rredcot sample prompts.jsonl -n 8 -o traces.jsonl\n')
    .action(
      async (
        inputs: string[],
        flags: RunFlags & SamplingFlags & { samples: string; maxTokens: string; policy: string },
        command: Command,
      ) => {
        const log = await jobLog(flags);
        const { sample } = await import('../commands/sample.js');
        const method = resolveSampling(flags, '--max-tokens', flags.maxTokens);
        const samples = positiveInteger('--samples', flags.samples, 8);
        const { signal } = interruption;
        const job = { ...runOptions(flags), policy: flags.policy, samples, ...method, signal };
        interruption.limitTime(parseTimeLimit(flags.timeLimit));
        done((await shareAmongWorkers(command, inputs, job, log)) ?? (await sample(inputs, job, log)));
      },
    );
}
