// A trace in the terminal, and from it by keys to the next one, the one before, and its mates.
import type { Depth } from '../../report/shading.js';
import { drawShown, type ShownTrace } from '../../report/shown-trace.js';
import type { InputRow } from '../../rows.js';
import { matesOf } from './mates.js';
import { type Move, page, type Terminal } from './pager.js';
import { type ShownFile, shownTrace } from './shown.js';
import { type Fits, rowAfter, rowAt, rowBefore } from './steps.js';

export interface BrowseOptions {
  readonly terminal: Terminal;
  readonly all: boolean;
  readonly depth: Depth;
  readonly width: () => number;
  /** the rows that keys lead to, but for mates; undefined: all of them */
  readonly fits: Fits | undefined;
}

/** Until somebody has seen enough. */
export async function browse(
  first: InputRow,
  shown: ShownTrace,
  file: ShownFile,
  { terminal, all, depth, width, fits = () => true }: BrowseOptions,
): Promise<void> {
  let present = { row: first, shown, all };
  const { read } = file.mapping;

  async function target(move: Move): Promise<InputRow | undefined> {
    const { row } = present;
    if (move === 'next') return rowAfter(row.ordinal, read, fits);
    if (move === 'previous') return rowBefore(row.ordinal, read, fits);
    const group = await matesOf(row, read, true);
    const at = group.findIndex(({ ordinal }) => ordinal === row.ordinal);
    const mate = group[(at + 1) % group.length];
    return mate === undefined || mate.ordinal === row.ordinal ? undefined : rowAt(mate.ordinal, read);
  }

  async function go(move: Move): Promise<boolean> {
    if (move === 'all') {
      present = { ...present, all: !present.all };
      return true;
    }
    const row = await target(move);
    const next = row === undefined ? undefined : await shownTrace(row, file, undefined);
    if (row === undefined || next === undefined) return false;
    present = { ...present, row, shown: next };
    return true;
  }

  const draw = () => ({
    lines: drawShown(present.shown, { depth, width: width(), all: present.all }),
    title: `row ${present.row.row}`,
  });
  await page(terminal, draw, go);
}
