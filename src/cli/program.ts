// The command line: commands, their help, what ends them from outside, and the one place where errors become exit codes.
import { Command, CommanderError } from 'commander';
import { EXIT, type ExitCode, interruptedError, RredcotError, usageError } from '../errors.js';
import { placeInModule } from '../estimate/module-place.js';
import { removeTemporaryFiles } from '../io/files/atomic-file.js';
import { endReading, fileError } from '../io/files/files.js';
import { VERSION } from '../package-files.js';
import { describeValue, escapeLines } from '../printable.js';
import { record, tellBug, tellError } from '../report/terminal.js';
import { type CommandCall, endHelp, type Interruption, moduleIn, readableHelp } from './declare.js';

const runs = () => import('./score-command.js');
const scored = () => import('./scored-commands.js');
const policies = () => import('./policy-commands.js');

type Declare = (command: Command, call: CommandCall) => void | Promise<void>;

/** Every command with its summary; its flags are declared by what is called as it is, which is loaded when it is called. */
const COMMANDS: readonly (readonly [name: string, summary: string, load: () => Promise<object>])[] = [
  ['score', 'score traces: entropies, values at exit points, σ', runs],
  ['requests', 'write what score would ask the policy, for an engine to answer', runs],
  ['segment', 'cut traces into segments, without scoring them', runs],
  [
    'inspect',
    'show one trace: of a dump what the program makes of it, of a scored file its values and σ',
    scored,
  ],
  ['summary', 'the numbers of a scored file: can this run be trusted?', scored],
  ['report', 'a page about a scored file: its numbers, and some traces', scored],
  ['compare', 'how credits go together', scored],
  ['redistribute', 'another σ, baseline or estimator for a scored file, without a policy', scored],
  ['filter', 'keep the traces of a scored file that fit conditions', scored],
  ['calibrate', "fit a value on the reward's scale to scored traces", scored],
  ['verify', 'read a run again: are all of its parts there, with the rows that were written?', scored],
  ['policy', 'policy folders: build and info', policies],
  ['doctor', 'check this machine: what the policy can run on', policies],
];

/** The commands that end an interruption themselves, since they have work to keep or to tell of. */
const KEEPS_WORK = new Set(['score', 'requests', 'segment', 'verify', 'redistribute', 'filter']);

/** Notices errors of stdout and stderr, which would end the process. @returns what befell stdout, if anything */
function listenToOutputs(): () => Promise<unknown> {
  // a reader that has seen enough (`--help | head`) is no failure; outputs on stdout notice an error by themselves
  let stdoutError: unknown;
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') stdoutError = fileError(error, 'stdout', 'written');
  });
  // with nobody to tell, the work goes on
  process.stderr.on('error', () => {});
  // what was written last may fail later
  return async () => {
    await new Promise<void>((done) => process.stdout.write('', () => done()));
    return stdoutError;
  };
}

/** Builds the command line and runs it. @returns its exit code (DESIGN §5), told on stderr where it failed */
export async function main(argv: readonly string[]): Promise<ExitCode> {
  const interruption = interruptible();
  const { signal } = interruption;
  // who waits for input that does not come would never hear of it
  signal.addEventListener('abort', endReading);
  const stdoutError = listenToOutputs();
  let result: ExitCode = EXIT.done;
  const isShort = argv.includes('-h');
  const done = (code: ExitCode): void => {
    result = code;
  };
  const declared = async (command: Command): Promise<void> => {
    const load = COMMANDS.find(([name]) => name === command.name())?.[2];
    const declares = (await load?.()) as Readonly<Record<string, Declare>> | undefined;
    await declares?.[command.name()]?.(command, { argv, interruption, done });
    endHelp(command, isShort);
  };
  const json = argv.includes('--log-json');
  const program: Command = readableHelp(new Command('rredcot'), isShort)
    .hook('preSubcommand', (_, command) => declared(command))
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

  for (const [name, summary] of COMMANDS) program.command(name).summary(summary);
  endHelp(program, isShort);
  try {
    // its own help command asks no hook
    for (const each of program.commands)
      if (argv[2] === 'help' && each.name() === argv[3]) await declared(each);
    await program.parseAsync(argv as string[]);
    const fault = await stdoutError();
    return fault === undefined ? result : report(fault, argv, json);
  } catch (error) {
    // help that did not get out was none
    const fault = error instanceof CommanderError && error.exitCode === 0 ? await stdoutError() : undefined;
    if (fault !== undefined) return report(fault, argv, json);
    // an input that is closed under its reader is what the interruption has come to
    const isOurs = error instanceof RredcotError || !signal.aborted;
    const { cause } = Object(error);
    // what a promise of the user's own module comes to says more
    const failure = cause instanceof Promise ? await cause.then(() => error).catch((of) => of) : error;
    const told = isOurs ? failure : interruptedError('interrupted');
    return report(told, argv, json);
  }
}

/** Tells of what went wrong. @param json as a record of the log */
function report(caught: unknown, argv: readonly string[], json: boolean): ExitCode {
  // a failure of the file system that nobody has named yet is the machine's, no bug
  const { path, syscall } = (caught ?? {}) as NodeJS.ErrnoException;
  const error =
    path === undefined ? caught : fileError(caught, path, syscall === 'open' ? 'read' : 'written');
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
  if (error instanceof RredcotError) return tellError(error, json);
  // the program throws nothing else: `throw 'text'` is of the user's own module
  const isError = caught instanceof Error;
  const place = isError ? placeInModule(caught) : moduleIn(argv);
  if (place === undefined) return tellBug(error, json);
  return tellError(
    usageError(
      `${place}: ${isError ? caught : `throws ${describeValue(caught)}, expected an Error`}`,
      'docs/your-own-credit.md says what a module gives',
    ),
    json,
  );
}

// ------ the end of a run that comes from outside: signals of a terminal or a scheduler, and a time limit

/** What a terminal (Ctrl-C, its end), a scheduler (Slurm, Kubernetes) or `--signal=USR1@120` sends. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGUSR1', 'SIGHUP'] as const;

/**
 * Aborted by the first signal or when the time is over, so that the run under way can end; a second signal ends the
 * process as it stands, without its temporary files.
 */
export function interruptible(): Interruption {
  const controller = new AbortController();
  let keepsWork = true;
  for (const name of SIGNALS)
    process.on(name, () => {
      if (!keepsWork) {
        removeTemporaryFiles();
        process.removeAllListeners(name);
        process.kill(process.pid, name);
        return;
      }
      // a terminal that goes sends SIGHUP, and its shell may send another
      if (controller.signal.aborted && name !== 'SIGHUP') {
        removeTemporaryFiles();
        process.kill(process.pid, 'SIGKILL');
      }
      controller.abort();
    });
  return {
    signal: controller.signal,
    keepNothing() {
      keepsWork = false;
    },
    limitTime(text) {
      setTimeout(() => controller.abort(), parseTimeLimit(text)).unref();
    },
  };
}

const TIME_UNITS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000 };
/** setTimeout holds no longer time */
const LONGEST_MS = 2 ** 31 - 1;

/** Reads `--time-limit 55m` as milliseconds: a number of seconds, or one with s, m or h. @throws RredcotError (exit 2) */
export function parseTimeLimit(text: string): number {
  const [, number, unit = 's'] = /^(\d+(?:\.\d+)?)([smh]?)$/.exec(text) ?? [];
  const ms = Number(number) * (TIME_UNITS[unit || 's'] as number);
  if (number === undefined || ms <= 0 || ms > LONGEST_MS)
    throw usageError(
      `--time-limit ${text}: expected a time of at most 24 days, e.g. 90s, 55m or 11.5h`,
      '--time-limit 55m',
    );
  return ms;
}
