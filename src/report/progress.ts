// Counts what a run has done and says how fast it goes and how long it will take.

import { count, plural } from '../plural.js';
import type { Log } from './log.js';

/** Running totals of a run. */
export interface Totals {
  readonly traces: number;
  readonly tokens: number;
  readonly rejects: number;
  readonly seconds: number;
}

/** What is still to come. */
export interface Expected {
  /** undefined where nobody has counted them */
  readonly traces: number | undefined;
  /** of the inputs, how much has been read; undefined where they have no known end */
  readonly share: () => number | undefined;
}

/** Tokens that a command writes, counted as they come: a row of the output may take long. */
export class TokenMeter {
  private total = 0;
  private tell: (() => void) | undefined;

  get tokens(): number {
    return this.total;
  }

  add(tokens: number): void {
    this.total += tokens;
    this.tell?.();
  }

  onAdd(tell: () => void): void {
    this.tell = tell;
  }
}

const INTERVAL_MS = 50;

export class Progress {
  private readonly started = performance.now();
  private done = 0;
  private tokens = 0;
  private rejects = 0;
  private reported = Number.NEGATIVE_INFINITY;

  constructor(
    private readonly log: Log,
    private readonly expected: Expected,
    private readonly meter?: TokenMeter,
  ) {
    meter?.onAdd(() => this.report());
  }

  trace(tokens: number): void {
    this.done++;
    this.tokens += tokens;
    this.report();
  }

  reject(): void {
    this.rejects++;
    this.report();
  }

  totals(): Totals {
    const { done: traces, rejects } = this;
    const tokens = this.meter?.tokens ?? this.tokens;
    return { traces, tokens, rejects, seconds: (performance.now() - this.started) / 1000 };
  }

  private report(): void {
    // thousands of rows a second: the line is not made for each
    const now = performance.now();
    if (now - this.reported < INTERVAL_MS) return;
    this.reported = now;
    reportTotals(this.log, this.totals(), this.expected);
  }
}

/** Tells how far a run is, as one line. @param by who does it, where that is not this process alone */
export function reportTotals(
  log: Log,
  { traces, tokens, rejects, seconds }: Totals,
  { traces: expected, share: shareRead }: Expected,
  by = '',
): void {
  const rate = Math.round(tokens / Math.max(seconds, 1e-3));
  // a reject is done as well: the inputs' traces are those that were scored and those that were set aside
  const done = traces + rejects;
  const share = expected === undefined ? shareRead() : Math.min(1, done / Math.max(1, expected));
  const left = share ? Math.max(0, seconds / share - seconds) : undefined;
  const percent = share ? ` (${Math.floor(100 * share)} %)` : '';
  // without a tokenizer nobody counts tokens
  const speed =
    tokens > 0 ? `${count(rate)} tokens/s` : `${count(Math.round(done / Math.max(seconds, 1e-3)))} traces/s`;
  const line = [
    expected === undefined
      ? `${plural(done, 'trace')}${percent}`
      : `${count(done)} of ${plural(expected, 'trace')}${percent}`,
    `${speed}${by}`,
    ...(rejects > 0 ? [`${count(rejects)} rejected`] : []),
    ...(left === undefined ? [] : [`${duration(left)} left`]),
  ].join(' · ');
  log.progress(line, { traces, tokens, rejects, tokens_per_s: rate, eta_s: left });
}

/** Seconds as people say them: 0.4 s, 42 s, 7 min, 3 h 20 min. */
export function duration(seconds: number): string {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
