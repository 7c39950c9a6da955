// Answers that are off by .05: what they change by chance gets no credit, what they tell keeps it, and the file says how far they are off.
import { expect, it, vi } from 'vitest';
import { main } from '../../dist/cli/program.js';
import { ModelSession } from '../../dist/model/onnx/session.js';
import { offByChance } from '../oracle/noise.js';
import { seeded } from '../oracle/toy.js';
import { FIXTURES } from '../support/program.js';
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
    session.proof = { findings: [], noise };
    return session;
  });
  expect(await main(['', '', 'score', FIXTURES, '--limit', `${traces}`, '-o', at(name), '--quiet'])).toBe(0);
  vi.restoreAllMocks();
}

it('false segments vanish and true ones stay, in what redistribute makes of the file, too', async () => {
  const traces = 320;
  await done(`score ${FIXTURES} --limit ${traces} -o clean.jsonl`);
  await scoreOff(0.05, traces, 'off.jsonl');
  const [found, counts] = [await rows('off.jsonl'), { chance: 0, moved: 0, kept: 0, told: 0, lost: 0 }];
  for (const [n, { status, reward, baseline, segments, ...row }] of (await rows('clean.jsonl')).entries()) {
    if (status !== 'ok') continue;
    const sign = Math.sign((reward as number) - (baseline as number));
    let before = row.value_start as number;
    for (const [k, { kind, value, delta, start, end }] of segments.entries()) {
      if (kind !== 'thought') continue;
      const [v, w, truth] = [before, value as number, delta as number];
      before = w;
      const deviation = 0.05 * Math.hypot(v * (1 - v), w * (1 - w));
      const own = found[n]?.segments[k] as (typeof segments)[number];
      // what λ spreads over all tokens is no credit
      const isKept = (own.sigma as number) > (0.1001 * (Number(end) - Number(start))) / row.sigma.length;
      if (Math.abs(truth) < deviation / 2) {
        counts.chance++;
        if (sign * (own.delta as number) > 0) counts.moved++;
        if (isKept) counts.kept++;
      } else if (sign * truth > 5 * deviation) {
        counts.told++;
        if (!isKept) counts.lost++;
      }
    }
  }
  const { chance, moved, kept, told, lost } = counts;
  expect(Math.min(chance, told / 10)).toBeGreaterThan(40);
  expect(moved / chance).toBeGreaterThan(0.35);
  expect(kept / chance).toBeLessThan(0.06);
  expect(lost / told).toBeLessThan(0.005);
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
