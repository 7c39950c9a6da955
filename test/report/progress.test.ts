// How far a run is: told while it is at work, some times a second, with its rate, and the time that is left at its recent pace.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import type { Log } from '../../dist/report/log.js';
import { Pace, Progress, TokenMeter } from '../../dist/report/progress.js';

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance', 'setTimeout', 'clearTimeout'] }));
afterEach(() => void vi.useRealTimers());

function watched(traces: number | undefined, rows?: number, meter?: TokenMeter) {
  const lines: string[] = [];
  const log = { progress: (line: string) => void lines.push(line) } as unknown as Log;
  const share = (ordinal: number) => (rows === undefined ? undefined : (ordinal + 1) / rows);
  return { lines, log, progress: new Progress(log, { traces, share }, meter) };
}

describe('a run', () => {
  it('tells traces, their share, tokens a second and the time left', () => {
    const { lines, progress } = watched(100);
    vi.advanceTimersByTime(900);
    progress.trace(50, 0);
    expect(lines).toEqual([]);
    vi.advanceTimersByTime(100);
    expect(lines).toEqual([expect.stringMatching(/^1 of 100 traces \(1 %\) · 50 tokens\/s · .* left$/)]);
    // within a tenth of a second nothing is said again
    for (let n = 0; n < 9; n++) progress.trace(50, n);
    expect(lines).toHaveLength(1);
    progress.reject(10);
    vi.advanceTimersByTime(1000);
    expect(lines).toEqual([lines[0], expect.stringMatching(/^11 of 100 traces .* 455 tokens\/s/)]);
    expect(progress.totals()).toMatchObject({ traces: 10, tokens: 500, rejects: 1, seconds: 2 });
  });

  it('counts tokens as they are written, where a command writes them', () => {
    const meter = new TokenMeter();
    const { lines, progress } = watched(undefined, undefined, meter);
    vi.advanceTimersByTime(400);
    meter.add(200);
    vi.advanceTimersByTime(100);
    expect(lines.at(-1)).toContain('400 tokens/s');
    vi.advanceTimersByTime(500);
    progress.trace(7, 0);
    expect(progress.totals()).toMatchObject({ traces: 1, tokens: 200 });
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

  it('counts the traces, and takes the time left from their share of the inputs: some are longer', () => {
    const { lines, progress } = watched(100, 40);
    vi.advanceTimersByTime(9900);
    // half of the inputs
    progress.trace(10, 19);
    vi.advanceTimersByTime(100);
    expect(lines.at(-1)).toMatch(/^1 of 100 traces \(1 %\) .* 10 s left$/);
  });

  it('says of a window of traces that come at once how long all of them took', () => {
    const { lines, progress } = watched(640, 640);
    // 64 traces after forty seconds: ten windows take 400
    vi.advanceTimersByTime(39_900);
    for (let n = 0; n < 64; n++) progress.trace(10, n);
    vi.advanceTimersByTime(100);
    expect(lines.at(-1)).toMatch(/^64 of 640 traces \(10 %\) .* 6 min left$/);
  });
});

describe('the pace', () => {
  /** Shares that are told at their seconds; what is left after the last one. */
  const left = (...told: readonly (readonly [seconds: number, share: number])[]) => {
    const pace = new Pace();
    return told.map(([seconds, share]) => pace.left(seconds, share)).at(-1);
  };

  it('is that of all so far, until there is a recent past', () => {
    expect(left([0, 0])).toBeUndefined();
    expect(left([10, 0.1])).toBeCloseTo(90);
    expect(left([10, 0.1], [20, 0.2], [30, 0.3])).toBeCloseTo(70);
    expect(left([10, 0.5], [20, 1])).toBe(0);
  });

  it('forgets a slow beginning, and long traces that came first', () => {
    // an hour for a tenth, which would make ten of all; then a hundredth a second
    const told = Array.from({ length: 61 }, (_, n) => [3600 + 2 * n, 0.1 + n / 200] as const);
    expect(left([3600, 0.1], ...told)).toBeCloseTo((1 - 0.4) * 400, 0);
  });

  it('is of several windows at least, however long each of them takes', () => {
    // one window in two minutes; one of nine was a slow one
    const told = [1, 2, 3, 4, 5, 6, 7, 8, 9].map((n) => [120 * n + (n > 4 ? 60 : 0), n / 20] as const);
    expect(left(...told)).toBeCloseTo((11 / 20) * (900 / (7 / 20)), -2);
  });

  it('takes no harm of many reports, and of a share that stands still', () => {
    const pace = new Pace();
    for (let n = 1; n <= 20_000; n++) pace.left(n / 100, n / 40_000);
    expect(pace.left(201, 0.5)).toBeCloseTo(200, 0);
    expect(pace.left(300, 0.5)).toBeCloseTo(200, 0);
  });
});
