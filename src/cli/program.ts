// The command line: flags, defaults, help, and the one place where errors become exit codes.
import { Command, CommanderError } from 'commander';
import { oneOf } from '../commands/job/flag-values.js';
import { interruptible, parseTimeLimit } from '../commands/job/interrupt.js';
import { checkExport, refuseOfOthers, resolveCreditOptions } from '../commands/job/options.js';
import { parseExport } from '../commands/job/written-columns.js';
import { EXIT, type ExitCode, RredcotError, usageError } from '../errors.js';
import { BANKS } from '../estimate/bank.js';
import { natureOf } from '../estimate/estimators.js';
import { fileError } from '../io/files/file-error.js';
import { EMBEDDED_POLICY } from '../policy/embedded.js';
import { escapeLines } from '../printable.js';
import { record, tellBug, tellError } from '../report/fatal.js';
import { isWorker } from '../report/worker-log.js';
import { VERSION } from '../version.js';
import { type AttributionFlags, resolveAttribution, withAttributionFlags } from './attribution-flags.js';
import { addCalibrateCommand, calibrationFlag } from './calibrate-command.js';
import { addCompareCommand } from './compare-command.js';
import { credited } from './credit-flags.js';
import {
  type JobFlags,
  job,
  jobOptions,
  MAX_LINE_BYTES_FLAG,
  type MappingFlags,
  mapped,
  mappingOptions,
} from './job-flags.js';
import { addCompletionCommand } from './looking/completion-command.js';
import { endHelp, readableHelp } from './looking/help-ends.js';
import { inspectCommand } from './looking/inspect-command.js';
import { addPageCommands } from './looking/page-commands.js';
import { type MateFlags, resolveMates, withMateFlags } from './mate-flags.js';
import { addPolicyCommands } from './policy-commands.js';
import { type PrmFlags, resolvePrm, withPrmFlags } from './prm-flags.js';
import {
  hintFlags,
  impliedEstimator,
  type OtherPolicyFlags,
  proverFlag,
  withOtherPolicyFlags,
} from './prover-flags.js';
import { addRunCommands } from './run-commands.js';
import { addSample, type MonteCarloFlags, monteCarlo, resolveMonteCarlo } from './sample-command.js';
import { addScoredCommands } from './scored-commands.js';
import { checkSegmenter } from './segment-flags.js';
import { jobLog, shareAmongWorkers } from './worker-flags.js';

/** The commands that end an interruption themselves, since they have work to keep or to tell of. */
const KEEPS_WORK: ReadonlySet<string> = new Set([
  ...['score', 'segment', 'sample', 'verify', 'merge'],
  ...['redistribute', 'filter'],
]);

/** Runs the command line. @returns the exit code (DESIGN §5) */
export async function main(argv: readonly string[]): Promise<ExitCode> {
  let result: ExitCode = EXIT.done;
  const interruption = interruptible();
  const { signal } = interruption;
  const json = (): boolean =>
    !isWorker() && (argv.includes('--log-json') || program.commands.some((each) => each.opts().logJson));
  // a reader that has seen enough (`--help | head`) is no failure; outputs on stdout notice an error by themselves
  let stdoutError: unknown;
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') stdoutError = fileError(error, 'stdout', 'written');
  });
  // with nobody to tell, the work goes on
  process.stderr.on('error', () => {});
  const program: Command = readableHelp(new Command('rredcot'))
    .hook('preAction', (_, command) => {
      if (!KEEPS_WORK.has(command.name())) interruption.keepNothing();
    })
    .description(
      'Scores chain-of-thought traces offline: values at exit points, and σ, which redistributes the reward over tokens.',
    )
    .version(VERSION, '-V, --version')
    .exitOverride()
    .configureOutput({
      outputError: (text, write) =>
        json()
          ? record(EXIT.usage, text.replace(/^error: /, '').trim(), {})
          : write(escapeLines(text.replace(/^error: /, 'rredcot: '))),
      // in a log of records the help after an error is none
      writeErr: (text) => (json() ? true : process.stderr.write(text)),
    })
    .showHelpAfterError('(rredcot --help lists commands, rredcot <command> --help their flags)');

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
        const job = { ...options, policy: flags.policy, ...method, signal };
        checkSegmenter(job.segments, job);
        interruption.limitTime(parseTimeLimit(flags.timeLimit));
        result = (await shareAmongWorkers(command, inputs, job, log)) ?? (await score(inputs, job, log));
      },
    );

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
      const job = { ...jobOptions(flags), policy, signal };
      checkSegmenter(job.segments, job);
      result = (await shareAmongWorkers(command, inputs, job, log)) ?? (await segment(inputs, job, log));
    });

  addSample(program, interruption, (code) => {
    result = code;
  });
  inspectCommand<MappingFlags>(
    mapped(program.command('inspect')).option(...MAX_LINE_BYTES_FLAG),
    async (file, flags) => {
      const { inspect } = await import('../commands/inspect.js');
      const { openLog } = await import('../report/log.js');
      const { view, ...mapping } = flags;
      const opts = { ...mappingOptions(mapping), ...view, signal };
      const log = openLog({ quiet: true, json: false });
      result = await inspect(file, opts, (text) => process.stdout.write(text), log);
    },
  );

  addCalibrateCommand(program, signal, (code) => {
    result = code;
  });
  addRunCommands(program, signal, (code) => {
    result = code;
  });
  addCompareCommand(program, (code) => {
    result = code;
  });
  addScoredCommands(program, signal, (code) => {
    result = code;
  });
  addPageCommands(program, signal, (code) => {
    result = code;
  });
  addPolicyCommands(program);
  program
    .command('doctor')
    .summary('check this machine: what the policy can run on, and what fixes the rest')
    .description(
      'Checks Node, ONNX Runtime, the embedded policy, the NVIDIA driver and the CUDA libraries; each problem comes with the line that fixes it. The embedded policy has to give the numbers of its canary on the CPU, and on --device. Ends with what --device auto will use. Exit 69 where the CPU or that device does not work.',
    )
    .option('--json', 'one JSON object instead of the table', false)
    .option(
      '--device <name>',
      'has to prove itself too: cuda, cuda:<n>, webgpu; auto: what auto takes',
      'auto',
    )
    .addHelpText('after', '\nExample:\n  rredcot doctor\n  rredcot doctor --device webgpu\n')
    .action(async (flags: { json: boolean; device: string }) => {
      const { doctor } = await import('../commands/doctor.js');
      const { parseDevice } = await import('../policy/device/device.js');
      result = await doctor(EMBEDDED_POLICY, { json: flags.json, device: parseDevice(flags.device) });
    });

  addCompletionCommand(program);
  endHelp(program);
  try {
    await program.parseAsync(argv as string[]);
    return stdoutError === undefined ? result : report(stdoutError, json());
  } catch (error) {
    // an input that is closed under its reader is what the interruption has come to
    const isOurs = error instanceof RredcotError || !signal.aborted;
    return report(isOurs ? error : new RredcotError('interrupted', { exitCode: EXIT.interrupted }), json());
  }
}

/** Tells of what went wrong. @param json as a record of the log */
function report(caught: unknown, json: boolean): ExitCode {
  // a failure of the file system that nobody has named yet is the machine's, no bug
  const { path, syscall } = (caught ?? {}) as NodeJS.ErrnoException;
  const error =
    path === undefined ? caught : fileError(caught, path, syscall === 'open' ? 'read' : 'written');
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
  return error instanceof RredcotError ? tellError(error, json) : tellBug(error, json);
}
