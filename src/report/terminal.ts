// What the program tells a terminal beside its log: a line that is drawn over, shades, and the end of a command that fails.
import { EXIT, type ExitCode, type RredcotError } from '../errors.js';
import { escapeControls, escapeLines, printableJson } from '../printable.js';

interface ColorTerminal {
  readonly isTTY?: boolean;
  getColorDepth?(env?: object): number;
}

/** Whether a stream takes 256 colors: nothing that is no terminal does, nor where somebody said no (https://no-color.org). */
export function hasColors(stream: ColorTerminal): boolean {
  const { NO_COLOR: isRefused, ...env } = process.env;
  if (stream.isTTY !== true || isRefused || env.TERM === 'dumb') return false;
  // Node takes an empty NO_COLOR for a refusal, which it is not
  return (stream.getColorDepth?.(env) ?? 8) >= 8;
}

/** Background of each step, for above 0 and below. */
const SHADES = { plus: [195, 153, 74, 25, 18], minus: [223, 215, 208, 130, 94] } as const;
/** from this step on the text is light */
const LIGHT = 4;

/** A text with its shade; steps of {@link shadeOf}. */
export function shaded(text: string, shade: number, isColored: boolean): string {
  if (shade === 0 || !isColored || text === '') return text;
  const step = Math.abs(shade);
  const back = SHADES[shade > 0 ? 'plus' : 'minus'][step - 1];
  return `\u001b[48;5;${back};38;5;${step >= LIGHT ? 231 : 16}m${text}\u001b[0m`;
}

/** A text that is there to be read along: faint. */
export function dimmed(text: string, isColored: boolean): string {
  return !isColored || text === '' ? text : `\u001b[2m${text}\u001b[0m`;
}

/** A text in blue where the sign is above 0, in orange below. */
export function tinted(text: string, sign: number, isColored: boolean): string {
  return sign === 0 || !isColored ? text : `\u001b[38;5;${sign > 0 ? 74 : 208}m${text}\u001b[0m`;
}

const CLEAR_LINE = '\r\u001b[K';

/** Whether the last line of the terminal is one that is drawn over. */
let drawn = false;

/** Draws the terminal's last line over. @param line is cut at the terminal's width */
export function drawProgressLine(line: string): void {
  process.stderr.write(`${CLEAR_LINE}${line.slice(0, (process.stderr.columns || 80) - 1)}`);
  drawn = true;
}

/** Leaves the terminal with an empty line, for what is not part of the progress. */
export function endProgressLine(): void {
  if (drawn) process.stderr.write(CLEAR_LINE);
  drawn = false;
}

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
  const [code] = Object.entries(EXIT).find(([, each]) => each === exitCode) ?? [];
  const fields = { code, exit_code: exitCode, ...more };
  const text = JSON.stringify({ level: 'fatal', time: Date.now(), ...fields, msg });
  process.stderr.write(`${printableJson(text)}\n`);
}
