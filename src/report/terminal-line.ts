// What stderr's terminal shows: whether its last line is one that is drawn over, and whether it takes colours.

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

/** Whether a stream takes colours: a terminal, and nobody said no (https://no-color.org). */
export function coloursOf(stream: { readonly isTTY?: boolean }): boolean {
  return stream.isTTY === true && !process.env.NO_COLOR && process.env.TERM !== 'dumb';
}
