// Answers that are off by .05: what they change by chance gets no credit, what they tell keeps it, and the file says how far they are off.
import { expect, it, vi } from 'vitest';
import { main } from '../../dist/cli/program.js';
import { ModelSession } from '../../dist/model/onnx/session.js';
import { offByChance } from '../oracle/noise.js';
import { seeded } from '../oracle/toy.js';
import { FIXTURES, storedValues } from '../support/program.js';
import { openScene } from '../support/scene.js';

const { at, done, expectSame, rows } = await openScene();

/** Scores fixtures by the embedded policy with answers that are off, which it says of itself. */
async function scoreOff(noise: number, traces: number, name: string): Promise<void> {
  const [{ open }, random] = [ModelSession, seeded(3)];
  vi.spyOn(ModelSession, 'open').mockImplementation(async (...args) => {
    const session = await open.apply(ModelSession, args);
    const run = session.run.bind(session);
    const off = (own: Float32Array) => offByChance(own, noise, random);
    session.run = async (...of) =>
      (await run(...of)).map((one) => ({ ...one, branches: one.branches.map(off) }));
    session.noise = noise;
    return session;
  });
  expect(await main(['', '', 'score', FIXTURES, '--limit', `${traces}`, '-o', at(name), '--quiet'])).toBe(0);
  vi.restoreAllMocks();
}

it('false segments vanish and true ones stay, in what redistribute makes of the file, too', async () => {
  await done(`score ${FIXTURES} --limit 320 -o clean.jsonl`);
  await scoreOff(0.05, 320, 'off.jsonl');
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
  // more noise than there is to tell
  await scoreOff(0.9, 8, 'lost.jsonl');
  const none = (await rows('lost.jsonl')).filter(({ status }) => status === 'uniform:noise');
  expect(none.length).toBeGreaterThan(2);
  for (const { sigma } of none) expect(new Set(sigma).size).toBe(1);
});
