// The flags and help of `score` and `segment`.
import type { Command } from 'commander';
import { scoresReferences } from '../credit/nature.js';
import { usageError } from '../errors.js';
import type { CreditFlags } from '../estimate/credit-flags.js';
import type { FlagValues } from '../estimate/estimator.js';
import { REFERENCE_SOURCES } from '../estimate/references.js';
import { oneOf } from '../flag-values.js';
import { EMBEDDED_POLICY } from '../package-files.js';
import { credited, namedEstimator, ofEstimators, withModule } from './credit-flags.js';
import type { CommandCall } from './declare.js';
import { type JobFlags, job, jobLog, jobOptions } from './job-flags.js';
import { refuseWithoutPolicy } from './segment-flags.js';

/** Each of these declares a command, which reports its exit code and throws what goes wrong. */
export async function score(command: Command, { argv, interruption, done }: CommandCall): Promise<void> {
  await withModule(argv);
  job(command, 'scored.parquet', argv)
    .description(
      'Runs the policy over every trace and writes it with the entropy of every token, the value at every exit point, and σ.',
    )
    .optionsGroup('Values and credit:')
    .option('--policy <folder>', 'policy folder', EMBEDDED_POLICY)
    .option(
      '--references <source>',
      "references: row|group; group: the answers of the group's other correct completions (snis: of the wrong ones too)",
      'row',
    )
    .optionsGroup('Output:')
    .addHelpText(
      'after',
      '\nFlags of an estimator, or a segmenter: rredcot score --estimator <name> --segmenter <name> --help\n\nExample:\n  rredcot score traces.jsonl --map prompt=question,reference=answer -o scored.parquet\n',
    )
    .action(async (inputs: string[], given: ScoreFlags & FlagValues, command: Command) => {
      const log = await jobLog(given);
      const commandScore = await import('../commands/score.js');
      const { setUpEstimator } = await import('../estimate/registry.js');
      const isDefault = command.getOptionValueSource('estimator') === 'default';
      const flags = { ...given, estimator: await namedEstimator(given, isDefault) };
      const { resolveCreditOptions } = await import('../estimate/credit-flags.js');
      const credit = resolveCreditOptions(flags);
      const references = oneOf('--references', flags.references, REFERENCE_SOURCES);
      if (references === 'group' && !scoresReferences(credit.estimator))
        throw usageError(
          `--references group has no meaning with --estimator ${credit.estimator.name}: no reference is scored`,
          'leave it out',
        );
      const options = jobOptions(flags);
      const setUp = await setUpEstimator(credit.estimator, flags, { ...options, inputs });
      const isRangeGiven = flags.rewardRange !== 'auto';
      const method = { credit, setUp, isRangeGiven, references };
      const job = { ...options, policy: flags.policy, ...method, signal: interruption.signal };
      interruption.limitTime(flags.timeLimit);
      done(await commandScore.score(inputs, job, log));
    });
  credited(command, true);
  ofEstimators(command, argv);
}

type ScoreFlags = JobFlags & CreditFlags & { policy: string; references: string };

export function segment(command: Command, { argv, interruption, done }: CommandCall): void {
  job(command, 'JSONL on stdout', argv)
    .description(
      'Cuts every completion into segments at token boundaries; neighbours of the lowest total entropy are merged.',
    )
    .optionsGroup('Segments:')
    .option('--policy <folder>', 'policy folder', EMBEDDED_POLICY)
    .option('--no-policy', 'no entropies: merge by length, on characters')
    .addHelpText(
      'after',
      '\nExample:\n  rredcot segment traces.jsonl --max-segments 40 --no-policy | head -1\n',
    )
    .action(async (inputs: string[], flags: JobFlags & { policy: string | false }) => {
      const log = await jobLog(flags);
      const commandSegment = await import('../commands/segment.js');
      const policy = flags.policy === false ? null : flags.policy;
      if (policy === null && flags.device !== 'auto')
        throw usageError('--device has no meaning without a policy', 'leave out --device or --no-policy');
      if (policy === null && flags.endToken !== 'auto')
        throw usageError(
          '--end-token has no meaning without a policy',
          'leave out --end-token or --no-policy',
        );
      if (policy === null && flags.chatTemplateArg !== undefined)
        throw usageError(
          '--chat-template-arg has no meaning without a policy',
          'leave it or --no-policy out',
        );
      interruption.limitTime(flags.timeLimit);
      const job = { ...jobOptions(flags), policy, signal: interruption.signal };
      if (policy === null) refuseWithoutPolicy(job.segments);
      done(await commandSegment.segment(inputs, job, log));
    });
}
