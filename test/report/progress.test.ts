// How far a run is: told while it is at work, at most twenty times a second, with rate and time left.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Log } from '../../dist/report/log.js';
import { Progress, TokenMeter } from '../../dist/report/progress.js';

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }));
afterEach(() => void vi.useRealTimers());

function watched(traces: number | undefined, meter?: TokenMeter) {
  const lines: string[] = [];
  const log = { progress: (line: string) => void lines.push(line) } as unknown as Log;
  return { lines, progress: new Progress(log, { traces, share: () => undefined }, meter) };
}

it('tells traces, their share, tokens a second and the time left', () => {
  const { lines, progress } = watched(100);
  vi.advanceTimersByTime(1000);
  progress.trace(50);
  expect(lines).toEqual([expect.stringMatching(/^1 of 100 traces \(1 %\) · 50 tokens\/s · .* left$/)]);
  // within a twentieth of a second nothing is said again
  for (let n = 0; n < 9; n++) progress.trace(50);
  expect(lines).toHaveLength(1);
  vi.advanceTimersByTime(1000);
  progress.reject();
  expect(lines.at(-1)).toMatch(/^11 of 100 traces .* 250 tokens\/s/);
  expect(progress.totals()).toMatchObject({ traces: 10, tokens: 500, rejects: 1, seconds: 2 });
});

it('counts tokens as they are written, where a command writes them', () => {
  const meter = new TokenMeter();
  const { lines, progress } = watched(undefined, meter);
  vi.advanceTimersByTime(500);
  meter.add(200);
  expect(lines.at(-1)).toContain('400 tokens/s');
  vi.advanceTimersByTime(500);
  progress.trace(7);
  expect(progress.totals()).toMatchObject({ traces: 1, tokens: 200 });
});
