// How far a run is: told while it is at work, some times a second, with its rate, and the time that is left.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Log } from '../../dist/report/log.js';
import { openProgress } from '../../dist/report/progress.js';

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] }));
afterEach(() => void vi.useRealTimers());

function watched(traces: number | undefined, rows?: number) {
  const lines: string[] = [];
  const log = { progress: (line: string) => void lines.push(line) } as unknown as Log;
  const share = (ordinal: number) => (rows === undefined ? undefined : (ordinal + 1) / rows);
  return { lines, log, progress: openProgress(log, { traces, share }) };
}

describe('a run', () => {
  it('tells traces, their share and tokens a second', () => {
    const { lines, progress } = watched(100);
    vi.advanceTimersByTime(900);
    progress.trace(50, 0);
    expect(lines).toEqual([]);
    vi.advanceTimersByTime(100);
    expect(lines).toEqual(['1 of 100 traces (1 %) · 50 tokens/s']);
    // within a tenth of a second nothing is said again
    for (let n = 0; n < 9; n++) progress.trace(50, n);
    expect(lines).toHaveLength(1);
    progress.reject(10);
    vi.advanceTimersByTime(1000);
    expect(lines).toEqual([lines[0], expect.stringMatching(/^11 of 100 traces .* 455 tokens\/s/)]);
    expect(progress.totals()).toMatchObject({ traces: 10, tokens: 500, rejects: 1, seconds: 2 });
  });

  it('tells what is done of the inputs, not what is read, and nothing when it is over', () => {
    const { lines, progress } = watched(undefined, 400);
    vi.advanceTimersByTime(1000);
    progress.trace(10, 39);
    vi.advanceTimersByTime(100);
    expect(lines.at(-1)).toMatch(/^1 trace \(10 %\)/);
    progress.trace(10, 40);
    progress.end();
    vi.advanceTimersByTime(1000);
    expect(lines).toHaveLength(1);
  });

  it('counts the traces, and takes the time left from what was read since it was first told: some are longer', () => {
    const { lines, progress } = watched(100, 40);
    vi.advanceTimersByTime(9900);
    // a fifth of the inputs
    progress.trace(10, 7);
    vi.advanceTimersByTime(100);
    expect(lines.at(-1)).toMatch(/^1 of 100 traces \(1 %\) · 1 tokens\/s$/);
    vi.advanceTimersByTime(9900);
    progress.trace(10, 19);
    vi.advanceTimersByTime(100);
    // three tenths in ten seconds, half is left
    expect(lines.at(-1)).toMatch(/^2 of 100 traces \(2 %\) .* 17 s left$/);
  });
});
