// Draws the page about a comparison of credits: what goes with what inside traces, and the segments as points.
import { type ComparedFigure, LASTS } from '../../compare/compare.js';
import type { CreditTable } from '../../compare/credit-table.js';
import { plural } from '../../plural.js';
import {
  type CreditPair,
  type DrawnComparison,
  marked,
  marksText,
  pairsOf,
  sizesText,
} from '../compare-view.js';
import { html, type Markup, pageDocument } from './html.js';
import { type Axis, chart, guide, legend, type Marks, numeral, type Point } from './svg.js';

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
  const against = report.truth === null ? 'each held against each' : `held against ${report.truth}`;
  const main = html`<h1>Credits compared</h1>
<p>${sizesText(report)}; ${against}.</p>
<section aria-labelledby="h-curves"><h2 id="h-curves">How credits go together inside traces</h2>
<p>Pearson’s correlation inside traces, each trace held against its own mean, over the last part of each: its last quarter to all of it. Bars are intervals, which hold 95 % of the resamples of groups; curves stand side by side at each part.${pairs.length > TONES.length ? ` Drawn are the first ${TONES.length} of ${pairs.length} pairs.` : ''}</p>
${curves(pairs)}
${figureTable(pairs)}
</section>
<section aria-labelledby="h-points"><h2 id="h-points">Segments</h2>
<p>A point is a thought segment; of many, ${numeral(POINTS, 0)} at even distances. Axes end at the 1st and 99th percentile; what lies beyond stands at their ends. Dotted lines are at 0.</p>
<div class="charts">${pairs.map(({ of, credit }) => scatter(table, of, credit))}</div>
</section>
<section aria-labelledby="h-all"><h2 id="h-all">As the terminal shows it</h2>
<pre tabindex="0">${text}</pre></section>`;
  return pageDocument({ title: 'compare', main, data: { valueName: '', traces: [] } });
}

const TONES = ['one', 'minus', 'third', 'fourth', 'fifth', 'sixth'];
/** between neighbours of one part, so that equal curves are seen both */
const APART = 0.014;

function curves(pairs: readonly CreditPair[]): Markup {
  const drawn = pairs.slice(0, TONES.length);
  const lines = drawn.map(({ name, at }, n) => {
    const aside = APART * (n - (drawn.length - 1) / 2);
    const found = LASTS.flatMap((last) => {
      const figure = at('pearson', 'all', last);
      return figure === undefined || figure.value === null
        ? []
        : [{ x: last + aside, ...figure, y: figure.value }];
    });
    const ranges = found.flatMap(({ x, low, high }) =>
      low === null || high === null ? [] : [{ x, low, high }],
    );
    const points = found.map(({ x, y }) => ({ x, y, size: 3 }));
    return { name, tone: TONES[n] as string, points, ranges };
  });
  const ends = lines.flatMap(({ points, ranges }) => [
    ...points.map(({ y }) => y),
    ...ranges.map(({ low }) => low),
  ]);
  const low = Math.min(0, ...ends);
  return html`<figure class="wide-figure">${chart({
    title: `Pearson inside traces by the last part of each: ${lines.map(({ name, points }) => `${name} ${points.map(({ y }) => numeral(y, 2)).join(', ')}`).join('; ')}`,
    x: { label: 'last part of the trace', low: 0.2, high: 1.05, ticks: LASTS },
    y: { label: 'Pearson', low: Math.floor(5 * low) / 5, high: 1 },
    marks: lines.flatMap(({ tone, points, ranges }) => [
      { as: 'ranges' as const, tone, ranges },
      { as: 'line' as const, tone, points },
      { as: 'dots' as const, tone, points },
    ]),
  })}
${legend(lines.map(({ name, tone }) => ({ tone, text: name })))}</figure>`;
}

function figureTable(pairs: readonly CreditPair[]): Markup {
  const drawn: ComparedFigure[] = [];
  const cell = (figure: ComparedFigure | undefined) => {
    if (figure === undefined) return html`<td>–</td>`;
    drawn.push(figure);
    const { value, low, high, notes } = figure;
    const flag = marked(figure) ? html`<abbr title="${notes.join(', ')}">*</abbr>` : null;
    return value === null
      ? html`<td>–${flag}</td>`
      : html`<td>${numeral(value, 2)}${low === null ? null : html` <span class="small">[${numeral(low, 2)}, ${numeral(high, 2)}]</span>`}${flag}</td>`;
  };
  const rows = pairs.map(
    ({ name, at }) =>
      html`<tr><th scope="row">${name}</th>${LASTS.map((last) => cell(at('pearson', 'all', last)))}${(['right', 'wrong'] as const).map((traces) => cell(at('pearson', traces)))}</tr>`,
  );
  return html`<div class="wide" tabindex="0" role="group" aria-label="table"><table><caption>Pearson inside traces</caption><thead><tr><th scope="col">credit</th>${LASTS.map((last) => html`<th scope="col">${last === 1 ? 'all of it' : `last ${last}`}</th>`)}<th scope="col">right traces</th><th scope="col">wrong traces</th></tr></thead>
<tbody>${rows}</tbody></table></div>
${marksText(drawn).map((text) => html`<p class="small">${text}</p>`)}`;
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
  return [
    ...(passes(x) ? [guide({ x: 0, y: y.low }, { x: 0, y: y.high })] : []),
    ...(passes(y) ? [guide({ x: x.low, y: 0 }, { x: x.high, y: 0 })] : []),
  ];
}

function axisOf(label: string, list: readonly number[]): Axis {
  const sorted = list.toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.floor(share * (sorted.length - 1))] ?? 0;
  return { label, low: at(0.01), high: at(0.99) };
}
