// A comparison of credits in, the page about it out: what goes with what inside traces, and the segments as points.
import { type ComparedFigure, LASTS } from '../../compare/compare.js';
import type { CreditTable } from '../../compare/credit-table.js';
import { plural } from '../../plural.js';
import type { DrawnComparison } from '../compare-view.js';
import { pageDocument } from './document.js';
import { html, type Markup } from './html.js';
import { type Axis, chart, numeral, type Point } from './svg.js';

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
<p>Pearson’s correlation inside a trace, mean over traces, of the last part of each trace: its last quarter to all of it. Intervals hold 95 % of the resamples of groups.${pairs.length > TONES.length ? ` Drawn are the first ${TONES.length} of ${pairs.length} pairs.` : ''}</p>
${curves(report, pairs)}
${figureTable(report, pairs)}
</section>
<section aria-labelledby="h-points"><h2 id="h-points">Segments</h2>
<p>A point is a thought segment; of many, ${numeral(POINTS, 0)} at even distances. Axes end at the 1st and 99th percentile.</p>
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

function curves(report: DrawnComparison, pairs: readonly Pair[]): Markup {
  const lines = pairs.slice(0, TONES.length).map((pair, n) => {
    const points = LASTS.flatMap((last) => {
      const value = find(report, pair, last)?.value ?? null;
      return value === null ? [] : [{ x: last, y: value, size: 3 }];
    });
    return { pair, tone: TONES[n] as string, points };
  });
  const low = Math.min(0, ...lines.flatMap(({ points }) => points.map(({ y }) => y)));
  return html`<figure class="wide-figure">${chart({
    title: `Pearson inside traces by the last part of each: ${lines.map(({ pair, points }) => `${nameOf(report, pair)} ${points.map(({ y }) => numeral(y, 2)).join(', ')}`).join('; ')}`,
    x: { label: 'last part of the trace', low: 0.25, high: 1 },
    y: { label: 'Pearson', low, high: 1 },
    marks: lines.flatMap(({ tone, points }) => [
      { as: 'line' as const, tone, points },
      { as: 'dots' as const, tone, points },
    ]),
  })}
<p class="quantiles">${lines.map(({ pair, tone }) => html`<span class="key ${tone}">${nameOf(report, pair)}</span> `)}</p></figure>`;
}

function figureTable(report: DrawnComparison, pairs: readonly Pair[]): Markup {
  const cell = (figure: ComparedFigure | undefined) =>
    figure === undefined || figure.value === null
      ? html`<td>–</td>`
      : html`<td>${numeral(figure.value, 2)}${figure.low === null ? null : html` <span class="small">[${numeral(figure.low, 2)}, ${numeral(figure.high, 2)}]</span>`}</td>`;
  return html`<div class="wide" tabindex="0" role="group" aria-label="table"><table><caption>Pearson inside traces</caption><thead><tr><th scope="col">credit</th>${LASTS.map((last) => html`<th scope="col">${last === 1 ? 'all of it' : `last ${last}`}</th>`)}<th scope="col">right traces</th><th scope="col">wrong traces</th></tr></thead>
<tbody>${pairs.map((pair) => html`<tr><th scope="row">${nameOf(report, pair)}</th>${LASTS.map((last) => cell(find(report, pair, last)))}${['right', 'wrong'].map((traces) => cell(find(report, pair, 1, traces)))}</tr>`)}</tbody></table></div>`;
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
  return html`<figure><figcaption>${credit} against ${of}</figcaption>${chart({
    title: `${credit} against ${of}, ${plural(points.length, 'segment')}`,
    x: axisOf(
      of,
      points.map((point) => point.x),
    ),
    y: axisOf(
      credit,
      points.map((point) => point.y),
    ),
    marks: [{ as: 'dots', tone: 'one', points }],
  })}</figure>`;
}

function axisOf(label: string, list: readonly number[]): Axis {
  const sorted = list.toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.floor(share * (sorted.length - 1))] ?? 0;
  return { label, low: at(0.01), high: at(0.99) };
}
