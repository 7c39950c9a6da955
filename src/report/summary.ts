// What a person wants to read when a run is over: how much, how fast, what fell back, and why traces were rejected.

import { count, plural } from '../plural.js';
import { escapeControls } from '../printable.js';
import type { BadRow } from '../rows.js';
import type { OutputRow } from '../scored.js';
import { type Figures, Tally } from './figures.js';
import { duration, type ProgressTotals } from './progress.js';
import { figureLines, isManyRejected, listCodes, type PolicyFacts, type Warning } from './run-figures.js';

/** A code that rejects have. */
export interface CommonReject {
  readonly code: string;
  readonly count: number;
  /** place and reason of the first one, and its row's number over all inputs */
  readonly first: string;
  readonly ordinal: number;
}

/** Rejects by their codes. */
export class RejectTally {
  private readonly codes = new Map<string, CommonReject>();
  total = 0;

  add({ file, row, ordinal, rejection: { code, reason } }: BadRow): void {
    this.total++;
    const known = this.codes.get(code);
    const first = known?.first ?? `${file}:${row}: ${reason}`;
    this.codes.set(code, { code, count: (known?.count ?? 0) + 1, first, ordinal: known?.ordinal ?? ordinal });
  }

  /** Place and reason of the first one with a code; undefined where this process has met none. */
  firstOf(code: string): string | undefined {
    return this.codes.get(code)?.first;
  }

  /** All codes, the commonest first. */
  get counts(): readonly CommonReject[] {
    return [...this.codes.values()].sort((a, b) => b.count - a.count);
  }
}

/** Gathers a run's closing words. */
export class Summary {
  private readonly tally = new Tally();
  readonly rejects = new RejectTally();

  add(row: OutputRow): void {
    this.tally.add(row);
  }

  reject(reject: BadRow): void {
    this.tally.reject(reject);
    this.rejects.add(reject);
  }

  get figures(): Figures {
    return this.tally.figures;
  }

  /** What is said where more than one trace in twenty was rejected. @param traces of the whole */
  rejectWarning(traces: number): Warning | undefined {
    return rejectWarning(this.tally.figures.rejects, traces, this.rejects);
  }

  /**
   * The lines about the run: its size, what the numbers are worth, and why traces were rejected.
   * @param totals of this attempt
   */
  describe(
    { traces, tokens, seconds }: ProgressTotals,
    policy: PolicyFacts | undefined,
    valueName: string | undefined,
  ): string[] {
    const rate = `${count(Math.round(tokens / Math.max(seconds, 1e-3)))} tokens/s`;
    const size = plural(traces, 'trace') + (tokens > 0 ? `, ${plural(tokens, 'token')}` : '');
    const first = `${size} in ${duration(seconds)}${tokens > 0 ? ` (${rate})` : ''}`;
    return [first, ...this.describeFigures(policy, valueName)];
  }

  /** Those of them about figures and rejects. */
  describeFigures(policy: PolicyFacts | undefined, valueName: string | undefined): string[] {
    const { figures } = this;
    const lines = figureLines(figures, policy, valueName);
    const codes = Object.entries(figures.rejects).sort(([, a], [, b]) => b - a);
    if (codes.length === 0) return lines;
    const rejects = codes.reduce((sum, [, n]) => sum + n, 0);
    lines.push(`rejected: ${count(rejects)}${listCodes(codes)}`);
    for (const [code] of codes.slice(0, SHOWN_REASONS)) {
      const first = this.rejects.firstOf(code);
      if (first !== undefined) lines.push(`  ${onOneLine(first)}`);
    }
    return lines;
  }
}

/** @param rejects by their codes @param reasons place and reason of the first one with a code */
function rejectWarning(
  rejects: Readonly<Record<string, number>>,
  traces: number,
  reasons: Pick<RejectTally, 'firstOf'>,
): Warning | undefined {
  const codes = Object.entries(rejects).sort(([, a], [, b]) => b - a);
  const all = codes.reduce((sum, [, n]) => sum + n, 0);
  const [most] = codes;
  if (most === undefined || !isManyRejected(all, traces)) return undefined;
  const [code, n] = most;
  const first = reasons.firstOf(code);
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
