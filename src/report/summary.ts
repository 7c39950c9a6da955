// What a person wants to read when a run is over: how much, how fast, what fell back, and one trace drawn.

import { count, plural } from '../plural.js';
import { escapeControls } from '../printable.js';
import type { BadRow } from '../rows.js';
import type { OutputRow } from '../scored.js';
import { duration, type Totals } from './progress.js';

/** Gathers a run's closing words; holds one trace, never more. */
export class Summary {
  private readonly codes = new Map<string, number>();
  private readonly rejects = new Map<string, { count: number; readonly first: string }>();
  private fallbacks = 0;
  private rows = 0;
  private best: { readonly row: OutputRow; readonly span: number } | undefined;

  add(row: OutputRow): void {
    this.rows++;
    for (const code of row.status) this.codes.set(code, (this.codes.get(code) ?? 0) + 1);
    if (row.status.some(isFallback)) this.fallbacks++;
    const span = showsMuch(row);
    if (this.best === undefined || span > this.best.span) this.best = { row, span };
  }

  reject({ file, row, rejection: { code, reason } }: BadRow): void {
    const known = this.rejects.get(code);
    if (known !== undefined) known.count++;
    else this.rejects.set(code, { count: 1, first: `${file}:${row}: ${reason}` });
  }

  /** share of traces whose σ fell back to uniform */
  get uniform(): number {
    return this.rows === 0 ? 0 : this.fallbacks / this.rows;
  }

  /** the trace worth drawing; undefined where none was scored */
  get example(): OutputRow | undefined {
    return this.best?.row;
  }

  /** The lines about the run. @param hasSigma whether there is σ to speak of */
  describe({ traces, tokens, seconds, rejects }: Totals, hasSigma: boolean): string[] {
    const rate = count(Math.round(tokens / Math.max(seconds, 1e-3)));
    const size = plural(traces, 'trace') + (tokens > 0 ? `, ${plural(tokens, 'token')}` : '');
    const lines = [`${size} in ${duration(seconds)}${tokens > 0 ? ` (${rate} tokens/s)` : ''}`];
    const fallbacks = [...this.codes].filter(([code]) => isFallback(code));
    const others = [...this.codes].filter(([code]) => !isFallback(code));
    if (hasSigma && traces > 0)
      lines.push(`σ uniform by fallback: ${percent(this.uniform)}${listCodes(fallbacks)}`);
    if (others.length > 0) lines.push(`also in status:${listCodes(others)}`);
    if (rejects === 0) return lines;
    const codes = [...this.rejects].sort(([, a], [, b]) => b.count - a.count);
    lines.push(`rejected: ${count(rejects)}${listCodes(codes.map(([code, each]) => [code, each.count]))}`);
    for (const [, { first }] of codes.slice(0, SHOWN_REASONS)) lines.push(`  ${onOneLine(first)}`);
    return lines;
  }
}

/** Of the commonest codes, the first reject's reason is shown. */
const SHOWN_REASONS = 3;
const SHOWN_CHARACTERS = 240;

function onOneLine(text: string): string {
  const line = escapeControls(text.replace(/\s+/g, ' '));
  return line.length <= SHOWN_CHARACTERS ? line : `${line.slice(0, SHOWN_CHARACTERS)} …`;
}

function isFallback(code: string): boolean {
  return code.startsWith('uniform:') || code === 'reward:unknown';
}

/** How far the values travel beyond their largest step; long traces and fallbacks make poor pictures. */
function showsMuch(row: OutputRow): number {
  if (row.status.some(isFallback) || row.segments.length > 14) return -1;
  const steps = row.segments.map((segment) => Math.abs(segment.delta ?? 0));
  return steps.reduce((sum, step) => sum + step, 0) - Math.max(...steps);
}

function listCodes(counts: Iterable<readonly [code: string, n: number]>): string {
  const entries = [...counts].sort(([a], [b]) => (a < b ? -1 : 1)).map(([code, n]) => `${code} ${count(n)}`);
  return entries.length === 0 ? '' : ` (${entries.join(', ')})`;
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}
