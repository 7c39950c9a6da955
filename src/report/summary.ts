// What a person wants to read when a run is over: how much, how fast, what fell back, and one trace drawn.

import { type Figures, Tally } from '../figures.js';
import { count, plural } from '../plural.js';
import { escapeControls } from '../printable.js';
import type { BadRow } from '../rows.js';
import { isFallback, type OutputRow } from '../scored.js';
import { duration, type Totals } from './progress.js';
import { figureLines, listCodes, type PolicyFacts } from './run-figures.js';

/** Gathers a run's closing words; holds one trace, never more. */
export class Summary {
  private readonly tally = new Tally();
  private readonly reasons = new Map<string, string>();
  private best: { readonly row: OutputRow; readonly span: number } | undefined;

  /** @param before figures of what earlier attempts have done */
  constructor(before: Iterable<Partial<Figures> | undefined> = []) {
    for (const figures of before) this.tally.include(figures);
  }

  add(row: OutputRow): void {
    this.tally.add(row);
    // a picture of σ that means nothing would mislead
    if (row.status.some(isFallback)) return;
    const span = showsMuch(row);
    if (this.best === undefined || span > this.best.span) this.best = { row, span };
  }

  reject(reject: BadRow): void {
    this.tally.reject(reject);
    const { file, row, rejection } = reject;
    if (!this.reasons.has(rejection.code))
      this.reasons.set(rejection.code, `${file}:${row}: ${rejection.reason}`);
  }

  /** of the whole, earlier attempts included */
  get figures(): Figures {
    return this.tally.figures;
  }

  /** the trace worth drawing; undefined where none has credit */
  get example(): OutputRow | undefined {
    return this.best?.row;
  }

  /** The lines about the run. @param totals of this attempt */
  describe(
    { traces, tokens, seconds }: Totals,
    policy: PolicyFacts | undefined,
    valueName: string | undefined,
  ): string[] {
    const { figures } = this;
    const rate = count(Math.round(tokens / Math.max(seconds, 1e-3)));
    const size = plural(traces, 'trace') + (tokens > 0 ? `, ${plural(tokens, 'token')}` : '');
    const lines = [
      `${size} in ${duration(seconds)}${tokens > 0 ? ` (${rate} tokens/s)` : ''}`,
      ...figureLines(figures, policy, valueName),
    ];
    const codes = Object.entries(figures.rejects).sort(([, a], [, b]) => b - a);
    if (codes.length === 0) return lines;
    const rejects = codes.reduce((sum, [, n]) => sum + n, 0);
    lines.push(`rejected: ${count(rejects)}${listCodes(codes)}`);
    for (const [code] of codes.slice(0, SHOWN_REASONS)) {
      const first = this.reasons.get(code);
      if (first !== undefined) lines.push(`  ${onOneLine(first)}`);
    }
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

/** How far the values travel beyond their largest step; long traces make poor pictures. */
function showsMuch(row: OutputRow): number {
  if (row.segments.length > 14) return -1;
  const steps = row.segments.map((segment) => Math.abs(segment.delta ?? 0));
  return steps.reduce((sum, step) => sum + step, 0) - Math.max(...steps);
}
