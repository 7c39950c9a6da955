// How long a run would take, by a few of its traces: a clock that is made up, and a policy whose time is known.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { forecast, secondsFor } from '../../dist/estimate/forecast.js';
import { windowsOf } from '../../dist/estimate/windows.js';
import type { PackedTrace } from '../../dist/model/onnx/placed.js';
import { FakePolicy, jobOf } from '../support/fake-policy.js';
import { streamOf, traceAt } from '../support/streams.js';

beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }));
afterEach(() => void vi.useRealTimers());

/** Milliseconds of a trace with its branches: a position costs one, and one for each hundred tokens that it looks at. */
const costOf = ({ ids, branches }: Pick<PackedTrace, 'ids' | 'branches'>) =>
  (ids.length + branches.reduce((sum, branch) => sum + branch.ids.length, 0)) * (1 + ids.length / 100);

class TimedPolicy extends FakePolicy {
  override async run(traces: readonly PackedTrace[], keep?: number) {
    vi.advanceTimersByTime(traces.reduce((sum, trace) => sum + costOf(trace), 0));
    return super.run(traces, keep);
  }
}

function traces(lengths: readonly number[]) {
  return lengths.map((tokens, row) => {
    const shape = { name: row + 1, prompt: 10, tokens, piece: Math.ceil(tokens / 4), maxSegments: 40 };
    const { ids, promptLength, ...job } = jobOf({
      ...shape,
      continuations: [{ length: 6, scoredFrom: 1 }],
    });
    return {
      ...job,
      trace: traceAt(row),
      promptIds: ids.subarray(0, promptLength),
      completionIds: ids.subarray(promptLength),
    };
  });
}

async function told(lengths: readonly number[]) {
  const session = new TimedPolicy();
  const jobs = traces(lengths);
  const by = {
    session,
    together: (items: AsyncIterable<(typeof jobs)[number]>) => windowsOf(items, () => 0),
  };
  const found = await forecast(streamOf(jobs), by as never, () => {});
  const started = performance.now();
  for (const { promptIds, completionIds, continuations, pieces } of jobs) {
    const branches = Array.from({ length: pieces.segments + 1 }, () => continuations).flat();
    const ids = new Int32Array(promptIds.length + completionIds.length);
    vi.advanceTimersByTime(costOf({ ids, branches: branches as never }));
  }
  return { found, seconds: (performance.now() - started) / 1000 };
}

describe('the time of a run', () => {
  it('is that of its traces, where one of them is very long', async () => {
    const { found, seconds } = await told([...Array.from({ length: 300 }, (_, n) => 90 + (n % 20)), 9000]);
    expect(found.sample).toBe(17);
    expect(found.seconds / seconds).toBeCloseTo(1, 1);
    // so much a position, as the sample had it, would be four times as much
    expect(found.seconds).toBeLessThan(1.1 * seconds);
  });

  it('is that of its traces, where all are alike, and where there are few', async () => {
    for (const lengths of [new Array(100).fill(50), [40, 60], [700]]) {
      const { found, seconds } = await told(lengths);
      expect(found.seconds / seconds).toBeCloseTo(1, 1);
    }
  });

  it('is exact for so much a position and so much a look, and goes by positions where looks cost nothing', () => {
    const all = { positions: 1000, looks: 90_000 };
    const short = { positions: 100, looks: 1000 };
    const long = { positions: 50, looks: 50_000 };
    const taking = (cost: { positions: number; looks: number }, a: number, b: number) => ({
      ...cost,
      seconds: a * cost.positions + b * cost.looks,
    });
    expect(secondsFor(all, taking(short, 0.01, 0.001), taking(long, 0.01, 0.001))).toBeCloseTo(100, 6);
    expect(secondsFor(all, taking(short, 0.01, 0), taking(long, 0.01, 0))).toBeCloseTo(10, 6);
    expect(secondsFor(all, taking(short, 0.01, 0), undefined)).toBeCloseTo(10, 6);
    // a long one that was faster a position; a short one that took no time
    expect(secondsFor(all, taking(short, 0.01, 0), { ...long, seconds: 0.1 })).toBeCloseTo(10, 6);
    expect(secondsFor(all, { ...short, seconds: 0 }, { ...long, seconds: 50 })).toBeCloseTo(
      50 * (90 / 51),
      6,
    );
  });
});
