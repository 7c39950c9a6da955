// Answers that are off by .05: what they change by chance gets no credit, what they tell keeps it, and the file says how far they are off.
import { expect, it, vi } from 'vitest';
import { main } from '../../dist/cli/program.js';
import type { TraceScores } from '../../dist/model/onnx/placed.js';
import { ModelSession } from '../../dist/model/onnx/session.js';
import { offByChance } from '../oracle/noise.js';
import { seeded } from '../oracle/toy.js';
import { FIXTURES, storedValues } from '../support/program.js';
import { openScene } from '../support/scene.js';

const { at, done, expectSame, rows } = await openScene();
type Args = Parameters<ModelSession['run']>;

it('false segments vanish and true ones stay, in what redistribute makes of the file, too', async () => {
  const score = ['', '', 'score', FIXTURES, '--limit', '320', '--quiet', '--estimator', 'pr', '-o'];
  expect(await main([...score, at('clean.jsonl')])).toBe(0);
  // the odds of all answers are off by chance, and the session says so
  const [{ open }, random] = [ModelSession, seeded(3)];
  const off = (own: Float32Array) => offByChance(own, 0.05, random);
  vi.spyOn(ModelSession, 'open').mockImplementation(async (...args) => {
    const session = await open.apply(ModelSession, args);
    const run = session.run.bind(session);
    const moved = (one: TraceScores) => ({ ...one, branches: one.branches.map(off) });
    return Object.assign(session, { noise: 0.05, run: async (...of: Args) => (await run(...of)).map(moved) });
  });
  expect(await main([...score, at('off.jsonl')])).toBe(0);
  const found = await rows('off.jsonl');
  const all = (await rows('clean.jsonl')).flatMap((row, n) => {
    if (row.status !== 'ok') return [];
    const [values, sign] = [storedValues(row), Math.sign(Number(row.reward) - Number(row.baseline))];
    const deviations = values.map((v) => 0.05 * v * (1 - v));
    const { segments, sigma } = found[n] as typeof row;
    return segments.slice(0, values.length - 1).map(({ start, end, delta, sigma: share }, k) => ({
      steps: (sign * (Number(values[k + 1]) - Number(values[k]))) / Math.hypot(...deviations.slice(k, k + 2)),
      isMoved: sign * Number(delta) > 0,
      // what λ spreads over all tokens is no credit
      isKept: Number(share) > (0.1001 * (Number(end) - Number(start))) / sigma.length,
    }));
  });
  const share = (some: typeof all, of: 'isMoved' | 'isKept') =>
    some.filter((each) => each[of]).length / some.length;
  const chance = all.filter(({ steps }) => Math.abs(steps) < 0.5);
  const told = all.filter(({ steps }) => steps > 5);
  expect(Math.min(chance.length, told.length / 10)).toBeGreaterThan(40);
  expect(share(chance, 'isMoved')).toBeGreaterThan(0.35);
  expect(share(chance, 'isKept')).toBeLessThan(0.06);
  expect(share(told, 'isKept')).toBeGreaterThan(0.995);
  expect((await done('verify off.jsonl')).stdout).toBe('');
  expect((await done('summary off.jsonl')).stdout).toMatch(/below the noise +[12]\d\.\d % of the segments/);
  await done('redistribute off.jsonl --sigma rudder -o rudder.parquet');
  await done('redistribute rudder.parquet --sigma share -o back.jsonl');
  await expectSame('back.jsonl', 'off.jsonl');
});
