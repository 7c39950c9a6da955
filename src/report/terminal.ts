// What the program tells a terminal beside its log: a line that is drawn over, shades, and the end of a command that fails.
import { EXIT, type ExitCode, type RredcotError } from '../errors.js';
import { escapeControls, escapeLines, printableJson } from '../printable.js';

/** Bits of colour: 1 is none, 4 are 16 colours, 8 are 256, 24 all. */
export type Depth = 1 | 4 | 8 | 24;

interface ColourTerminal {
  readonly isTTY?: boolean;
  getColorDepth?(env?: object): number;
}

/** What a stream takes: nothing where it is no terminal or somebody said no (https://no-color.org). */
export function depthOf(stream: ColourTerminal): Depth {
  const { NO_COLOR: isRefused, ...env } = process.env;
  if (stream.isTTY !== true || isRefused || env.TERM === 'dumb') return 1;
  // Node takes an empty NO_COLOR for a refusal, which it is not
  const depth = stream.getColorDepth?.(env) ?? 4;
  return depth >= 24 ? 24 : depth >= 8 ? 8 : depth >= 4 ? 4 : 1;
}

/** Background and text of each step, for above 0 and below. */
const TRUE_COLOUR = {
  plus: ['209;229;240', '146;197;222', '99;163;205', '33;102;172', '8;60;120'],
  minus: ['254;224;182', '253;184;99', '230;145;56', '179;88;6', '127;59;8'],
} as const;
const OF_256 = { plus: [195, 153, 74, 25, 18], minus: [223, 215, 208, 130, 94] } as const;
/** from this step on the text is light */
const LIGHT = 4;

/** A text with its shade; steps of {@link shadeOf}. */
export function shaded(text: string, shade: number, depth: Depth): string {
  if (shade === 0 || depth === 1 || text === '') return text;
  const side = shade > 0 ? 'plus' : 'minus';
  const step = Math.abs(shade);
  const isLight = step >= LIGHT;
  // of 16 colours: the text's own at first, then the background's
  const start =
    depth === 24
      ? `48;2;${TRUE_COLOUR[side][step - 1]};38;2;${isLight ? '255;255;255' : '0;0;0'}`
      : depth === 8
        ? `48;5;${OF_256[side][step - 1]};38;5;${isLight ? 231 : 16}`
        : step < 3
          ? `${shade > 0 ? 34 : 33}`
          : `${shade > 0 ? '44;97' : '43;30'}`;
  return `\u001b[${start}m${text}\u001b[0m`;
}

/** A text that is there to be read along: faint. */
export function dimmed(text: string, depth: Depth): string {
  return depth === 1 || text === '' ? text : `\u001b[2m${text}\u001b[0m`;
}

/** A text in blue where the sign is above 0, in orange below. */
export function tinted(text: string, sign: number, depth: Depth): string {
  if (sign === 0 || depth === 1) return text;
  const colour =
    depth === 24
      ? `38;2;${sign > 0 ? '67;147;195' : '224;130;20'}`
      : depth === 8
        ? `38;5;${sign > 0 ? 74 : 208}`
        : `${sign > 0 ? 34 : 33}`;
  return `\u001b[${colour}m${text}\u001b[0m`;
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

/** undefined where nobody has to be told. @param paths of the inputs, `-` for stdin */
export function terminalNotice(
  paths: readonly string[],
  stdin: { readonly isTTY?: boolean } = process.stdin,
): string | undefined {
  if (stdin.isTTY !== true || !paths.includes('-')) return undefined;
  return 'waits for rows from this terminal, to be ended with Ctrl-D; a file is named behind the command';
}

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
