// A trace in the terminal: keys scroll it, and lead to the next one, the one before, and its mates.
import type { ReadRows } from '../io/read/peek.js';
import { clipped, columnsOf } from '../report/lines.js';
import type { Depth } from '../report/terminal.js';
import { drawShown, type ShownTrace } from '../report/trace-view.js';
import type { InputRow } from '../rows.js';
import { type Fits, matesOf, rowAfter, rowAt, rowBefore } from '../scored/pick.js';
import { type ShownFile, shownTrace } from './shown.js';

/** Where a key leads. */
type Move = 'next' | 'previous' | 'mate' | 'all';

export interface Terminal {
  readonly input: NodeJS.ReadStream;
  readonly output: NodeJS.WriteStream;
}

const ENTER = '\u001b[?1049h\u001b[?25l';
const LEAVE = '\u001b[?25h\u001b[?1049l';
/** From the longest to the shortest. */
const HELPS = [
  'n next · p previous · m mate · a all · ↑↓ space scroll · q quit',
  'n next · p prev · m mate · a all · q quit',
  'n p m a · q quit',
] as const;

/** What fits into the last line: how one leaves stands in it before all else, then where one is, then the other keys. */
export function statusLine(title: string, place: string, width: number): string {
  const forms = [title + place, title].flatMap((head) => HELPS.map((help) => `${head} · ${help}`));
  const found = forms.find((line) => columnsOf(line) <= width);
  const [, , least] = HELPS;
  return found ?? clipped(`${least} · ${title}`, width);
}

const MOVES: Readonly<Record<string, Move>> = {
  ...{ n: 'next', '\u001b[C': 'next', p: 'previous', '\u001b[D': 'previous' },
  ...{ m: 'mate', a: 'all' },
};
/** lines, or screens where they end in `s` */
const SCROLLS: Readonly<Record<string, { readonly lines?: number; readonly screens?: number }>> = {
  ...{ j: { lines: 1 }, '\u001b[B': { lines: 1 }, '\r': { lines: 1 } },
  ...{ k: { lines: -1 }, '\u001b[A': { lines: -1 } },
  ...{ ' ': { screens: 1 }, '\u001b[6~': { screens: 1 }, '\u001b[5~': { screens: -1 } },
  ...{
    g: { screens: -1e9 },
    '\u001b[H': { screens: -1e9 },
    G: { screens: 1e9 },
    '\u001b[F': { screens: 1e9 },
  },
};
/** q, Ctrl-C, Ctrl-D */
const ENDS: ReadonlySet<string> = new Set(['q', 'Q', '\u0003', '\u0004']);

export interface BrowseOptions {
  readonly terminal: Terminal;
  readonly all: boolean;
  readonly depth: Depth;
  readonly width: () => number;
  /** the rows that keys lead to, but for mates; undefined: all of them */
  readonly fits: Fits | undefined;
}

/** Shows traces until somebody has seen enough; leaves the terminal as it was. */
export async function browse(
  first: InputRow,
  shown: ShownTrace,
  file: ShownFile,
  { terminal: { input, output }, all, depth, width, fits = () => true }: BrowseOptions,
): Promise<void> {
  let present = { row: first, shown, all };
  let top = 0;
  let note = '';
  const leave = () => output.write(LEAVE);
  const show = () => {
    const lines = drawShown(present.shown, { depth, width: width(), all: present.all });
    const height = Math.max(1, (output.rows || 24) - 1);
    top = Math.max(0, Math.min(top, lines.length - height));
    const visible = lines.slice(top, top + height);
    const place =
      lines.length > height ? ` · lines ${top + 1} to ${top + visible.length} of ${lines.length}` : '';
    const room = (output.columns || 80) - 1;
    const status =
      note === '' ? statusLine(`row ${present.row.row}`, place, room) : statusLine(note, '', room);
    output.write(
      `\u001b[H\u001b[2J${visible.join('\r\n')}\u001b[${height + 1};1H\u001b[7m${status}\u001b[0m`,
    );
    note = '';
  };
  const go = async (move: Move) => {
    if (move === 'all') {
      present = { ...present, all: !present.all };
      return;
    }
    const row = await ledTo(move, present.row, file.mapping.read, fits);
    const next = row === undefined ? undefined : await shownTrace(row, file, undefined);
    if (row === undefined || next === undefined) note = NOWHERE[move];
    else [present, top] = [{ ...present, row, shown: next }, 0];
  };
  // whatever ends the program, the terminal is given back
  process.once('exit', leave);
  output.write(ENTER);
  input.setRawMode(true);
  output.on('resize', show);
  try {
    show();
    for await (const chunk of input) {
      for (const key of keysOf(String(chunk))) {
        if (ENDS.has(key)) return;
        const scroll = SCROLLS[key];
        const move = MOVES[key];
        if (scroll !== undefined)
          top += (scroll.lines ?? 0) + (scroll.screens ?? 0) * ((output.rows || 24) - 2);
        else if (move !== undefined) await go(move);
      }
      show();
    }
  } finally {
    output.off('resize', show);
    input.setRawMode(false);
    process.off('exit', leave);
    leave();
  }
}

/** The row to which a key leads; undefined where there is none. */
async function ledTo(
  move: Exclude<Move, 'all'>,
  row: InputRow,
  read: ReadRows,
  fits: Fits,
): Promise<InputRow | undefined> {
  if (move === 'next') return rowAfter(row.ordinal, read, fits);
  if (move === 'previous') return rowBefore(row.ordinal, read, fits);
  const group = await matesOf(row, read, true);
  const at = group.findIndex(({ ordinal }) => ordinal === row.ordinal);
  const mate = group[(at + 1) % group.length];
  return mate === undefined || mate.ordinal === row.ordinal ? undefined : rowAt(mate.ordinal, read);
}

const NOWHERE = {
  next: 'there is no trace behind this one',
  previous: 'there is no trace before this one',
  mate: 'it has no mate nearby',
} as const;

/** A chunk may hold several keys: those of an escape sequence belong together. */
export function keysOf(text: string): string[] {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: keys are control characters
  return text.match(/\u001b\[[0-9;]*[A-Za-z~]|[\s\S]/gu) ?? [];
}
