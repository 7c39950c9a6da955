// The progress of several workers in, one line of their sums out.

import { count, plural } from '../plural.js';
import type { Log } from './log.js';
import { reportTotals } from './progress.js';

/** One line for all workers. */
export class SharedProgress {
  private readonly started = performance.now();
  private readonly latest: Record<'traces' | 'tokens' | 'rejects', number>[];
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
    const { traces, tokens, rejects, bytes } = fields;
    if (typeof bytes === 'number') {
      this.log.progress(`reading: ${count(Math.round(bytes / 2 ** 20))} MiB`, { bytes });
      return;
    }
    if (typeof traces !== 'number') return;
    this.latest[worker] = { traces, tokens: Number(tokens ?? 0), rejects: Number(rejects ?? 0) };
    const sum = (field: 'traces' | 'tokens' | 'rejects') => this.latest.reduce((n, one) => n + one[field], 0);
    const totals = { traces: sum('traces'), tokens: sum('tokens'), rejects: sum('rejects') };
    const expected = { traces: this.expected, share: () => undefined };
    const seconds = (performance.now() - this.started) / 1000;
    reportTotals(this.log, { ...totals, seconds }, expected, ` by ${plural(this.workers, 'worker')}`);
  }
}
