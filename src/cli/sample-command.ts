// The flags and help of `sample`.
import type { Command } from 'commander';
import type { FlagValues } from '../estimate/estimator.js';
import { given, positiveInteger } from '../flag-values.js';
import { askedEnvironment, resolveSampling, samplingFlags } from '../model/decode/mc.js';
import { EMBEDDED_POLICY } from '../package-files.js';
import { type CommandCall, logOf } from './declare.js';
import { type RunFlags, run, runOptions } from './job-flags.js';

type SampleFlags = RunFlags & FlagValues & { samples: string; maxTokens: string; policy: string };

/** Declares the command, which reports its exit code and throws what goes wrong. */
export function sample(command: Command, { interruption, done }: CommandCall): void {
  run(command, 'samples.jsonl');
  command.optionsGroup('Completions:');
  for (const [flag, text] of samplingFlags()) command.option(flag, text);
  command
    .description(
      'Lets the policy complete every prompt, and writes the completions with token ids, log-probabilities and, where the row has references, rewards. Columns of the input pass through.',
    )
    .option('-n, --samples <n>', 'completions a prompt', '8')
    .option('--max-tokens <n>', "tokens a completion at most; the policy's context ends it too", '4096')
    .option('--policy <folder>', 'policy folder', EMBEDDED_POLICY)
    .addHelpText('after', '\nExample:\n  rredcot sample prompts.jsonl -n 8 -o traces.jsonl\n')
    .action(async (inputs: string[], flags: SampleFlags) => {
      const log = await logOf(flags);
      const commands = await import('../model/decode/sample.js');
      const method = resolveSampling(flags, '--max-tokens', flags.maxTokens);
      const samples = positiveInteger('--samples', flags.samples, 8);
      const { signal } = interruption;
      const environment = await askedEnvironment(flags);
      const job = { ...runOptions(flags), policy: flags.policy, samples, ...method, environment, signal };
      given(flags.timeLimit, interruption.limitTime);
      done(await commands.sample(inputs, job, log));
    });
}
