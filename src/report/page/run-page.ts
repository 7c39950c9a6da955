// Draws the sections of a run page from the numbers of a scored file.
import { plural } from '../../plural.js';
import type { Distribution, ReliabilityCurve } from '../gathered.js';
import type { Disagreement, RunNumbers } from '../run-counts.js';
import type { RunStats } from '../warnings.js';
import { html, type Markup } from './html.js';
import { chart, guide, legend, numeral } from './svg.js';

/** What is said of how the file was made, by name. */
export type FactRows = readonly (readonly [name: string, text: string])[];

export interface RunPage extends RunStats {
  readonly facts: FactRows;
  /** places in the page of the traces that have one, by id */
  readonly pages: ReadonlyMap<string, number>;
}

export function runSections(page: RunPage): Markup {
  const { numbers, valueName } = page;
  const { distributions: of } = numbers;
  return html`${overview(page)}
<section aria-labelledby="h-values"><h2 id="h-values">Values</h2>
${numbers.values === null ? html`<p>${valueName} of this estimator is no expected reward: its level is not held against the reward.</p>` : levels(numbers.values, valueName)}
<div class="charts">
${figure(`Range of ${valueName} in a trace`, of.value_range, 'largest less smallest value; near 0 is a flat trace')}
${reliability(`Calibration of ${valueName} at the end of the thought`, numbers.calibration.value_end, valueName)}
</div></section>
<section aria-labelledby="h-sigma"><h2 id="h-sigma">σ</h2>
<p>Of traces whose σ is its rule’s, not uniform by fallback.</p>
<div class="charts">
${figure('Effective share of tokens', of.sigma_ess_share, '1/Σσ² over T: 1 is uniform, near 0 is few tokens')}
${figure('Effective tokens', of.sigma_ess, '1/Σσ²')}
${figure('Largest weight', of.sigma_max_weight, 'the largest |σ·T| of a trace')}
${figure('Gain of the gradient', of.sigma_gain, 'Σ σ·T·(1 − p) / Σ (1 − p): 1 is uniform')}
${positions(numbers)}
</div></section>
<section aria-labelledby="h-policy"><h2 id="h-policy">Did this policy write these traces?</h2>
<p>A policy that wrote a trace itself finds its tokens likely: a mean log p of −1 nat a token and above. Far below stand traces of another one.</p>
<div class="charts">
${figure('Mean log p a token', of.mean_logprob, 'nats')}
${figure('Mean entropy a token', of.mean_entropy, 'nats')}
</div></section>
<section aria-labelledby="h-segments"><h2 id="h-segments">Segments</h2>
<div class="charts">
${figure('Thought segments a trace', of.segments, '')}
${figure('Tokens a segment', of.segment_tokens, '')}
${figure('Tokens a trace', of.tokens, '')}
</div></section>
${disagreements(page)}
<section aria-labelledby="h-run"><h2 id="h-run">What was run</h2>
<table class="facts"><tbody>${page.facts.map(([name, text]) => html`<tr><th scope="row">${name}</th><td>${text}</td></tr>`)}</tbody></table></section>`;
}

function overview({ numbers, warnings, throughput }: RunPage): Markup {
  const { traces, tokens, right, wrong, unknown, credited } = numbers;
  const unreadable = Object.entries(numbers.unreadable);
  const share = (n: number) => (credited === 0 ? '–' : `${numeral((100 * n) / credited, 1)} %`);
  return html`<section aria-labelledby="h-overview"><h2 id="h-overview">Overview</h2>
${warnings.length === 0 ? null : html`<ul class="notice">${warnings.map(({ text }) => html`<li>${text}</li>`)}</ul>`}
<dl class="tiles">
<div><dt>traces</dt><dd>${numeral(traces, 0)}</dd></div>
<div><dt>tokens</dt><dd>${numeral(tokens, 0)}</dd></div>
<div><dt>right · wrong · unknown</dt><dd>${numeral(right, 0)} · ${numeral(wrong, 0)} · ${numeral(unknown, 0)}</dd></div>
<div><dt>σ uniform by fallback</dt><dd>${share(numbers.uniform_by_fallback)}</dd></div>
<div><dt>σ uniform in effect</dt><dd>${share(numbers.uniform_in_effect)}</dd></div>
${throughput === undefined ? null : html`<div><dt>throughput</dt><dd>${numeral(throughput.tokens / Math.max(throughput.seconds, 1e-3), 0)} tokens/s</dd></div>`}
</dl>
<table><caption>Rows by status</caption><thead><tr><th scope="col">status</th><th scope="col">traces</th></tr></thead><tbody>
${Object.entries(numbers.status).map(([code, n]) => html`<tr><th scope="row"><code>${code}</code></th><td>${numeral(n, 0)}</td></tr>`)}
${unreadable.map(([code, n]) => html`<tr><th scope="row">not readable: <code>${code}</code></th><td>${numeral(n, 0)}</td></tr>`)}
</tbody></table></section>`;
}

function levels({ right, wrong }: NonNullable<RunNumbers['values']>, name: string): Markup {
  const row = (title: string, of: Distribution) =>
    html`<tr><th scope="row">${title}</th><td>${numeral(of.n, 0)}</td>${[of.mean, of.p05, of.p25, of.median, of.p75, of.p95].map((v) => html`<td>${numeral(v)}</td>`)}</tr>`;
  return html`<div class="wide" tabindex="0" role="group" aria-label="table"><table><caption>${name} at the start and the end, by reward</caption>
<thead><tr><th scope="col">traces</th><th scope="col">number</th><th scope="col">mean</th><th scope="col">5 %</th><th scope="col">25 %</th><th scope="col">median</th><th scope="col">75 %</th><th scope="col">95 %</th></tr></thead>
<tbody>${row('right, start', right.start)}${row('right, end', right.end)}${row('wrong, start', wrong.start)}${row('wrong, end', wrong.end)}</tbody></table></div>`;
}

/** A distribution as bars, with its numbers under it. */
export function figure(title: string, of: Distribution, note: string): Markup {
  if (of.n === 0)
    return html`<figure><figcaption>${title}</figcaption><p class="empty">nothing known</p></figure>`;
  const most = of.bars.reduce((top, { n }) => Math.max(top, n), 0);
  const low = of.bars[0]?.from as number;
  const last = of.bars.at(-1)?.from as number;
  const width = of.bars.length > 1 ? last - (of.bars.at(-2)?.from as number) : Math.abs(low) || 1;
  const isWhole = Number.isInteger(of.min) && Number.isInteger(of.max) && (of.max as number) > 1;
  const digits = isWhole ? 0 : Math.abs(of.max ?? 0) >= 10 ? 1 : 3;
  const bars = of.bars.map(({ from, n }) => ({ from, to: from + width, y: n }));
  return html`<figure><figcaption>${title}</figcaption>
${chart({
  title: `${title}: median ${numeral(of.median, digits)}, 5 to 95 % of ${numeral(of.n, 0)} from ${numeral(of.p05, digits)} to ${numeral(of.p95, digits)}`,
  x: { label: note, low, high: last + width, whole: isWhole },
  y: { label: 'count', low: 0, high: most, whole: true },
  marks: [{ as: 'bars', tone: 'one', bars }],
})}
<p class="quantiles">5 % ${numeral(of.p05, digits)} · median <b>${numeral(of.median, digits)}</b> · 95 % ${numeral(of.p95, digits)} · largest ${numeral(of.max, digits)}</p></figure>`;
}

function reliability(title: string, curve: ReliabilityCurve | null, name: string): Markup | null {
  if (curve === null) return null;
  if (curve.n === 0)
    return html`<figure><figcaption>${title}</figcaption><p class="empty">no trace with both</p></figure>`;
  const held = curve.bins.filter(({ n }) => n > 0);
  const points = held.map(({ predicted, reward, n }) => ({
    x: predicted as number,
    y: reward as number,
    size: 2 + 6 * Math.sqrt(n / curve.n),
  }));
  return html`<figure><figcaption>${title}</figcaption>
${chart({
  title: `${title}: mean reward against ${name} in ten bins, on average ${numeral(curve.error, 2)} apart`,
  x: { label: name, low: 0, high: 1 },
  y: { label: 'mean reward', low: 0, high: 1 },
  marks: [
    guide({ x: 0, y: 0 }, { x: 1, y: 1 }),
    { as: 'line', tone: 'one', points },
    { as: 'dots', tone: 'one', points },
  ],
})}
<p class="quantiles">${plural(curve.n, 'trace')} · tenths off by <b>${numeral(curve.error)}</b> on average · mean squared error of a trace ${numeral(curve.brier)}</p>
<details><summary>numbers</summary><table><thead><tr><th scope="col">from</th><th scope="col">traces</th><th scope="col">predicted</th><th scope="col">reward</th></tr></thead>
<tbody>${held.map((bin) => html`<tr><th scope="row">${numeral(bin.from, 1)}</th><td>${numeral(bin.n, 0)}</td><td>${numeral(bin.predicted)}</td><td>${numeral(bin.reward)}</td></tr>`)}</tbody></table></details></figure>`;
}

function positions({ positions: { right, wrong } }: RunNumbers): Markup {
  const all = [...(right ?? []), ...(wrong ?? [])];
  if (all.length === 0)
    return html`<figure><figcaption>σ·T by position</figcaption><p class="empty">no trace with a credit of its rule</p></figure>`;
  const low = Math.min(0, ...all);
  const high = Math.max(1.5, ...all);
  const line = (tone: string, list: readonly number[] | null) =>
    list === null
      ? []
      : [
          {
            as: 'line' as const,
            tone,
            points: list.map((y, k) => ({ x: (100 * (k + 0.5)) / list.length, y })),
          },
        ];
  const n = (right ?? wrong ?? []).length;
  return html`<figure><figcaption>Mean σ·T by position in the trace</figcaption>
${chart({
  title: 'Mean weight of a token, by its position in the trace; 1 is uniform',
  x: { label: '% of the trace', low: 0, high: 100 },
  y: { label: 'σ·T', low, high },
  marks: [guide({ x: 0, y: 1 }, { x: 100, y: 1 }), ...line('plus', right), ...line('minus', wrong)],
})}
${legend([
  { tone: 'plus', text: 'right traces' },
  { tone: 'minus', text: 'wrong traces' },
  { tone: 'guide', text: '1, uniform' },
])}
<details><summary>numbers</summary><table><thead><tr><th scope="col">from %</th><th scope="col">right</th><th scope="col">wrong</th></tr></thead>
<tbody>${Array.from({ length: n }, (_, k) => html`<tr><th scope="row">${(100 * k) / n}</th><td>${numeral(right?.[k] ?? null, 2)}</td><td>${numeral(wrong?.[k] ?? null, 2)}</td></tr>`)}</tbody></table></details></figure>`;
}

function disagreements({ numbers: { label_noise: noise }, valueName, pages }: RunPage): Markup | null {
  if (noise === null) return null;
  const { count, of, threshold, traces } = noise;
  const name = ({ id }: Disagreement) =>
    pages.has(id) ? html`<a href="#trace-${pages.get(id)}">${id}</a>` : html`${id}`;
  return html`<section aria-labelledby="h-noise"><h2 id="h-noise">Suspected label noise</h2>
<p>${count === 0 ? html`In none of ${plural(of, 'trace')}` : html`In ${plural(count, 'trace')} of ${numeral(of, 0)}`} is ${valueName} ${threshold} or more away from the reward at every exit${count === 0 ? '.' : ': wrong labels are among them, and references that say the answer in other words.'}</p>
${
  traces.length === 0
    ? null
    : html`<table><caption>The ${plural(traces.length, 'trace')} furthest off</caption><thead><tr><th scope="col">trace</th><th scope="col">row</th><th scope="col">reward</th><th scope="col">smallest distance</th></tr></thead>
<tbody>${traces.map((trace) => html`<tr><th scope="row">${name(trace)}</th><td>${trace.row}</td><td>${numeral(trace.reward, 2)}</td><td>${numeral(trace.disagreement)}</td></tr>`)}</tbody></table>`
}</section>`;
}
