// Texts and numbers as lines of a terminal: blocks, and pieces that fit, of which wide characters take two columns and combining ones none.
import stringWidth from 'string-width';

const BLOCKS = '▁▂▃▄▅▆▇█';

/** Numbers as blocks from `low` to `high`; what is beyond is at the edge. */
export function spark(list: readonly number[], low: number, high: number): string {
  const height = high > low ? high - low : 1;
  return list
    .map((x) => BLOCKS[Math.max(0, Math.min(7, Math.floor((8 * (x - low)) / height)))] as string)
    .join('');
}

/** So many of a list as there is room for, evenly spread, its first and last among them. */
export function thinned(list: readonly number[], most: number): number[] {
  if (list.length <= most) return [...list];
  return Array.from(
    { length: most },
    (_, k) => list[Math.round((k * (list.length - 1)) / (most - 1))] as number,
  );
}

/** No character of it is wide, or none. */
const NARROW = /^[\x20-\x7e]*$/;
const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' });

/** Columns that a text takes. */
export function columnsOf(text: string): number {
  return NARROW.test(text) ? text.length : stringWidth(text);
}

/**
 * Pieces that fit, none of a character alone in two. Lines end where the text does, too.
 * @param first columns left in the line in which it begins
 */
export function wrapped(text: string, width: number, first = width): string[] {
  const lines: string[] = [];
  let room = first;
  for (const [n, line] of text.split('\n').entries()) {
    if (n > 0) room = width;
    let left = line;
    while (columnsOf(left) > room) {
      const piece = atSpace(fitting(left, room), left);
      // what fits nowhere stands alone
      if (piece === '' && room === width) break;
      lines.push(piece);
      left = left.slice(piece.length);
      room = width;
    }
    lines.push(left);
  }
  return lines;
}

/** A piece of a line up to its last space, where that is in its last third, so that few words are cut in two. */
function atSpace(piece: string, line: string): string {
  const end = piece.lastIndexOf(' ') + 1;
  return line[piece.length] === ' ' || end < (2 / 3) * piece.length ? piece : piece.slice(0, end);
}

/** The longest beginning that takes no more columns. */
function fitting(text: string, room: number): string {
  if (NARROW.test(text.slice(0, room + 1))) return text.slice(0, room);
  let [end, columns] = [0, 0];
  // a column takes some code units at most: the rest of a long text is not looked at
  for (const { segment, index } of graphemes.segment(text.slice(0, 8 * room + 64))) {
    columns += columnsOf(segment);
    if (columns > room) break;
    end = index + segment.length;
  }
  return text.slice(0, end);
}

/** A text of one line cut so that it fits, with … where something is left out. */
export function clipped(text: string, room: number): string {
  // a column takes no more than some characters
  if (columnsOf(text.slice(0, 8 * room + 64)) <= room && text.length <= 8 * room + 64) return text;
  return room <= 0 ? '' : `${fitting(text, room - 1)}…`;
}

/** Columns of what stands before the lines of a section. */
export const LABEL = 12;

/** Lines under a label; none without lines. */
export function section(label: string, lines: readonly string[]): string[] {
  return lines.map((line, n) => {
    const name = n === 0 ? label : '';
    return `${name}${' '.repeat(Math.max(1, LABEL - columnsOf(name)))}${line}`.trimEnd();
  });
}
