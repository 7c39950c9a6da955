// Draws charts that need no script; colours come from the page's style.
import { html, type Markup } from './html.js';

export interface Axis {
  readonly label: string;
  readonly low: number;
  readonly high: number;
  /** of numbers of things: marked at whole ones alone */
  readonly whole?: boolean;
}

export interface Point {
  readonly x: number;
  readonly y: number;
  /** radius, in the chart's units; 2 where absent */
  readonly size?: number;
}

/** What is drawn; `tone` is a class of the style. */
export type Marks =
  | { readonly as: 'line' | 'dots'; readonly tone: string; readonly points: readonly Point[] }
  | {
      readonly as: 'bars';
      readonly tone: string;
      readonly bars: readonly { from: number; to: number; y: number }[];
    };

/** A dotted line, by which others are seen. */
export function guide(...points: Point[]): Marks {
  return { as: 'line', tone: 'guide', points };
}

export interface Chart {
  /** says what is shown, for who cannot see it */
  readonly title: string;
  readonly x: Axis;
  readonly y: Axis;
  readonly marks: readonly Marks[];
}

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [340, 190, 46, 16, 10, 36];

export function chart({ title, x, y, marks }: Chart): Markup {
  const across = (v: number) => LEFT + (clamped(v, x) - x.low) * ((WIDTH - LEFT - RIGHT) / spread(x));
  const up = (v: number) => HEIGHT - BOTTOM - (clamped(v, y) - y.low) * ((HEIGHT - TOP - BOTTOM) / spread(y));
  return html`<svg class="chart" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${title}">
${marked(y).map(
  ({ at, text }) =>
    html`<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${px(up(at))}" y2="${px(up(at))}"/><text x="${LEFT - 5}" y="${px(up(at) + 4)}" text-anchor="end">${text}</text>`,
)}
${marked(x).map(
  ({ at, text }) =>
    html`<line class="grid" x1="${px(across(at))}" x2="${px(across(at))}" y1="${HEIGHT - BOTTOM}" y2="${HEIGHT - BOTTOM + 4}"/><text x="${px(across(at))}" y="${HEIGHT - BOTTOM + 14}" text-anchor="middle">${text}</text>`,
)}
<text class="label" x="${(LEFT + WIDTH - RIGHT) / 2}" y="${HEIGHT - 5}" text-anchor="middle">${x.label}</text>
<text class="label" x="11" y="${(TOP + HEIGHT - BOTTOM) / 2}" text-anchor="middle" transform="rotate(-90 11 ${(TOP + HEIGHT - BOTTOM) / 2})">${y.label}</text>
${marks.map((each) => drawn(each))}
</svg>`;

  function drawn(each: Marks): Markup {
    if (each.as === 'bars')
      return html`<g class="${each.tone} fill">${each.bars.map(({ from, to, y: top }) => {
        const [left, right] = [across(from), across(to)];
        const height = up(y.low) - up(top);
        return height <= 0
          ? null
          : html`<rect x="${px(left)}" y="${px(up(top))}" width="${px(Math.max(1, right - left - 0.5))}" height="${px(height)}"/>`;
      })}</g>`;
    const points = each.points.filter((p) => Number.isFinite(p.x) && Number.isFinite(p.y));
    if (each.as === 'line')
      return html`<polyline class="${each.tone} stroke" points="${points.map((p) => `${px(across(p.x))},${px(up(p.y))}`).join(' ')}"/>`;
    return html`<g class="${each.tone} fill dots">${points.map((p) => html`<circle cx="${px(across(p.x))}" cy="${px(up(p.y))}" r="${p.size ?? 2}"/>`)}</g>`;
  }
}

/** What the lines of a chart stand for, each behind a piece of it. */
export function legend(keys: readonly { readonly tone: string; readonly text: string }[]): Markup {
  return html`<p class="legend">${keys.map(
    ({ tone, text }) =>
      html`<span class="key"><svg viewBox="0 0 24 8" aria-hidden="true"><line class="${tone} stroke" x1="0" x2="24" y1="4" y2="4"/></svg>${text}</span>`,
  )}</p>`;
}

function clamped(v: number, { low, high }: Axis): number {
  return Math.min(high, Math.max(low, v));
}

function spread({ low, high }: Axis): number {
  return high > low ? high - low : 1;
}

function px(v: number): string {
  return String(Math.round(v * 10) / 10);
}

const STEPS = [1, 2, 5, 10] as const;
/** marks of an axis at most, unless it names its own */
const TICKS = 8;

/** Round numbers between an axis' ends: multiples of 1, 2 or 5 times a power of ten. */
export function roundTicks(low: number, high: number, isWhole = false): number[] {
  if (!(high > low)) return [low];
  const least = (high - low) / (TICKS - 1);
  const power = 10 ** Math.floor(Math.log10(least));
  const step = Math.max(isWhole ? 1 : 0, power * (STEPS.find((n) => n * power >= least * (1 - 1e-9)) ?? 10));
  const first = Math.ceil(low / step - 1e-9);
  const ticks = Array.from(
    { length: Math.floor(high / step + 1e-9) - first + 1 },
    (_, n) => (first + n) * step,
  );
  return ticks.length > 0 ? ticks : [low];
}

/** The axis' marks, each with as many digits as tell it from its neighbours. */
function marked({ low, high, whole }: Axis): { at: number; text: string }[] {
  const places = roundTicks(low, high, whole);
  const texts = [0, 1, 2, 3, 4].map((digits) => places.map((v) => v.toFixed(digits)));
  // a number of few digits is written as it is, others so that no two are alike
  const isTrue = (list: readonly string[]) =>
    list.every((text, n) => Math.abs(Number(text) - (places[n] as number)) <= 1e-9 * (high - low || 1));
  const digits = texts.findIndex(isTrue);
  return places.map((at) => ({ at, text: numeral(at, digits < 0 ? 4 : digits) }));
}

/** With a true minus, and commas where it is long. */
export function numeral(v: number | null, digits = 3): string {
  if (v === null || !Number.isFinite(v)) return '–';
  const [whole = '', rest] = Math.abs(v).toFixed(digits).split('.');
  const text = whole.replace(/\B(?=(\d{3})+$)/g, ',') + (rest === undefined ? '' : `.${rest}`);
  return v < 0 && Number(text.replaceAll(',', '')) !== 0 ? `−${text}` : text;
}
