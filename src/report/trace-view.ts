// Draws one scored trace for a terminal: what it was asked, how its value went, where σ went, which segments turned it, its text.
import { plural, shortNumber } from '../plural.js';
import { escapeControls } from '../printable.js';
import { clipped, columnsOf, LABEL, section, spark, thinned, wrapped } from './lines.js';
import { dimmed, shaded, tinted } from './terminal.js';
import { signed, type TraceRecord, type TurningPoint } from './trace-record.js';

/** A trace, and what is known beside it. */
export interface ShownTrace extends TraceRecord {
  /** file and number of the row */
  readonly place: string;
  /** why it is this one; undefined where it was named */
  readonly why: string | undefined;
  /** rules of the file's credits, of which the first is shown; empty where the file does not say */
  readonly credits: readonly string[];
  /** what stands against trusting it */
  readonly warnings: readonly string[];
  /** what the values are called: v̂, or log v̂ for `joint` */
  readonly valueName: string;
  /** what is to be said of the differences */
  readonly steps: string | undefined;
}

export interface ViewOptions {
  readonly isColored: boolean;
  /** columns of the terminal */
  readonly width: number;
  /** all segments and whole texts */
  readonly all?: boolean;
}

/** lines of a segment's text, and of another text, unless all are shown */
const SEGMENT_LINES = 3;
const TEXT_LINES = 6;

export function drawShown(shown: ShownTrace, opts: ViewOptions): string[] {
  const { place, why, segments } = shown;
  const { width, all } = opts;
  const room = Math.max(20, width - LABEL);
  const most = all ? Number.POSITIVE_INFINITY : TEXT_LINES;
  const prose = (text: string | undefined) => (text === undefined ? [] : wrapped(escapeControls(text), room));
  const isScored = shown.start !== null || segments.some(({ sigma: [own] }) => own !== null);
  const hasText = segments.some(({ text }) => text !== '');
  return [
    ...wrapped(headOf(shown), width),
    ...section('! warning', shown.warnings.flatMap(prose)),
    ...section('row', prose(place + (why === undefined ? '' : `: ${why}`))),
    ...section('prompt', folded(shown.prompt, room, most)),
    ...section(
      'reference',
      shown.references.flatMap((text) => folded(text, room, TEXT_LINES)),
    ),
    ...section('answer', folded(shown.answer, room, most)),
    ...section(shown.valueName, curveLines(shown, room)),
    ...section('Δ', prose(shown.steps)),
    ...section('σ by', prose(creditText(shown))),
    ...(isScored ? ['', ...tableOf(shown, opts), '', ...turnLines(shown, width)] : []),
    ...section('text', hasText ? textLines(shown, room, opts) : []),
  ];
}

function headOf({ id, reward, baseline, status }: TraceRecord): string {
  const known = reward === null ? 'unknown' : shortNumber(reward);
  const against = baseline === null ? '' : `, baseline ${shortNumber(baseline)}`;
  return `${escapeControls(id)}: reward ${known}${against}, status ${status}`;
}

/** Which of several credits this is. */
function creditText({ credits: [first, ...others] }: ShownTrace): string | undefined {
  if (first === undefined || others.length === 0) return undefined;
  return `${first}; the file also has ${others.join(', ')}, which rredcot report shows beside it`;
}

/** v̂(s_0..K) as blocks: of probabilities from 0 to 1, whatever the trace. */
function curveLines({ start, segments }: TraceRecord, room: number): string[] {
  const values = [start, ...segments.filter(({ answer }) => !answer).map(({ value }) => value)];
  const known = values.filter((value) => value !== null);
  if (known.length === 0) return [];
  const isShare = known.every((value) => value >= 0 && value <= 1);
  const low = isShare ? 0 : Math.min(...known);
  const high = isShare ? 1 : Math.max(...known);
  const [first = 0] = known;
  const ends = `${shortNumber(first)} → ${shortNumber(known.at(-1) as number)}`;
  const scale = isShare ? 'of 0 to 1' : `of ${shortNumber(low)} to ${shortNumber(high)}`;
  return [
    `${spark(thinned(known, room), low, high)}`,
    `${ends} ${scale}, ${plural(known.length, 'exit point')}`,
  ];
}

/** more segments than this are cut out of the middle */
const MAX_LINES = 18;

/** Columns of a bar of v̂, and of one of σ on each side, by what the terminal has: the text needs room too. */
function barsFor(width: number): { readonly value: number; readonly sigma: number } {
  if (width >= 84) return { value: 10, sigma: 10 };
  return width >= 56 ? { value: 5, sigma: 3 } : { value: 0, sigma: 0 };
}

/**
 * A line a segment. Values from 0 to 1 draw as bars. So does a segment's σ, leftwards where negative: a full bar is the whole credit of the
 * trace, or more, so that what is nearly nothing looks like it. Narrow terminals have shorter bars, or none.
 */
function tableOf(
  { start, segments, isLowered, valueName }: TraceRecord & Pick<ShownTrace, 'valueName'>,
  { isColored, width, all }: ViewOptions,
): string[] {
  const bars = barsFor(width);
  // what is no share of one, such as nats, has no place on a scale from 0 to 1
  const isShare = [start, ...segments.map(({ value }) => value)].every(
    (value) => value === null || (value >= 0 && value <= 1),
  );
  const line = (value: number | null, delta: number | null, sigma: number | null, text: string) => {
    const bar = value === null || !isShare ? '' : valueBar(value, bars.value);
    const [minus, plus] = sigmaBars(sigma ?? 0, bars.sigma);
    // a file that was only cut has neither
    const [change, share] = [delta, sigma].map((x) => (x === null ? '' : signed(x)).padStart(7));
    const left = `${(value === null ? '' : shortNumber(value)).padStart(7)} ${bar.padEnd(bars.value)} ${change} `;
    // blue becomes likelier, orange less likely
    const tint = isLowered ? -(sigma ?? 0) : (sigma ?? 0);
    const middle = `${share} ${tinted(`${minus}│${plus}`, tint, isColored)} `;
    const room = width - left.length - (share as string).length - 2 * bars.sigma - 4;
    return `${left}${middle}${clipped(text, room)}`;
  };
  const lines = [
    line(start, null, null, '(start)'),
    ...segments.map((segment) => {
      const { value, delta, answer, sigma } = segment;
      const isOwn = segment.shown === undefined;
      const share = isOwn ? (sigma[0] ?? null) : null;
      return line(value, answer || !isOwn ? null : delta, share, lineOf(segment));
    }),
  ];
  const cut = all === true ? 0 : lines.length - MAX_LINES;
  if (cut > 0) lines.splice(MAX_LINES / 2, cut, `        … ${plural(cut, 'more segment')}`);
  const titles = `${valueName.padStart(7)} ${' '.repeat(bars.value)} ${'Δ'.padStart(7)} ${'σ'.padStart(7)} ${' '.repeat(2 * bars.sigma + 2)}segment`;
  return [clipped(titles, width), ...lines];
}

/** Text of a segment on one line; control characters are made visible, so that a trace cannot drive the terminal. */
function lineOf(segment: TraceRecord['segments'][number]): string {
  if (segment.text === '') return segment.answer ? '(answer)' : segment.shown ? '(shown)' : '(thought)';
  // a segment of nothing but line breaks is shown as these
  const text = escapeControls(segment.text.replace(/(?<=[^\n])\n+$/, ''));
  return segment.shown ? `(shown) ${text}` : text;
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

/** The segments that moved the value the most, as a table of two parts. */
function turnLines({ segments, start, valueName, decisive, harmful }: ShownTrace, width: number): string[] {
  if (decisive.length + harmful.length === 0)
    return section(
      'turns',
      start === null ? [] : [`none: ${valueName} stays where it is, the trace is flat`],
    );
  const line = ({ segment, change, sigma, weight }: TurningPoint) => {
    const moved = `${`segment ${segment + 1}`.padEnd(13)}${signed(change).padStart(8)}  σ ${signed(sigma ?? 0)}  `;
    // on a narrow terminal the text says more than a second number
    const left = width < 80 ? moved : `${moved}σ·T ${shortNumber(weight ?? 0).padStart(6)}  `;
    const text = escapeControls((segments[segment]?.text ?? '').trim());
    return left + clipped(text, Math.max(8, width - LABEL - columnsOf(left)));
  };
  return [...section('raised it', decisive.map(line)), ...section('lowered it', harmful.map(line))];
}

/** The completion with its segments shaded, or numbered where there are no colors. */
function textLines({ segments }: TraceRecord, room: number, { isColored, all }: ViewOptions): string[] {
  const lines = segments.flatMap((segment, k) => {
    const [weight = null] = segment.weight;
    const said = segment.shown ? ', shown' : weight === null ? '' : `, ${shortNumber(weight)}`;
    const mark = `[${k + 1}${said}] `;
    const drawn = (line: string) =>
      segment.shown ? dimmed(line, isColored) : shaded(line, segment.shade[0] ?? 0, isColored);
    const most = all ? Number.POSITIVE_INFINITY : SEGMENT_LINES;
    return folded(segment.text.replace(/\n+$/, ''), room - mark.length, most).map(
      (line, n) => `${n === 0 ? mark : ' '.repeat(mark.length)}${drawn(line)}`,
    );
  });
  if (!isColored) return lines;
  const steps = (sign: number) =>
    [1, 2, 3, 4, 5].map((step) => shaded(` ${2 ** step} `, sign * step, isColored)).join('');
  return [`${steps(1)} σ·T of what gets likelier`, `${steps(-1)} less likely; 1 is uniform`, ...lines];
}

/** Lines that fit, the first `most` of them. */
function folded(text: string, room: number, most: number): string[] {
  if (text === '') return [];
  // what cannot be shown is not looked at
  const looked = Number.isFinite(most) ? text.slice(0, most * room * 2) : text;
  const lines = looked
    .replace(/\n+$/, '')
    .split('\n')
    .flatMap((line) => wrapped(escapeControls(line), room));
  if (lines.length <= most && looked.length === text.length) return lines;
  const left = [...text].length - [...lines.slice(0, most).join('')].length;
  const more = plural(Math.max(1, left), 'more character');
  const hints = [`… about ${more} (--all shows them)`, `… ${more} (--all)`, '… (--all)'];
  return [...lines.slice(0, most), hints.find((hint) => hint.length <= room) ?? '…'];
}

/** What is to be said of the differences that a file has, where they are not plainly those of its values. */
export function stepsText(steps: unknown): string | undefined {
  if (steps === 'scaled') return 'scaled by 1 − π, how unsure the policy was of the segment';
  if (steps === 'smoothed') return 'of values smoothed by 1 − π, how unsure the policy was of each segment';
  return undefined;
}
