// Draws the page about a scored file from its numbers and some of its traces.
import { gzipSync } from 'node:zlib';
import { plural } from '../../plural.js';
import { BYTES } from '../../scored.js';
import { KINDS, type Kind } from '../gathered.js';
import { type NamedSigma, signed, type TraceRecord } from '../trace-record.js';
import { html, type Markup, pageDocument, visible } from './html.js';
import { type RunPage, runSections } from './run-page.js';

/** A trace that has a page. */
export interface PageTrace extends TraceRecord {
  /** its number in the file, by which `inspect` finds it */
  readonly row: number;
  readonly kinds: readonly Kind[];
  /** the first is the one in the segments */
  readonly credits: readonly NamedSigma[];
  readonly entropies: Float32Array | null; // (T)
}

/** A trace as it lies in the page: what its list shows, and the rest packed. */
export interface PackedPage {
  readonly head: Pick<PageRecord, 'id' | 'row' | 'reward' | 'status' | 'kinds' | 'tokens'> & {
    /** of its value in one segment */
    readonly rise: number | null;
    readonly fall: number | null;
  };
  /** JSON, gzip, base64 */
  readonly packed: string;
}

/** Points of a line: more than a screen has. */
const POINTS = 2048;

/** What stands in the page for a trace. */
export type PageRecord = ReturnType<typeof pageRecord>;

function pageRecord({ credits, entropies, ...trace }: PageTrace) {
  const tokens = credits[0]?.sigma.length ?? trace.tokens ?? 0;
  const each = Math.max(1, Math.ceil(tokens / POINTS));
  const shown = trace.segments.filter((segment) => segment.shown);
  const T = shown.reduce((left, { from, to }) => left - ((to ?? 0) - (from ?? 0)), tokens);
  // a point for `each` tokens: their highest entropy, and the mean σ·T by credit
  const line = {
    each,
    entropy: entropies && points(entropies, each, (part) => part.reduce((most, x) => Math.max(most, x))),
    weights: credits.map(({ sigma }) =>
      points(sigma, each, (part) => (part.reduce((sum, x) => sum + x, 0) / part.length) * T),
    ),
  };
  return { ...trace, tokens, credits: credits.map(({ name }) => name), line };
}

/** A record compressed, its texts inert: they are most of a page. */
export function packTrace(trace: PageTrace): PackedPage {
  const record = pageRecord(trace);
  const { id, row, reward, status, kinds, tokens, decisive, harmful } = record;
  const packed = gzipSync(JSON.stringify(record, inert), { level: 9 }).toString('base64');
  const [rise, fall] = [short(decisive[0]?.change ?? null), short(harmful[0]?.change ?? null)];
  return { head: { id, row, reward, status, kinds, tokens, rise, fall }, packed };
}

function points(list: Float32Array, each: number, of: (part: Float32Array) => number): number[] {
  return Array.from({ length: Math.ceil(list.length / each) }, (_, k) =>
    Number(of(list.subarray(k * each, (k + 1) * each)).toPrecision(3)),
  );
}

function inert(_: string, value: unknown): unknown {
  return typeof value === 'string' ? visible(value) : typeof value === 'number' ? short(value) : value;
}

/** As many digits as a float32 has, so that it is written as everywhere; what JSON cannot hold (log v̂ of −∞) is null. */
function short(x: number | null): number | null {
  return x === null || !Number.isFinite(x) ? null : Number(x.toPrecision(9));
}

export interface ScoredPage extends Omit<RunPage, 'pages'> {
  readonly title: string;
  readonly traces: readonly PackedPage[];
  /** why there are fewer than were asked for; undefined where there are not */
  readonly fewer: string | undefined;
}

const KIND_NAMES: Readonly<Record<Kind, string>> = {
  harmful: 'largest fall of the value',
  decisive: 'largest rise of the value',
  wrong: 'wrong',
  right: 'right',
};

export function scoredPage(page: ScoredPage): string {
  const { title, traces, valueName } = page;
  const pages = new Map(traces.map(({ head }, n) => [head.id, n]));
  const main = html`<div id="run" class="view">
<h1>${title}</h1>
${runSections({ ...page, pages })}
</div>
<div id="traces" class="view">
<h1>Traces</h1>
${traces.length === 0 ? html`<p>No trace has a page.</p>` : browser(page)}
</div>`;
  const data = { valueName, traces: traces.map(({ packed }) => packed) };
  const nav = html`<a href="#run">Run</a><a href="#traces">Traces</a>`;
  const notice = html`<noscript><p class="notice">Without scripts this page has its numbers, and no traces.</p></noscript>`;
  return pageDocument({ title, nav, notice, main, data });
}

function browser({ traces, fewer }: ScoredPage): Markup {
  return html`<p>${plural(traces.length, 'trace')}: of the right and the wrong some by chance, those whose value rose the most in one segment, and those whose value fell the most.${fewer === undefined ? '' : ` ${fewer}`}</p>
<div class="browser">
<div class="side">
<form role="search" id="filters">
<label for="search">Search in ids and texts</label><input id="search" type="search" autocomplete="off" spellcheck="false">
<label for="kind">Show</label><select id="kind"><option value="">all</option>${KINDS.map((kind) => html`<option value="${kind}">${KIND_NAMES[kind]}</option>`)}</select>
<label for="order">Order</label><select id="order"><option value="row">as in the file</option><option value="fall">largest fall first</option><option value="rise">largest rise first</option></select>
</form>
<p id="found" role="status">${plural(traces.length, 'trace')}</p>
<ul id="list">
${traces.map(({ head }, n) => entry(head, n))}
</ul>
</div>
<article id="trace" aria-live="off"><p class="empty">Choose a trace.</p></article>
</div>`;
}

function entry(
  { id, row, reward, status, kinds, tokens, rise, fall }: PackedPage['head'],
  n: number,
): Markup {
  const sign = reward === null ? 'unknown' : reward > 0.5 ? 'right' : 'wrong';
  const moves = [rise, fall].filter((move) => move !== null).map(signed);
  return html`<li data-n="${n}" data-row="${row}" data-kinds="${kinds.join(' ')}" data-rise="${rise ?? 0}" data-fall="${fall ?? 0}"><a href="#trace-${n}"><span class="id">${id}</span> <span class="tag ${sign}">${sign}</span> <span class="small">${plural(tokens, status.includes(BYTES) ? 'byte' : 'token')} · ${moves.join(' ') || 'flat'} · ${status}</span></a></li>`;
}
