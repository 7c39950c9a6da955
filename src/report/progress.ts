// Counts what a run has done, and says how fast it goes and how long it will take.

import { count, duration, plural } from '../plural.js';
import type { Log } from './log.js';

/** Running totals of a run. */
export interface ProgressTotals {
  readonly traces: number;
  readonly tokens: number;
  readonly rejects: number;
  readonly seconds: number;
  readonly tokens_per_s: number;
}

/** What is still to come. */
export interface Expected {
  /** undefined where nobody has counted them */
  readonly traces: number | undefined;
  /** how much of the inputs there is up to a row, by its number over all of them; undefined where they have no known end */
  readonly share: (ordinal: number) => number | undefined;
}

const INTERVAL_MS = 100;

/**
 * Counts what is done, and tells how far the run is, as one line, a little later: thousands of rows come in a second, and a window's all at
 * once, of which the first alone says nothing. @param began when the run did, from which on its totals count
 */
export function openProgress(log: Log, expected: Expected, began = performance.now()) {
  const started = performance.now();
  const counted = { traces: 0, tokens: 0, rejects: 0 };
  /** row of the last trace that was done */
  let last = -1;
  /** how far it was when it was first told: what other attempts have made is passed over at once */
  let first: { readonly seconds: number; readonly share: number } | undefined;
  let timer: NodeJS.Timeout | undefined;

  function totals(then = began): ProgressTotals {
    const seconds = (performance.now() - then) / 1000;
    return { ...counted, seconds, tokens_per_s: Math.round(counted.tokens / Math.max(seconds, 1e-3)) };
  }

  function tell(): void {
    timer = undefined;
    const { traces, tokens, rejects, seconds, tokens_per_s } = totals(started);
    // of the inputs; undefined where nobody knows
    const read = last < 0 ? undefined : expected.share(last);
    // a reject is done as well: the inputs' traces are those that were scored and those that were rejected
    const done = traces + rejects;
    const share = expected.traces === undefined ? read : Math.min(1, done / Math.max(1, expected.traces));
    // at the pace since it was first told; traces take as long as they are
    const now = read ?? share;
    if (now !== undefined) first ??= { seconds, share: now };
    const left =
      now === undefined || first === undefined || now <= first.share
        ? undefined
        : ((1 - now) * (seconds - first.seconds)) / (now - first.share);
    const part = share ? ` (${Math.floor(100 * share)} %)` : '';
    const line = [
      expected.traces === undefined
        ? `${plural(done, 'trace')}${part}`
        : `${count(done)} of ${plural(expected.traces, 'trace')}${part}`,
      // without a tokenizer nobody counts tokens
      tokens > 0
        ? `${count(tokens_per_s)} tokens/s`
        : `${count(Math.round(done / Math.max(seconds, 1e-3)))} traces/s`,
      ...(rejects > 0 ? [`${count(rejects)} rejected`] : []),
      ...(left === undefined ? [] : [`${duration(left)} left`]),
    ].join(' · ');
    log.progress(line, { traces, tokens, rejects, tokens_per_s, share: read, eta_s: left });
  }
  const tellSoon = (): void => {
    timer ??= setTimeout(tell, INTERVAL_MS).unref();
  };
  return {
    totals: () => totals(),
    trace(tokens: number, ordinal: number): void {
      counted.traces++;
      counted.tokens += tokens;
      last = ordinal;
      tellSoon();
    },
    reject(ordinal: number): void {
      counted.rejects++;
      last = ordinal;
      tellSoon();
    },
    end: (): void => clearTimeout(timer),
  };
}
