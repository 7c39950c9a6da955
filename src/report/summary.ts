// What a person wants to read when a run is over: how much, how fast, what fell back, and one trace drawn.

import { type Figures, Tally } from '../figures.js';
import { count, plural } from '../plural.js';
import { escapeControls } from '../printable.js';
import type { BadRow } from '../rows.js';
import { isFallback, type OutputRow } from '../scored.js';
import { duration, type Totals } from './progress.js';
import { figureLines, isManyRejected, listCodes, type PolicyFacts, type Warning } from './run-figures.js';
import type { DrawnTrace } from './trace-view.js';

/** A trace worth drawing, with its place among the inputs' rows. */
interface Example {
  readonly row: DrawnTrace;
  readonly ordinal: number;
  /** how far its values travel */
  readonly span: number;
}

/** Where a code of rejects was met first, and why. */
interface Reason {
  readonly ordinal: number;
  readonly text: string;
}

/** What one process has met of a run that several share: plain values, which a message carries. */
export interface SummaryPart {
  readonly example?: Example | undefined;
  readonly reasons: readonly (readonly [code: string, reason: Reason])[];
}

/** Gathers a run's closing words; holds one trace, never more. */
export class Summary {
  private readonly tally = new Tally();
  private readonly reasons = new Map<string, Reason>();
  private best: Example | undefined;

  /** @param before figures of what earlier attempts have done */
  constructor(before: Iterable<Partial<Figures> | undefined> = []) {
    for (const figures of before) this.tally.include(figures);
  }

  add(row: OutputRow): void {
    this.tally.add(row);
    // a picture of σ that means nothing would mislead
    if (row.status.some(isFallback)) return;
    this.propose({ row, ordinal: row.trace.source.ordinal, span: showsMuch(row) });
  }

  reject(reject: BadRow): void {
    this.tally.reject(reject);
    const { file, row, ordinal, rejection } = reject;
    this.explain(rejection.code, { ordinal, text: `${file}:${row}: ${rejection.reason}` });
  }

  /** Takes in what another process has met; figures go by the records of its chunks. */
  include({ example, reasons }: SummaryPart): void {
    if (example !== undefined) this.propose(example);
    for (const [code, reason] of reasons) this.explain(code, reason);
  }

  /** What it has met, for the process that sums up. */
  get part(): SummaryPart {
    if (this.best === undefined) return { reasons: [...this.reasons] };
    const { row, ordinal, span } = this.best;
    const { segments, valueStart, reward, baseline, status } = row;
    const { id, completion } = row.trace;
    const drawn = { trace: { id, completion }, segments, valueStart, reward, baseline, status };
    return { example: { row: drawn, ordinal, span }, reasons: [...this.reasons] };
  }

  /** The first of the best, in the order of the inputs. */
  private propose(found: Example): void {
    const { best } = this;
    const isBetter = best === undefined || found.span > best.span;
    if (isBetter || (found.span === best.span && found.ordinal < best.ordinal)) this.best = found;
  }

  private explain(code: string, reason: Reason): void {
    const known = this.reasons.get(code);
    if (known === undefined || reason.ordinal < known.ordinal) this.reasons.set(code, reason);
  }

  /** of the whole, earlier attempts included */
  get figures(): Figures {
    return this.tally.figures;
  }

  /** the trace worth drawing; undefined where none has credit */
  get example(): DrawnTrace | undefined {
    return this.best?.row;
  }

  /** What is said where more than one trace in twenty was rejected. @param traces of the whole */
  rejectWarning(traces: number): Warning | undefined {
    return rejectWarning(this.tally.figures.rejects, traces, (code) => this.reasons.get(code)?.text);
  }

  /** The lines about the run. @param totals of this attempt */
  describe(
    { traces, tokens, seconds }: Totals,
    policy: PolicyFacts | undefined,
    valueName: string | undefined,
  ): string[] {
    const rate = count(Math.round(tokens / Math.max(seconds, 1e-3)));
    const size = plural(traces, 'trace') + (tokens > 0 ? `, ${plural(tokens, 'token')}` : '');
    const first = `${size} in ${duration(seconds)}${tokens > 0 ? ` (${rate} tokens/s)` : ''}`;
    return [first, ...this.describeFigures(policy, valueName)];
  }

  /** Those of them that say what the numbers are worth, and why traces were rejected. */
  describeFigures(policy: PolicyFacts | undefined, valueName: string | undefined): string[] {
    const { figures } = this;
    const lines = figureLines(figures, policy, valueName);
    const codes = Object.entries(figures.rejects).sort(([, a], [, b]) => b - a);
    if (codes.length === 0) return lines;
    const rejects = codes.reduce((sum, [, n]) => sum + n, 0);
    lines.push(`rejected: ${count(rejects)}${listCodes(codes)}`);
    for (const [code] of codes.slice(0, SHOWN_REASONS)) {
      const first = this.reasons.get(code);
      if (first !== undefined) lines.push(`  ${onOneLine(first.text)}`);
    }
    return lines;
  }
}

/** @param rejects by their codes @param reasonOf place and reason of the first one with a code */
export function rejectWarning(
  rejects: Readonly<Record<string, number>>,
  traces: number,
  reasonOf: (code: string) => string | undefined,
): Warning | undefined {
  const codes = Object.entries(rejects).sort(([, a], [, b]) => b - a);
  const all = codes.reduce((sum, [, n]) => sum + n, 0);
  const [most] = codes;
  if (most === undefined || !isManyRejected(all, traces)) return undefined;
  const [code, n] = most;
  const first = reasonOf(code);
  const why = first === undefined ? '' : `, first ${onOneLine(first)}`;
  return {
    code: 'many_rejected',
    message: `${count(all)} of ${plural(all + traces, 'trace')} were rejected, most of them (${count(n)}) with ${code}${why}`,
  };
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
