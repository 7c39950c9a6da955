// The end of a command that fails, as it is told: a line of its own, a hint on the next; or one JSON record.
import { EXIT, type ExitCode, type RredcotError } from '../errors.js';
import { escapeControls, escapeLines, printableJson } from '../printable.js';
import { endProgressLine } from './terminal-line.js';

const CODES: Readonly<Record<number, string>> = Object.fromEntries(
  Object.entries(EXIT).map(([name, code]) => [code, name]),
);

/** Tells of an error that is meant for the user. */
export function tellError({ message, hint, exitCode }: RredcotError, json: boolean): ExitCode {
  endProgressLine();
  if (json) record(exitCode, message, hint === undefined ? {} : { hint });
  else {
    const cure = hint === undefined ? '' : `\n  try: ${escapeControls(hint)}`;
    process.stderr.write(`rredcot: ${escapeControls(message)}${cure}\n`);
  }
  return exitCode;
}

/** Tells of any other. */
export function tellBug(error: unknown, json: boolean): ExitCode {
  endProgressLine();
  const text = (error as Error)?.stack ?? String(error);
  if (json) record(EXIT.bug, 'this is a bug, please report it', { stack: text });
  else process.stderr.write(`rredcot: this is a bug, please report it\n${escapeLines(text)}\n`);
  return EXIT.bug;
}

/** A record as the log writes them. */
export function record(exitCode: ExitCode, msg: string, more: Readonly<Record<string, unknown>>): void {
  const fields = { code: CODES[exitCode], exit_code: exitCode, ...more };
  const text = JSON.stringify({ level: 'fatal', time: Date.now(), ...fields, msg });
  process.stderr.write(`${printableJson(text)}\n`);
}
