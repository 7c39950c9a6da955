// The flags and help of `rredcot score` and `rredcot segment`.
import type { Command } from 'commander';
import { oneOf } from '../commands/job/flag-values.js';
import { type Interruption, parseTimeLimit } from '../commands/job/interrupt.js';
import { checkExport, refuseOfOthers, resolveCreditOptions } from '../commands/job/options.js';
import { parseExport } from '../commands/job/written-columns.js';
import { type ExitCode, usageError } from '../errors.js';
import { BANKS } from '../estimate/bank.js';
import { natureOf } from '../estimate/estimators.js';
import { EMBEDDED_POLICY } from '../policy/embedded.js';
import { calibrationFlag } from './calibrate-command.js';
import {
  type AttributionFlags,
  resolveAttribution,
  withAttributionFlags,
} from './flags/attribution-flags.js';
import { credited } from './flags/credit-flags.js';
import { type JobFlags, job, jobOptions } from './flags/job-flags.js';
import { type MateFlags, resolveMates, withMateFlags } from './flags/mate-flags.js';
import { type PrmFlags, resolvePrm, withPrmFlags } from './flags/prm-flags.js';
import {
  hintFlags,
  impliedEstimator,
  type OtherPolicyFlags,
  proverFlag,
  withOtherPolicyFlags,
} from './flags/prover-flags.js';
import { checkSegmenter } from './flags/segment-flags.js';
import { jobLog, shareAmongWorkers } from './flags/worker-flags.js';
import { type MonteCarloFlags, monteCarlo, resolveMonteCarlo } from './sample-command.js';

/** Adds `score`; it reports its exit code, and throws what goes wrong. */
export function addScoreCommand(
  program: Command,
  interruption: Interruption,
  done: (code: ExitCode) => void,
): void {
  withPrmFlags(
    withAttributionFlags(
      withMateFlags(
        withOtherPolicyFlags(monteCarlo(credited(job(program.command('score'), 'scored.parquet'), true))),
      ),
    ),
  )
    .summary('score traces: entropies, values at exit points, σ')
    .description(
      'Runs the policy over every trace and writes it with the entropy of every token, the value at every exit point, and σ.',
    )
    .option('--policy <folder>', 'policy folder', EMBEDDED_POLICY)
    .option(
      '--bank <source>',
      "references: row|group; group: the answers of the group's other correct completions (snis: of the wrong ones too)",
      'row',
    )
    .option(
      '--dry-run',
      'tell what a run would do: traces, rejects, tokens, exits, a branch, time and memory',
      false,
    )
    .option(
      '--export <form>',
      "a trainer's columns in place of ours: prm|tinker|vineppo (docs/trainers.md; default: ours)",
    )
    .addHelpText(
      'after',
      '\nExample:\n  rredcot score traces.jsonl --map prompt=question,reference=answer -o scored.parquet\n',
    )
    .action(
      async (
        inputs: string[],
        flags: JobFlags &
          MonteCarloFlags &
          MateFlags &
          OtherPolicyFlags &
          AttributionFlags &
          PrmFlags &
          Parameters<typeof resolveCreditOptions>[0] & {
            bank: string;
            calibration?: string;
            export?: string;
            dryRun: boolean;
          },
        command: Command,
      ) => {
        const log = await jobLog(flags);
        const { score } = await import('../commands/score.js');
        const credit = resolveCreditOptions(impliedEstimator(flags, command));
        if (flags.policy === false) throw usageError('score needs a policy', 'leave out --no-policy');
        const exportName = parseExport(flags.export);
        checkExport(exportName, credit);
        refuseOfOthers(credit);
        const bank = oneOf('--bank', flags.bank, BANKS);
        if (bank === 'group' && natureOf(credit.estimator).scores === 'nothing')
          throw usageError(
            `--bank group has no meaning with --estimator ${credit.estimator}: nothing is scored`,
            'leave it out',
          );
        const calibration = await calibrationFlag(credit.estimator, flags.calibration);
        const sampled = resolveMonteCarlo(flags, credit.estimator, command);
        const options = jobOptions(flags);
        const prover = proverFlag(credit.estimator, flags.prover);
        const hint = hintFlags(credit.estimator, flags);
        const prm = resolvePrm(flags, credit.estimator);
        const mates = resolveMates(flags, credit.estimator, options.segments, inputs);
        const attribution = resolveAttribution(flags, credit.estimator);
        const dryRun = flags.dryRun ? (line: string) => process.stdout.write(`${line}\n`) : undefined;
        const method = {
          credit,
          calibration,
          monteCarlo: sampled,
          mates,
          attribution,
          prover,
          hint,
          prm,
          bank,
          exportName,
          dryRun,
        };
        const job = { ...options, policy: flags.policy, ...method, signal: interruption.signal };
        checkSegmenter(job.segments, job);
        interruption.limitTime(parseTimeLimit(flags.timeLimit));
        done((await shareAmongWorkers(command, inputs, job, log)) ?? (await score(inputs, job, log)));
      },
    );
}

/** Adds `segment`, likewise. */
export function addSegmentCommand(
  program: Command,
  interruption: Interruption,
  done: (code: ExitCode) => void,
): void {
  job(program.command('segment'), 'JSONL on stdout')
    .summary('cut traces into segments, without scoring them')
    .description(
      'Cuts every completion into segments at token boundaries; neighbours of the lowest total entropy are merged.',
    )
    .option('--policy <folder>', 'policy folder', EMBEDDED_POLICY)
    .option('--no-policy', 'no entropies: merge by length, on characters')
    .addHelpText(
      'after',
      '\nExample:\n  rredcot segment traces.jsonl --max-segments 40 --no-policy | head -1\n',
    )
    .action(async (inputs: string[], flags: JobFlags, command: Command) => {
      const log = await jobLog(flags);
      const { segment } = await import('../commands/segment.js');
      const policy = flags.policy === false ? null : flags.policy;
      if (policy === null && flags.device !== 'auto')
        throw usageError('--device has no meaning without a policy', 'leave out --device or --no-policy');
      if (policy === null && flags.chatTemplateArg !== undefined)
        throw usageError(
          '--chat-template-arg has no meaning without a policy',
          'leave it or --no-policy out',
        );
      interruption.limitTime(parseTimeLimit(flags.timeLimit));
      const job = { ...jobOptions(flags), policy, signal: interruption.signal };
      checkSegmenter(job.segments, job);
      done((await shareAmongWorkers(command, inputs, job, log)) ?? (await segment(inputs, job, log)));
    });
}
