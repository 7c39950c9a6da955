// Draws the sections of a run page from the numbers of a scored file.
import { count, percent, plural, shortNumber } from '../../plural.js';
import { unitOf } from '../counts.js';
import type { Disagreement, FileNumbers, ReliabilityCurve } from '../gathered.js';
import { type FileStats, shownDistributions } from '../numbers-view.js';
import { html, Markup } from './html.js';

/** What is said of how the file was made, by name. */
export type FactRows = readonly (readonly [name: string, text: string])[];

export interface RunPage extends FileStats {
  readonly facts: FactRows;
  /** places in the page of the traces that have one, by id */
  readonly pages: ReadonlyMap<string, number>;
}

export function runSections(page: RunPage): Markup {
  const { numbers, valueName, facts } = page;
  const of = (x: number | null) => (x === null ? '–' : shortNumber(x));
  return html`${overview(page)}
<section aria-labelledby="h-numbers"><h2 id="h-numbers">Values, σ, log p</h2>
<p>A flat trace has a range of ${valueName} near 0; σ that is uniform has as many effective tokens as the trace has tokens, and a gain of 1. A policy that wrote a trace itself has a mean log p of −1 nat a token and above. σ is that of traces whose σ is its rule’s, not uniform by fallback.${numbers.values === null ? ` ${valueName} of this estimator is no expected reward: its level is not compared with the reward.` : ''}</p>
${table(
  ['figure', 'traces, from the smallest to the largest', 'number', '5 %', 'median', '95 %', 'largest'],
  shownDistributions(numbers, valueName).map(({ name, of: { n, bars, p05, median, p95, max } }) => [
    name,
    barsOf(
      bars.map((bar) => bar.n),
      `${name}: ${of(p05)} to ${of(p95)} in nine of ten, largest ${of(max)}`,
    ),
    ...[count(n), of(p05), of(median), of(p95), of(max)],
  ]),
)}
</section>
${calibration(numbers.calibration.value_end, valueName)}
${positions(numbers)}
${disagreements(page)}
<section aria-labelledby="h-run"><h2 id="h-run">What was run</h2>
<table class="facts"><tbody>${facts.map(([name, text]) => html`<tr><th scope="row">${name}</th><td>${text}</td></tr>`)}</tbody></table></section>`;
}

/** Rows under a head, the first cell of each its name. */
function table(head: readonly string[], rows: readonly (readonly (string | Markup)[])[]): Markup {
  return html`<div class="wide" tabindex="0" role="group" aria-label="table"><table>
<thead><tr>${head.map((each) => html`<th scope="col">${each}</th>`)}</tr></thead>
<tbody>${rows.map(([name, ...cells]) => html`<tr><th scope="row">${name}</th>${cells.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table></div>`;
}

const [BAR, HEIGHT] = [8, 32];

/** A bar for each number, upwards from 0 where it is above, else downwards. @param title says what is shown, for who cannot see it */
function barsOf(list: readonly number[], title: string): Markup {
  const high = Math.max(0, ...list);
  const scale = HEIGHT / (high - Math.min(0, ...list) || 1);
  const px = (v: number) => new Markup((Math.round(10 * v) / 10).toString());
  return html`<svg class="bars" viewBox="0 0 ${BAR * list.length} ${HEIGHT}" width="${BAR * list.length}" height="${HEIGHT}" role="img" aria-label="${title}">${list.map(
    (v, k) =>
      html`<rect x="${BAR * k}" y="${px((high - Math.max(0, v)) * scale)}" width="${BAR - 1}" height="${px(Math.abs(v) * scale)}"/>`,
  )}</svg>`;
}

function overview({ numbers, warnings }: RunPage): Markup {
  const { traces, tokens, right, wrong, unknown, credited, below_noise: below } = numbers;
  const share = (n: number) => (credited === 0 ? '–' : percent(n / credited));
  const tiles = [
    ['traces', count(traces)],
    [`${unitOf(numbers)}s`, count(tokens)],
    ['right · wrong · unknown', [right, wrong, unknown].map(count).join(' · ')],
    ['σ uniform by fallback', share(numbers.uniform_by_fallback)],
    ['σ uniform in effect', share(numbers.uniform_in_effect)],
    ...(below === null ? [] : [['segments below the noise', percent(below)]]),
  ];
  const unreadable = Object.entries(numbers.unreadable).map(([code, n]) => [`not readable: ${code}`, n]);
  const codes = [...Object.entries(numbers.status), ...unreadable] as [string, number][];
  return html`<section aria-labelledby="h-overview"><h2 id="h-overview">Overview</h2>
${warnings.length === 0 ? null : html`<ul class="notice">${warnings.map(({ message }) => html`<li>${message}</li>`)}</ul>`}
<dl class="tiles">${tiles.map(([name, text]) => html`<div><dt>${name}</dt><dd>${text}</dd></div>`)}</dl>
${table(
  ['status', 'traces'],
  codes.map(([code, n]) => [code, count(n)]),
)}</section>`;
}

function calibration(curve: ReliabilityCurve | null, name: string): Markup | null {
  const held = curve?.bins.filter(({ n }) => n > 0) ?? [];
  if (curve === null || held.length === 0) return null;
  return html`<section aria-labelledby="h-calibration"><h2 id="h-calibration">Calibration</h2>
<p>${name} at the end of the thought beside the reward, of ${plural(curve.n, 'trace')}: tenths are off by ${shortNumber(curve.error ?? 0)} on average, mean squared error of a trace ${shortNumber(curve.brier ?? 0)}.</p>
${table(
  [`${name} from`, 'traces', `mean ${name}`, 'mean reward'],
  held.map(({ from, n, predicted, reward }) => [
    ...[from.toFixed(1), count(n), shortNumber(predicted ?? 0), shortNumber(reward ?? 0)],
  ]),
)}</section>`;
}

function positions({ positions: found }: FileNumbers): Markup | null {
  const rows = (['right', 'wrong'] as const).flatMap((side) => {
    const list = found[side];
    if (list === null) return [];
    const most = Math.max(...list).toFixed(2);
    return [
      [side, barsOf(list, `Mean weight of a token of ${side} traces by position: up to ${most}`), most],
    ];
  });
  if (rows.length === 0) return null;
  return html`<section aria-labelledby="h-positions"><h2 id="h-positions">Where the credit is</h2>
<p>Mean σ·T of a token, from the beginning of a trace to its end; 1 is uniform.</p>
${table(['traces', 'σ·T by position', 'largest'], rows)}</section>`;
}

function disagreements({ numbers: { label_noise: noise }, valueName, pages }: RunPage): Markup | null {
  if (noise === null) return null;
  const { count: n, of, threshold, traces } = noise;
  const name = ({ id }: Disagreement) =>
    pages.has(id) ? html`<a href="#trace-${pages.get(id)}">${id}</a>` : html`${id}`;
  return html`<section aria-labelledby="h-noise"><h2 id="h-noise">Suspected label noise</h2>
<p>${n === 0 ? `In none of ${plural(of, 'trace')}` : `In ${plural(n, 'trace')} of ${count(of)}`} is ${valueName} ${threshold} or more away from the reward at every exit${n === 0 ? '.' : ': wrong labels are among them, and references that say the answer in other words. Those furthest off:'}</p>
${
  traces.length === 0
    ? null
    : table(
        ['trace', 'row', 'reward', 'smallest distance'],
        traces.map((trace) => [
          name(trace),
          ...[String(trace.row), shortNumber(trace.reward), shortNumber(trace.disagreement)],
        ]),
      )
}</section>`;
}
