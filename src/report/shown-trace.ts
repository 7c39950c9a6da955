// Draws one scored trace for a person: what it was asked, how its value went, which segments turned it, its text and its mates.
import { count, plural } from '../plural.js';
import { escapeControls } from '../printable.js';
import type { OutputRow, SegmentRow } from '../scored.js';
import { advantageOf, shadeOf } from './counted/shade.js';
import { outstanding, type Turn, turnsOf } from './counted/turns.js';
import { shortNumber, signed } from './number.js';
import { ownAnswer } from './own-answer.js';
import { type Depth, shaded } from './shading.js';
import { spark, thinned } from './spark.js';
import { drawTrace } from './trace-view.js';
import { clipped, columnsOf, wrapped } from './wrap.js';

/** Another completion of the prompt. */
export interface Mate {
  readonly id: string;
  readonly row: number;
  readonly reward: number | null;
}

/** A trace, and what is known beside it. */
export interface ShownTrace {
  readonly row: OutputRow;
  /** file and number of the row */
  readonly place: string;
  /** why it is this one; undefined where it was named */
  readonly why: string | undefined;
  /** rules of the file's credits, of which the first is shown; empty where the file does not say */
  readonly credits: readonly string[];
  /** what stands against trusting it */
  readonly warnings: readonly string[];
  readonly prompt: string;
  readonly references: readonly string[];
  readonly mates: readonly Mate[];
  readonly valueName: string;
  /** what is to be said of the differences */
  readonly steps: string | undefined;
  readonly isMagnitude: boolean;
}

export interface ShownOptions {
  readonly depth: Depth;
  /** columns of the terminal */
  readonly width: number;
  /** all segments and whole texts */
  readonly all: boolean;
}

const LABEL = 12;
/** lines of a segment's text, and of another text, unless all are shown */
const SEGMENT_LINES = 3;
const TEXT_LINES = 6;
const MATES = 24;

export function drawShown(shown: ShownTrace, opts: ShownOptions): string[] {
  const { row, place, why, prompt, references, valueName } = shown;
  const { width, all } = opts;
  const room = Math.max(20, width - LABEL);
  const characters = [...row.trace.completion];
  const lines = drawTrace(row, { ...opts, valueName }).split('\n');
  const [head = '', ...table] = lines;
  const own = ownAnswer(row, characters);
  const isScored = row.valueStart !== null || row.segments.some(({ sigma }) => sigma !== null);
  return [
    ...wrapped(head, width),
    ...section(
      '! warning',
      shown.warnings.flatMap((text) => wrapped(escapeControls(text), room)),
    ),
    ...section('row', wrapped(escapeControls(place + (why === undefined ? '' : `: ${why}`)), room)),
    ...section('prompt', folded(prompt, room, all ? Number.POSITIVE_INFINITY : TEXT_LINES)),
    ...section(
      'reference',
      references.flatMap((text) => folded(text, room, TEXT_LINES)),
    ),
    ...section('answer', own === '' ? [] : folded(own, room, all ? Number.POSITIVE_INFINITY : TEXT_LINES)),
    ...section(valueName, curveLines(row, room)),
    ...section('Δ', shown.steps === undefined ? [] : wrapped(shown.steps, room)),
    ...section('σ by', creditLines(shown, room)),
    ...(isScored ? ['', ...table, '', ...turnLines(shown, characters, width)] : []),
    ...section('text', characters.length === 0 ? [] : textLines(row, characters, room, opts)),
    ...section('mates', mateLines(shown, room)),
  ];
}

/** Which of several credits this is. */
function creditLines({ credits: [first, ...others] }: ShownTrace, room: number): string[] {
  if (first === undefined || others.length === 0) return [];
  const text = `${first}; the file also has ${others.join(', ')}, which rredcot report shows beside it`;
  return wrapped(escapeControls(text), room);
}

/** v̂(s_0..K) as blocks: of probabilities from 0 to 1, whatever the trace. */
function curveLines({ valueStart, segments }: OutputRow, room: number): string[] {
  const values = [valueStart, ...segments.filter(({ kind }) => kind === 'thought').map(({ value }) => value)];
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

/** The segments that moved the value the most, as a table of two parts. */
function turnLines(
  { row, isMagnitude, valueName }: ShownTrace,
  characters: readonly string[],
  width: number,
): string[] {
  const { decisive, harmful } = outstanding(turnsOf(row, isMagnitude));
  if (decisive.length + harmful.length === 0)
    return section(
      'turns',
      row.valueStart === null ? [] : [`none: ${valueName} stays where it is, the trace is flat`],
    );
  const line = ({ segment, change, sigma, weight }: Turn) => {
    const moved = `${`segment ${segment + 1}`.padEnd(13)}${signed(change).padStart(8)}  σ ${signed(sigma ?? 0)}  `;
    // on a narrow terminal the text says more than a second number
    const left = width < 80 ? moved : `${moved}σ·T ${shortNumber(weight ?? 0).padStart(6)}  `;
    const text = escapeControls(textOf(characters, row.segments[segment] as SegmentRow).trim());
    return left + clipped(text, Math.max(8, width - LABEL - columnsOf(left)));
  };
  return [...section('raised it', decisive.map(line)), ...section('lowered it', harmful.map(line))];
}

/** The completion with its segments shaded, or numbered where there are no colours. */
function textLines(
  row: OutputRow,
  characters: readonly string[],
  room: number,
  { depth, all }: ShownOptions,
): string[] {
  const advantage = advantageOf(row);
  const tokens = row.segments.at(-1)?.end ?? null;
  const lines = depth === 1 ? [] : legend(depth);
  for (const [k, segment] of row.segments.entries()) {
    const { start, end, sigma } = segment;
    const weight =
      sigma === null || tokens === null || start === null || end === null || end === start
        ? null
        : (sigma * tokens) / (end - start);
    const mark = `[${k + 1}${weight === null ? '' : `, ${shortNumber(weight)}`}] `;
    const text = textOf(characters, segment).replace(/\n+$/, '');
    const shade = shadeOf(weight, advantage);
    const shownText = folded(text, room - mark.length, all ? Number.POSITIVE_INFINITY : SEGMENT_LINES);
    for (const [n, line] of shownText.entries())
      lines.push(`${n === 0 ? mark : ' '.repeat(mark.length)}${shaded(line, shade, depth)}`);
  }
  return lines;
}

function legend(depth: Depth): string[] {
  const steps = [1, 2, 3, 4, 5];
  const side = (sign: number) => steps.map((step) => shaded(` ${2 ** step} `, sign * step, depth)).join('');
  return [`${side(1)} σ·T of what gets likelier`, `${side(-1)} less likely; 1 is uniform`];
}

function mateLines({ mates, row }: ShownTrace, room: number): string[] {
  if (mates.length === 0) return [];
  const rewards = mates.map(({ reward }) => reward).filter((reward) => reward !== null);
  const right = rewards.filter((reward) => reward > 0.5).length;
  const head = `${plural(mates.length, 'other')} of group ${escapeControls(row.trace.group ?? '')}: ${right} right, ${rewards.length - right} wrong`;
  const line = ({ id, row: number, reward }: Mate) =>
    clipped(`${reward === null ? '?' : shortNumber(reward)}  ${escapeControls(id)} (row ${number})`, room);
  const more = mates.length - MATES;
  return [head, ...mates.slice(0, MATES).map(line), ...(more > 0 ? [`… ${count(more)} more`] : [])];
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

function textOf(characters: readonly string[], { charStart, charEnd }: SegmentRow): string {
  return charStart === null || charEnd === null ? '' : characters.slice(charStart, charEnd).join('');
}

/** Lines under a label; none without lines. */
function section(label: string, lines: readonly string[]): string[] {
  return lines.map((line, n) => {
    const name = n === 0 ? label : '';
    return `${name}${' '.repeat(Math.max(1, LABEL - columnsOf(name)))}${line}`.trimEnd();
  });
}
