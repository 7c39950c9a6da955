// `rredcot loop`: commands from stdin, run one after the other in one process, an answer on stdout for each.
import { isUtf8 } from 'node:buffer';
import { fstatSync, statSync } from 'node:fs';
import { addAbortSignal } from 'node:stream';
import type { Command } from 'commander';
import { EXIT, type ExitCode, RredcotError, usageError } from '../errors.js';
import { openStdin } from '../io/files/byte-source.js';
import { openStreamSink, ReaderClosedError } from '../io/files/stdout.js';
import { lineSplitter, type RowBytes } from '../io/read/split.js';
import { tellError } from '../report/fatal.js';

/** Longer than what any system takes as a command's arguments. */
const LONGEST_LINE_BYTES = 2 ** 24;

/** Adds the command. @param run runs a command line without the program's name */
export function addLoopCommand(
  program: Command,
  signal: AbortSignal,
  run: (args: readonly string[]) => Promise<ExitCode>,
  done: (code: ExitCode) => void,
): void {
  program
    .command('loop')
    .summary('run the commands of a training loop in one process')
    .description(
      'Reads one command a line from stdin, as a JSON array of its arguments, and runs it in this process, so that the start of the program is paid once. Answers each on stdout with a line, {"exit_code":0,"seconds":0.71}. Commands read and write files; what they print, and errors, go to stderr. Ends with stdin, and with the code of the first command that failed.',
    )
    .addHelpText(
      'after',
      `\nExample:\n  rredcot loop <<< '["score", "traces.jsonl", "-o", "scored.parquet"]'\n`,
    )
    .action(async () => done(await loop(signal, run)));
}

async function loop(
  signal: AbortSignal,
  run: (args: readonly string[]) => Promise<ExitCode>,
): Promise<ExitCode> {
  const answers = openStreamSink();
  let failed: ExitCode = EXIT.done;
  try {
    for await (const line of linesOfStdin(signal)) {
      const started = performance.now();
      const code = await printingOnStderr(async () => {
        const args = argumentsOf(line);
        return args === undefined ? unreadable(line) : run(args);
      });
      failed ||= code;
      const seconds = Math.round(performance.now() - started) / 1000;
      await answers.write(Buffer.from(`${JSON.stringify({ exit_code: code, seconds })}\n`));
      if (signal.aborted) break;
    }
    return signal.aborted ? EXIT.interrupted : failed;
  } catch (error) {
    if (!(error instanceof ReaderClosedError)) throw error;
    return failed || tellError(unanswered(), false);
  } finally {
    await answers.abort();
    process.stdin.destroy(); // who still holds it open would keep the process alive
  }
}

function unanswered(): RredcotError {
  return new RredcotError(
    'loop: nobody reads the answers any more, commands behind the last one have not run',
    {
      exitCode: EXIT.interrupted,
    },
  );
}

/** The lines of stdin as they come, of one that is too long the beginning; ends with the signal. */
async function* linesOfStdin(signal: AbortSignal): AsyncGenerator<RowBytes> {
  const splitter = lineSplitter({ file: '-', maxRowBytes: LONGEST_LINE_BYTES });
  try {
    for await (const chunk of addAbortSignal(signal, openStdin())) yield* splitter.push(chunk);
  } catch (error) {
    if (signal.aborted) return;
    throw error;
  }
  const last = splitter.end();
  if (last !== null) yield last;
}

function argumentsOf({ bytes, length }: RowBytes): readonly string[] | undefined {
  if (length > bytes.length || !isUtf8(bytes)) return undefined;
  try {
    const found: unknown = JSON.parse(bytes.toString());
    const isText = (one: unknown) => typeof one === 'string' && !/[\0\p{Surrogate}]/u.test(one); // as those of a process
    return Array.isArray(found) && found.every(isText) ? found : undefined;
  } catch {
    return undefined;
  }
}

function unreadable({ bytes, length }: RowBytes): ExitCode {
  const line = bytes.subarray(0, 400).toString().trimEnd();
  const found = length > 80 ? `${line.slice(0, 80)}…` : line;
  return tellError(
    usageError(
      `loop: found ${found || 'an empty line'}, expected a JSON array of texts, in UTF-8 and without NUL`,
      '["score", "traces.jsonl", "-o", "scored.parquet"]',
    ),
    false,
  );
}

/** Stdout has the answers of the loop: meanwhile what is printed there goes to stderr. */
async function printingOnStderr<T>(work: () => Promise<T>): Promise<T> {
  const { write } = process.stdout;
  process.stdout.write = process.stderr.write.bind(process.stderr) as typeof write;
  try {
    return await work();
  } finally {
    process.stdout.write = write;
  }
}

/**
 * Holds the commands of a loop to files, since the loop has the streams.
 * @throws RredcotError (exit 2) in the command's turn, when a `--config` is read
 */
export function refuseStreams(program: Command): void {
  for (const command of [program, ...program.commands].flatMap((each) => each.commands))
    command.hook('preAction', () => {
      const { output } = command.opts<{ output?: string }>();
      const named = [...command.args, ...Object.values(command.opts()).flat()].map(String);
      const isStdin = command.args.includes('-') || named.some((path) => isStream(path, 0));
      const isStdout = output === '-' || (output !== undefined && isStream(output, 1));
      const [first] = command.registeredArguments;
      const isByDefault = command.args.length === 0 && (first?.variadic || first?.defaultValue === '-');
      if (isByDefault || isStdin)
        throw usageError('a command of a loop cannot read stdin, which has the commands', 'name a file');
      if (isStdout || (command.name() === 'segment' && output === undefined))
        throw usageError('a command of a loop cannot write to stdout, which has the answers', '-o <file>');
      if (command.name() === 'inspect' && process.stdin.isTTY)
        throw usageError('inspect would read keys from stdin, which has the commands', 'run it by itself');
    });
}

/** Whether a path leads to where a stream of this process does, as /dev/stdin and a redirection's own file do. */
function isStream(path: string, descriptor: number): boolean {
  try {
    const [found, stream] = [statSync(path), fstatSync(descriptor)];
    return found.dev === stream.dev && found.ino === stream.ino;
  } catch {
    return false; // no path at all
  }
}
