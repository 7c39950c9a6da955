// Shows the progress of several workers as one line of their sums.

import { count, plural } from '../plural.js';
import type { Log } from './log.js';
import { Pace, reportTotals } from './progress.js';

/** One line for all workers. */
export class SharedProgress {
  private readonly started = performance.now();
  private readonly pace = new Pace();
  private readonly latest: (Record<'traces' | 'tokens' | 'rejects', number> & { readonly share?: number })[];
  private expected: number | undefined;

  /** @param before traces and rejects that earlier attempts have done */
  constructor(
    private readonly workers: number,
    private readonly before: number,
    private readonly log: Log,
  ) {
    this.latest = Array.from({ length: workers }, () => ({ traces: 0, tokens: 0, rejects: 0 }));
  }

  /** whether a worker has told of its first trace */
  get hasBegun(): boolean {
    return this.latest.some(({ traces, rejects }) => traces + rejects > 0);
  }

  /** @param traces of the whole */
  expect(traces: number): void {
    this.expected = Math.max(0, traces - this.before);
  }

  /** What a worker tells of itself: `fields` of its own progress. */
  set(worker: number, fields: Readonly<Record<string, unknown>>): void {
    const { traces, tokens, rejects, share, bytes } = fields;
    if (typeof bytes === 'number') {
      this.log.progress(`reading: ${count(Math.round(bytes / 2 ** 20))} MiB`, { bytes });
      return;
    }
    if (typeof traces !== 'number') return;
    this.latest[worker] = {
      ...{ traces, tokens: Number(tokens ?? 0), rejects: Number(rejects ?? 0) },
      ...(typeof share === 'number' && { share }),
    };
    const sum = (field: 'traces' | 'tokens' | 'rejects') => this.latest.reduce((n, one) => n + one[field], 0);
    const totals = { traces: sum('traces'), tokens: sum('tokens'), rejects: sum('rejects') };
    // each goes through all rows for its part of them; one that has not begun has done nothing
    const isShared = this.latest.some(({ share: own }) => own !== undefined);
    const mean = this.latest.reduce((all, { share: own = 0 }) => all + own, 0) / this.workers;
    const expected = { traces: this.expected, share: isShared ? mean : undefined };
    const seconds = (performance.now() - this.started) / 1000;
    const by = ` by ${plural(this.workers, 'worker')}`;
    reportTotals(this.log, { ...totals, seconds }, expected, this.pace, by);
  }
}
