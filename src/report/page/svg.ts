// Numbers in, charts that need no script out; colours come from the page's style.
import { html, type Markup } from './html.js';

export interface Axis {
  readonly label: string;
  readonly low: number;
  readonly high: number;
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

export interface Chart {
  /** says what is shown, for who cannot see it */
  readonly title: string;
  readonly x: Axis;
  readonly y: Axis;
  readonly marks: readonly Marks[];
}

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [340, 190, 46, 10, 10, 36];
/** beyond so many dots a chart shows no more than a cloud */
const DOTS = 4000;

export function chart({ title, x, y, marks }: Chart): Markup {
  const across = (v: number) => LEFT + (clamped(v, x) - x.low) * ((WIDTH - LEFT - RIGHT) / spread(x));
  const up = (v: number) => HEIGHT - BOTTOM - (clamped(v, y) - y.low) * ((HEIGHT - TOP - BOTTOM) / spread(y));
  const ticks = (axis: Axis) => [axis.low, (axis.low + axis.high) / 2, axis.high];
  return html`<svg class="chart" viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${title}">
${ticks(y).map(
  (v) =>
    html`<line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${px(up(v))}" y2="${px(up(v))}"/><text x="${LEFT - 5}" y="${px(up(v) + 4)}" text-anchor="end">${tickText(v, y)}</text>`,
)}
${ticks(x).map(
  (v, n) =>
    html`<text x="${px(across(v))}" y="${HEIGHT - BOTTOM + 14}" text-anchor="${['start', 'middle', 'end'][n]}">${tickText(v, x)}</text>`,
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
    return html`<g class="${each.tone} fill dots">${points
      .slice(0, DOTS)
      .map((p) => html`<circle cx="${px(across(p.x))}" cy="${px(up(p.y))}" r="${p.size ?? 2}"/>`)}</g>`;
  }
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

/** As many digits as tell the axis' ends apart. */
function tickText(v: number, axis: Axis): string {
  const size = Math.max(Math.abs(axis.low), Math.abs(axis.high));
  const digits = size >= 100 ? 0 : spread(axis) >= 10 ? 1 : spread(axis) >= 0.1 ? 2 : 4;
  return numeral(v, digits);
}

/** With a true minus, and commas where it is long. */
export function numeral(v: number | null, digits = 3): string {
  if (v === null || !Number.isFinite(v)) return '–';
  const [whole = '', rest] = Math.abs(v).toFixed(digits).split('.');
  const text = whole.replace(/\B(?=(\d{3})+$)/g, ',') + (rest === undefined ? '' : `.${rest}`);
  return v < 0 && Number(text.replaceAll(',', '')) !== 0 ? `−${text}` : text;
}
