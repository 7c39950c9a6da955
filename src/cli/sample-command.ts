// The flags and help of `rredcot sample`.
import type { Command } from 'commander';
import { type Interruption, parseTimeLimit } from '../commands/job/interrupt.js';
import type { ExitCode } from '../errors.js';
import type { FlagValues } from '../estimators/estimator.js';
import { resolveSampling, samplingFlags } from '../estimators/sampling-flags.js';
import { positiveInteger } from '../flag-values.js';
import { EMBEDDED_POLICY } from '../policy/embedded.js';
import { type RunFlags, run, runOptions } from './job-flags.js';
import { jobLog, sharing } from './worker-flags.js';

/** Adds the command; it reports its exit code, and throws what goes wrong. */
export function addSample(
  program: Command,
  interruption: Interruption,
  done: (code: ExitCode) => void,
): void {
  const command = run(program.command('sample'), 'samples.jsonl');
  command.optionsGroup('Completions:');
  for (const [flag, text] of samplingFlags()) command.option(flag, text);
  command
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
        flags: RunFlags & FlagValues & { samples: string; maxTokens: string; policy: string },
        command: Command,
      ) => {
        const log = await jobLog(flags);
        const { sample } = await import('../commands/sample.js');
        const method = resolveSampling(flags, '--max-tokens', flags.maxTokens);
        const samples = positiveInteger('--samples', flags.samples, 8);
        const { signal } = interruption;
        const job = { ...runOptions(flags), policy: flags.policy, samples, ...method, signal };
        interruption.limitTime(parseTimeLimit(flags.timeLimit));
        done(await sample(inputs, { ...job, ...sharing(command, inputs) }, log));
      },
    );
}
