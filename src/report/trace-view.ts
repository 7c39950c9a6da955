// Draws one scored trace for a terminal: its segments, the value after each, and where σ went.
import { plural } from '../plural.js';
import { escapeControls } from '../printable.js';
import type { OutputRow, SegmentRow } from '../scored.js';
import { advantageOf } from './counted/shade.js';
import { shortNumber, signed } from './number.js';
import { type Depth, depthOf, tinted } from './shading.js';
import { clipped } from './wrap.js';

export interface ViewOptions {
  readonly depth: Depth;
  /** columns of the terminal */
  readonly width: number;
  /** what the values are called: v̂, or log v̂ for `joint` */
  readonly valueName: string;
  /** every segment, however many there are */
  readonly all?: boolean;
}

/** How a trace is drawn among the lines of the log. */
export function drawnHere(): Pick<ViewOptions, 'depth' | 'width'> {
  return { depth: depthOf(process.stderr), width: process.stderr.columns || 100 };
}

/** What of a scored trace is drawn. */
export type DrawnTrace = Pick<OutputRow, 'segments' | 'valueStart' | 'reward' | 'baseline' | 'status'> & {
  readonly trace: Pick<OutputRow['trace'], 'id' | 'completion'>;
};

/** Columns of a bar of v̂, and of one of σ on each side, by what the terminal has: the text needs room too. */
function barsFor(width: number): { readonly value: number; readonly sigma: number } {
  if (width >= 84) return { value: 10, sigma: 10 };
  return width >= 56 ? { value: 5, sigma: 3 } : { value: 0, sigma: 0 };
}

/** more segments than this are cut out of the middle */
const MAX_LINES = 18;

/**
 * The drawing, lines joined by newlines. Values from 0 to 1 draw as bars. So does a segment's σ, leftwards where negative:
 * a full bar is the whole credit of the trace, or more, so that what is nearly nothing looks like it. Narrow terminals have shorter
 * bars, or none.
 */
export function drawTrace(row: DrawnTrace, { depth, width, valueName, all }: ViewOptions): string {
  const characters = [...row.trace.completion];
  const bars = barsFor(width);
  // what is no share of one, such as nats, has no place on a scale from 0 to 1
  const isShare = [row.valueStart, ...row.segments.map(({ value }) => value)].every(
    (value) => value === null || (value >= 0 && value <= 1),
  );
  // blue becomes likelier, orange less likely
  const effect = (advantageOf(row) ?? 0) < 0 ? -1 : 1;
  const line = (value: number | null, segment: SegmentRow | null) => {
    const bar = value === null || !isShare ? '' : valueBar(value, bars.value);
    const sigma = segment?.sigma ?? 0;
    const [minus, plus] = sigmaBars(sigma, bars.sigma);
    // a file that was only cut has neither
    const delta = segment?.kind === 'thought' && segment.delta !== null ? signed(segment.delta) : '';
    const share = segment === null || segment.sigma === null ? '' : signed(segment.sigma);
    const text = segment === null ? '(start)' : segmentText(characters, segment);
    const left = `${(value === null ? '' : shortNumber(value)).padStart(7)} ${bar.padEnd(bars.value)} ${delta.padStart(7)} `;
    const middle = `${share.padStart(7)} ${tinted(`${minus}│${plus}`, sigma * effect, depth)} `;
    const room = width - left.length - share.padStart(7).length - 2 * bars.sigma - 4;
    return `${left}${middle}${clipped(text, room)}`;
  };
  const lines = [line(row.valueStart, null), ...row.segments.map((segment) => line(segment.value, segment))];
  const cut = all === true ? 0 : lines.length - MAX_LINES;
  if (cut > 0) lines.splice(MAX_LINES / 2, cut, `        … ${plural(cut, 'more segment')}`);
  const reward = row.reward === null ? 'unknown' : shortNumber(row.reward);
  const baseline = row.baseline === null ? '' : `, baseline ${shortNumber(row.baseline)}`;
  const head = `${escapeControls(row.trace.id)}: reward ${reward}${baseline}, status ${row.status.join(';') || 'ok'}`;
  const titles = `${valueName.padStart(7)} ${' '.repeat(bars.value)} ${'Δ'.padStart(7)} ${'σ'.padStart(7)} ${' '.repeat(2 * bars.sigma + 2)}segment`;
  return [head, clipped(titles, width), ...lines].join('\n');
}

/** Text of a segment on one line; control characters are made visible, so that a trace cannot drive the terminal. */
function segmentText(characters: readonly string[], { charStart, charEnd, kind }: SegmentRow): string {
  if (charStart === null || charEnd === null) return `(${kind})`;
  const text = characters.slice(charStart, charEnd).join('');
  // a segment of nothing but line breaks is shown as these
  return escapeControls(text.replace(/(?<=[^\n])\n+$/, ''));
}

function valueBar(value: number, columns: number): string {
  const eighths = Math.round(Math.min(1, Math.max(0, value)) * columns * 8);
  const partial = eighths % 8 === 0 ? '' : String.fromCodePoint(0x2590 - (eighths % 8));
  return '█'.repeat(Math.floor(eighths / 8)) + partial;
}

/** Bars left and right of zero, both so many columns wide; a share beyond -1..1 fills its side. */
function sigmaBars(share: number, columns: number): [minus: string, plus: string] {
  const length = Math.round(Math.min(1, Math.abs(share)) * columns);
  const bar = '■'.repeat(length);
  return share < 0
    ? [bar.padStart(columns), ' '.repeat(columns)]
    : [' '.repeat(columns), bar.padEnd(columns)];
}
