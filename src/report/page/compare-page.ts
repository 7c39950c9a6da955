// Draws the page about a comparison of credits: what goes with what inside traces, and the segments as points.
import { type ComparedFigure, LASTS } from '../../compare/compare.js';
import type { CreditTable } from '../../compare/credit-table.js';
import { plural } from '../../plural.js';
import { type DrawnComparison, marked, NOTES } from '../compare-view.js';
import { pageDocument } from './document.js';
import { html, type Markup } from './html.js';
import { type Axis, chart, legend, type Marks, numeral, type Point } from './svg.js';

export interface ComparePage {
  readonly report: DrawnComparison;
  readonly table: CreditTable;
  /** the same as text, as the terminal has it */
  readonly text: string;
}

/** Points of a scatter plot: more than can be told apart. */
const POINTS = 2000;

export function comparePage({ report, table, text }: ComparePage): string {
  const pairs = pairsOf(report);
  const { traces, right, wrong, segments, truth } = report;
  const against = truth === null ? 'each held against each' : `held against ${truth}`;
  const body = html`<a class="skip" href="#main">to the content</a>
<header><strong>rredcot</strong><span class="file">compare</span><nav aria-label="pages"></nav><button type="button" id="theme">Theme: as the system</button></header>
<main id="main"><h1>Credits compared</h1>
<p>${plural(traces, 'trace')} (${right} right, ${wrong} wrong), ${plural(segments, 'thought segment')}; ${against}.</p>
<section aria-labelledby="h-curves"><h2 id="h-curves">How credits go together inside traces</h2>
<p>Pearson’s correlation inside traces, each trace held against its own mean, over the last part of each: its last quarter to all of it. Bars are intervals, which hold 95 % of the resamples of groups; curves stand side by side at each part.${pairs.length > TONES.length ? ` Drawn are the first ${TONES.length} of ${pairs.length} pairs.` : ''}</p>
${curves(report, pairs)}
${figureTable(report, pairs)}
</section>
<section aria-labelledby="h-points"><h2 id="h-points">Segments</h2>
<p>A point is a thought segment; of many, ${numeral(POINTS, 0)} at even distances. Axes end at the 1st and 99th percentile; what lies beyond stands at their ends. Dotted lines are at 0.</p>
<div class="charts">${pairs.map(([of, credit]) => scatter(table, of, credit))}</div>
</section>
<section aria-labelledby="h-all"><h2 id="h-all">As the terminal shows it</h2>
<pre tabindex="0">${text}</pre></section>
</main>`;
  return pageDocument({ title: 'compare · rredcot', body, data: { valueName: '', traces: [] } });
}

type Pair = readonly [of: string, credit: string];

/** Those with a correlation inside traces, in the order of the figures. */
function pairsOf({ figures }: DrawnComparison): Pair[] {
  const found = new Map<string, Pair>();
  for (const { measure, of, credit } of figures)
    if (measure === 'pearson' && of !== 'first_wrong') found.set(JSON.stringify([of, credit]), [of, credit]);
  return [...found.values()];
}

function find(
  { figures }: DrawnComparison,
  [of, credit]: Pair,
  last: number,
  traces = 'all',
): ComparedFigure | undefined {
  return figures.find(
    (f) =>
      f.measure === 'pearson' && f.of === of && f.credit === credit && f.last === last && f.traces === traces,
  );
}

const nameOf = (report: DrawnComparison, [of, credit]: Pair) =>
  report.truth === null ? `${of} ~ ${credit}` : credit;

const TONES = ['one', 'minus', 'third', 'fourth', 'fifth', 'sixth'];
/** between neighbours of one part, so that equal curves are seen both */
const APART = 0.014;

function curves(report: DrawnComparison, pairs: readonly Pair[]): Markup {
  const drawn = pairs.slice(0, TONES.length);
  const lines = drawn.map((pair, n) => {
    const aside = APART * (n - (drawn.length - 1) / 2);
    const found = LASTS.flatMap((last) => {
      const figure = find(report, pair, last);
      return figure === undefined || figure.value === null
        ? []
        : [{ x: last + aside, ...figure, y: figure.value }];
    });
    const ranges = found.flatMap(({ x, low, high }) =>
      low === null || high === null ? [] : [{ x, low, high }],
    );
    const points = found.map(({ x, y }) => ({ x, y, size: 3 }));
    return { pair, tone: TONES[n] as string, points, ranges };
  });
  const ends = lines.flatMap(({ points, ranges }) => [
    ...points.map(({ y }) => y),
    ...ranges.map(({ low }) => low),
  ]);
  const low = Math.min(0, ...ends);
  return html`<figure class="wide-figure">${chart({
    title: `Pearson inside traces by the last part of each: ${lines.map(({ pair, points }) => `${nameOf(report, pair)} ${points.map(({ y }) => numeral(y, 2)).join(', ')}`).join('; ')}`,
    x: { label: 'last part of the trace', low: 0.2, high: 1.05, ticks: LASTS },
    y: { label: 'Pearson', low: Math.floor(5 * low) / 5, high: 1 },
    marks: lines.flatMap(({ tone, points, ranges }) => [
      { as: 'ranges' as const, tone, ranges },
      { as: 'line' as const, tone, points },
      { as: 'dots' as const, tone, points },
    ]),
  })}
${legend(lines.map(({ pair, tone }) => ({ tone, text: nameOf(report, pair) })))}</figure>`;
}

function figureTable(report: DrawnComparison, pairs: readonly Pair[]): Markup {
  const codes = new Set<string>();
  const cell = (figure: ComparedFigure | undefined) => {
    if (figure !== undefined && marked(figure)) for (const code of figure.notes) codes.add(code);
    const flag =
      figure !== undefined && marked(figure) ? html`<abbr title="${figure.notes.join(', ')}">*</abbr>` : null;
    return figure === undefined || figure.value === null
      ? html`<td>–${flag}</td>`
      : html`<td>${numeral(figure.value, 2)}${figure.low === null ? null : html` <span class="small">[${numeral(figure.low, 2)}, ${numeral(figure.high, 2)}]</span>`}${flag}</td>`;
  };
  const rows = pairs.map(
    (pair) =>
      html`<tr><th scope="row">${nameOf(report, pair)}</th>${LASTS.map((last) => cell(find(report, pair, last)))}${['right', 'wrong'].map((traces) => cell(find(report, pair, 1, traces)))}</tr>`,
  );
  return html`<div class="wide" tabindex="0" role="group" aria-label="table"><table><caption>Pearson inside traces</caption><thead><tr><th scope="col">credit</th>${LASTS.map((last) => html`<th scope="col">${last === 1 ? 'all of it' : `last ${last}`}</th>`)}<th scope="col">right traces</th><th scope="col">wrong traces</th></tr></thead>
<tbody>${rows}</tbody></table></div>
${Object.entries(NOTES).map(([code, meaning]) => (codes.has(code) ? html`<p class="small">* ${code}: ${meaning}</p>` : null))}`;
}

function scatter({ credits }: CreditTable, of: string, credit: string): Markup | null {
  const [x, y] = [of, credit].map((name) => credits.find((each) => each.name === name)?.values);
  if (x === undefined || y === undefined) return null;
  const known: Point[] = [];
  for (let k = 0; k < x.length; k++) {
    const point = { x: x[k] as number, y: y[k] as number };
    if (Number.isFinite(point.x) && Number.isFinite(point.y)) known.push(point);
  }
  const step = Math.max(1, known.length / POINTS);
  const points = Array.from(
    { length: Math.floor(known.length / step) },
    (_, n) => known[Math.floor(n * step)] as Point,
  );
  const axes = {
    x: axisOf(
      of,
      points.map((point) => point.x),
    ),
    y: axisOf(
      credit,
      points.map((point) => point.y),
    ),
  };
  return html`<figure><figcaption>${credit} against ${of}</figcaption>${chart({
    title: `${credit} against ${of}, ${plural(points.length, 'segment')}`,
    ...axes,
    marks: [...zeros(axes), { as: 'dots', tone: 'one', points }],
  })}</figure>`;
}

/** Lines at 0, where an axis passes it. */
function zeros({ x, y }: { readonly x: Axis; readonly y: Axis }): Marks[] {
  const passes = ({ low, high }: Axis) => low < 0 && high > 0;
  const line = (...points: Point[]): Marks => ({ as: 'line', tone: 'guide', points });
  return [
    ...(passes(x) ? [line({ x: 0, y: y.low }, { x: 0, y: y.high })] : []),
    ...(passes(y) ? [line({ x: x.low, y: 0 }, { x: x.high, y: 0 })] : []),
  ];
}

function axisOf(label: string, list: readonly number[]): Axis {
  const sorted = list.toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.floor(share * (sorted.length - 1))] ?? 0;
  return { label, low: at(0.01), high: at(0.99) };
}
