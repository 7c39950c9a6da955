// Counts what a run has done, and says how fast it goes and how long it will take.

import { count, plural } from '../plural.js';
import type { Log } from './log.js';

/** Running totals of a run. */
export interface ProgressTotals {
  readonly traces: number;
  readonly tokens: number;
  readonly rejects: number;
  readonly seconds: number;
}

/** What is still to come. */
export interface Expected {
  /** undefined where nobody has counted them */
  readonly traces: number | undefined;
  /** how much of the inputs there is up to a row, by its number over all of them; undefined where they have no known end */
  readonly share: (ordinal: number) => number | undefined;
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

const INTERVAL_MS = 100;

export class Progress {
  private readonly started = performance.now();
  /** how far it was when it was first told: what other attempts have made is passed over at once */
  private first: { readonly seconds: number; readonly share: number } | undefined;
  private done = 0;
  private tokens = 0;
  private rejects = 0;
  /** row of the last trace that was done */
  private ordinal = -1;
  private timer: NodeJS.Timeout | undefined;

  constructor(
    private readonly log: Log,
    private readonly expected: Expected,
    private readonly meter?: TokenMeter,
  ) {
    meter?.onAdd(() => this.report());
  }

  trace(tokens: number, ordinal: number): void {
    this.done++;
    this.tokens += tokens;
    this.ordinal = ordinal;
    this.report();
  }

  reject(ordinal: number): void {
    this.rejects++;
    this.ordinal = ordinal;
    this.report();
  }

  /** Nothing is told any more. */
  end(): void {
    clearTimeout(this.timer);
  }

  totals(): ProgressTotals {
    const { done: traces, rejects } = this;
    const tokens = this.meter?.tokens ?? this.tokens;
    return { traces, tokens, rejects, seconds: (performance.now() - this.started) / 1000 };
  }

  /** Tells how far the run is, as one line, a little later: thousands of rows come in a second, and a window's all at once, of which the first alone says nothing. */
  private report(): void {
    this.timer ??= setTimeout(() => {
      this.timer = undefined;
      this.tell();
    }, INTERVAL_MS).unref();
  }

  private tell(): void {
    const { traces, tokens, rejects, seconds } = this.totals();
    const { traces: expected } = this.expected;
    // of the inputs; undefined where nobody knows
    const read = this.ordinal < 0 ? undefined : this.expected.share(this.ordinal);
    const rate = Math.round(tokens / Math.max(seconds, 1e-3));
    // a reject is done as well: the inputs' traces are those that were scored and those that were rejected
    const done = traces + rejects;
    const counted = expected === undefined ? undefined : Math.min(1, done / Math.max(1, expected));
    const share = counted ?? read;
    // traces take as long as they are
    const left = share === undefined ? undefined : this.left(seconds, read ?? share);
    const percent = share ? ` (${Math.floor(100 * share)} %)` : '';
    // without a tokenizer nobody counts tokens
    const speed =
      tokens > 0
        ? `${count(rate)} tokens/s`
        : `${count(Math.round(done / Math.max(seconds, 1e-3)))} traces/s`;
    const line = [
      expected === undefined
        ? `${plural(done, 'trace')}${percent}`
        : `${count(done)} of ${plural(expected, 'trace')}${percent}`,
      speed,
      ...(rejects > 0 ? [`${count(rejects)} rejected`] : []),
      ...(left === undefined ? [] : [`${duration(left)} left`]),
    ].join(' · ');
    this.log.progress(line, { traces, tokens, rejects, tokens_per_s: rate, share: read, eta_s: left });
  }

  /** Seconds that are left at the pace since it was first told; undefined where nothing tells. */
  private left(seconds: number, share: number): number | undefined {
    this.first ??= { seconds, share };
    const { first } = this;
    if (share <= first.share) return undefined;
    return ((1 - share) * (seconds - first.seconds)) / (share - first.share);
  }
}

/** Seconds as people say them: 0.4 s, 42 s, 7 min, 3 h 20 min. */
export function duration(seconds: number): string {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
