// The command line: flags, defaults, help, and the one place where errors become exit codes.
import { Command, CommanderError } from 'commander';
import { EXIT, type ExitCode, RredcotError } from '../errors.js';
import { fileError } from '../io/files/file-error.js';
import { EMBEDDED_POLICY, VERSION } from '../package-files.js';
import { escapeLines } from '../printable.js';
import { record, tellBug, tellError } from '../report/terminal.js';
import { type Interruption, interruptible } from '../run/signals.js';
import { addBenchCommand, addCompareCommand } from './compare-command.js';
import { addCompletionCommand } from './completion-command.js';
import { declared, endHelp, readableHelp } from './declare.js';
import { addPolicyCommands } from './policy-commands.js';
import { addSample } from './sample-command.js';
import { addScoreCommand, addSegmentCommand } from './score-command.js';
import {
  addCalibrateCommand,
  addInspectCommand,
  addPageCommands,
  addRunCommands,
  addScoredCommands,
} from './scored-commands.js';

/** The commands that end an interruption themselves, since they have work to keep or to tell of. */
const KEEPS_WORK: ReadonlySet<string> = new Set([
  ...['score', 'segment', 'sample', 'verify'],
  ...['redistribute', 'filter'],
]);

/** Runs the command line of this process. @returns the exit code (DESIGN §5) */
export function main(argv: readonly string[]): Promise<ExitCode> {
  const interruption = interruptible();
  // who waits for input that does not come would never hear of it
  interruption.signal.addEventListener('abort', () => process.stdin.destroy());
  return run(argv, interruption, listenToOutputs());
}

/** Notices errors of stdout and stderr, which would end the process. @returns what befell stdout, if anything */
function listenToOutputs(): () => unknown {
  // a reader that has seen enough (`--help | head`) is no failure; outputs on stdout notice an error by themselves
  let stdoutError: unknown;
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') stdoutError = fileError(error, 'stdout', 'written');
  });
  // with nobody to tell, the work goes on
  process.stderr.on('error', () => {});
  return () => stdoutError;
}

/** Builds the command line and runs it. @returns its exit code, told on stderr where it failed */
async function run(
  argv: readonly string[],
  interruption: Interruption,
  stdoutError: () => unknown,
): Promise<ExitCode> {
  let result: ExitCode = EXIT.done;
  const { signal } = interruption;
  const isShort = argv.includes('-h');
  const json = argv.includes('--log-json');
  const program: Command = readableHelp(new Command('rredcot'), isShort)
    .hook('preSubcommand', (_, command) => declared(command, argv))
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
        json
          ? record(EXIT.usage, text.replace(/^error: /, '').trim(), {})
          : write(escapeLines(text.replace(/^error: /, 'rredcot: '))),
      // in a log of records the help after an error is none
      writeErr: (text) => (json ? true : process.stderr.write(text)),
    })
    .showHelpAfterError('(rredcot --help lists commands, rredcot <command> --help their flags)');

  const done = (code: ExitCode): void => {
    result = code;
  };
  addScoreCommand(program, interruption, done);
  addSegmentCommand(program, interruption, done);
  addSample(program, interruption, done);
  addInspectCommand(program, signal, done);
  addCalibrateCommand(program, signal, done);
  addRunCommands(program, signal, done);
  addCompareCommand(program, done);
  addBenchCommand(program, done);
  addScoredCommands(program, signal, done);
  addPageCommands(program, signal, done);
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
      'auto|cpu|cuda|cuda:<n>: has to prove itself too; auto: what auto takes',
      'auto',
    )
    .addHelpText('after', '\nExample:\n  rredcot doctor\n  rredcot doctor --device cuda\n')
    .action(async (flags: { json: boolean; device: string }) => {
      const { doctor } = await import('../commands/doctor.js');
      const { parseDevice } = await import('../model/onnx/device.js');
      result = await doctor(EMBEDDED_POLICY, { json: flags.json, device: parseDevice(flags.device) });
    });

  addCompletionCommand(program);
  endHelp(program, isShort);
  try {
    // its own help command asks no hook
    for (const each of program.commands)
      if (argv[2] === 'help' && each.name() === argv[3]) await declared(each);
    await program.parseAsync(argv as string[]);
    const fault = stdoutError();
    return fault === undefined ? result : report(fault, json);
  } catch (error) {
    // an input that is closed under its reader is what the interruption has come to
    const isOurs = error instanceof RredcotError || !signal.aborted;
    return report(isOurs ? error : new RredcotError('interrupted', { exitCode: EXIT.interrupted }), json);
  }
}

/** Tells of what went wrong. @param json as a record of the log */
function report(caught: unknown, json: boolean): ExitCode {
  // a failure of the file system that nobody has named yet is the machine's, no bug
  const { path, syscall } = (caught ?? {}) as NodeJS.ErrnoException;
  const error =
    path === undefined ? caught : fileError(caught, path, syscall === 'open' ? 'read' : 'written');
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
  if (!(error instanceof RredcotError)) return tellBug(error, json);
  return tellError(error, json);
}
