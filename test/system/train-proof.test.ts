// The statistics of `npm run train-proof`, by hand and on made runs.
import { execFileSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ROOT } from '../support/program.js';

// JavaScript without types: bench is run as it is
const part = (name: string) => import(join(ROOT, `bench/training/${name}.mjs`));
const { area, exchange, interval, meanCurve, overSeeds, reaches, signFlip, smoothed } =
  await part('statistics');
const { readLog } = await part('logs');
const { median } = await import(join(ROOT, 'bench/measure.mjs'));
const { comparisonTable, levelsTable, summaryTable } = await part('tables');
const { alike, measured, tunedRates } = await part('measured');

/** Looks at quarters, and the last at all problems. */
const looksOf = (values: readonly number[]) =>
  values.map((held_out, n) => ({
    step: 5 * n,
    tokens: 1000 * n,
    held_out,
    of: n === values.length - 1 ? 1000 : 250,
  }));

describe('curves', () => {
  it('every quarter of the problems counts once in a whole window, and the last look is all of them', () => {
    // quarter q always has accuracy .5 + q/10: smoothed whole windows are their mean
    const looks = looksOf([...Array.from({ length: 12 }, (_, n) => 0.5 + (n % 4) / 10), 0.9]);
    const curve = smoothed(looks);
    for (const { accuracy } of curve.slice(2, 10)) expect(accuracy).toBeCloseTo(0.65, 12);
    expect(curve.at(-1)).toEqual({ step: 60, tokens: 12000, accuracy: 0.9 });
    expect(curve[0].accuracy).toBe(0.5);
  });

  it('a line has the area of its middle, and reaches a level where it does', () => {
    const curve = [0, 10, 20].map((step) => ({ step, tokens: step * step, accuracy: 0.5 + step / 50 }));
    expect(area(curve)).toBeCloseTo(0.7, 12);
    expect(area(curve, 'tokens')).toBeCloseTo((0.6 * 100 + 0.8 * 300) / 400, 12);
    expect(reaches(curve, 0.6)).toBeCloseTo(5, 12);
    expect(reaches(curve, 0.8, 'tokens')).toBeCloseTo(250, 12);
    expect(reaches(curve, 0.4)).toBe(0);
    expect(reaches(curve, 0.95)).toBe(Number.POSITIVE_INFINITY);
  });
});

describe('over seeds', () => {
  it('a mean curve is the mean at each step', () => {
    const curves = [0.1, 0.3].map((rise) =>
      [0, 1].map((n) => ({ step: 5 * n, tokens: 100 * n * rise, accuracy: 0.5 + rise * n })),
    );
    const [, last] = meanCurve(curves);
    expect([last.step, last.tokens, last.accuracy]).toEqual([5, 20, 0.7]);
  });

  it('intervals of a mean are about as wide as the normal ones, and one seed has none', () => {
    const values = Array.from({ length: 40 }, (_, n) => n);
    const { value, low, high } = overSeeds(
      values,
      (drawn: readonly number[]) => drawn.reduce((sum, v) => sum + v, 0) / drawn.length,
    );
    expect(value).toBe(19.5);
    // deviation 11.54 / √40 × 1.96
    expect(Math.abs(low - (19.5 - 3.58))).toBeLessThan(0.4);
    expect(Math.abs(high - (19.5 + 3.58))).toBeLessThan(0.4);
    expect(overSeeds([1], () => 1).low).toBeNaN();
  });
});

describe('tests over seeds', () => {
  it('the sign-flip test by hand, and what n seeds can show at best', () => {
    expect(signFlip([1, 1, 1, 1, 1])).toBe(2 / 32);
    expect(signFlip(Array.from({ length: 8 }, (_, n) => n + 1))).toBe(2 / 256);
    // sums of ±1±2±3: 4 and 6, either sign, are as far from 0 as 4; 2 and 0 are not
    expect(signFlip([-1, 2, 3])).toBe(4 / 8);
    expect(signFlip([0, 0])).toBe(1);
  });

  it('is valid: under no difference p ≤ a with probability at most a', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: 0.01, max: 1, noNaN: true }), { minLength: 5, maxLength: 5 }),
        (sizes) => {
          const ps = Array.from({ length: 32 }, (_, signs) =>
            signFlip(sizes.map((size, i) => (signs & (1 << i) ? -size : size))),
          );
          for (const a of [2 / 32, 0.25, 0.5])
            expect(ps.filter((p) => p <= a).length / 32).toBeLessThanOrEqual(a);
        },
      ),
      { numRuns: 50 },
    );
  });

  it('exchange: the arms of a seed change places in all ways', () => {
    const sum = (runs: readonly number[]) => runs.reduce((a, b) => a + b, 0);
    // 3/6, and of the eight ways: 3/6, 4/5 or 5/4 (three times two), 6/3
    const pairs = [1, 1, 1].map((one) => [one, 2]);
    expect(exchange(pairs, sum)).toBe(2 / 8);
    expect(exchange([...pairs, [2, 1]], sum)).toBe(10 / 16);
    expect(exchange([[1, 1]], sum)).toBe(1);
  });

  it("Student's interval and the median by hand", () => {
    const { mean, half } = interval([1, 2, 3]);
    expect(mean).toBe(2);
    expect(half).toBeCloseTo(4.303 / Math.sqrt(3), 3);
    expect(interval([1]).half).toBeNaN();
    expect(median([3, Number.POSITIVE_INFINITY, 1])).toBe(3);
    expect(median([1, 2, 3, 10])).toBe(2.5);
  });
});

describe('the table', () => {
  const run = (arm: string, seed: number, rise: number) => {
    const lines: object[] = [
      { arguments: { arm, seed, steps: 20, density: 'sparse', problems: 2, copies: 5 } },
    ];
    for (let n = 0; n < 4; n++)
      lines.push({ step: 5 * n, tokens: 100 * n, held_out: 0.5 + rise * n, of: 250 });
    const seconds = { tool: 1, all: arm === 'uniform' ? 1e9 : 4 };
    const statuses: Record<string, number> =
      arm === 'uniform' ? {} : { ok: 3, 'uniform:no-gain': 4, rejected: 1 };
    // 9 tokens a trace, and 3 in the last ten steps
    for (let step = 1; step <= 20; step++) {
      const tokens = 10 * (step <= 10 ? 9 * step : 90 + 3 * (step - 10));
      lines.push({ step, tokens, reward: 0.5, seconds, statuses });
    }
    lines.push({ step: 14, tokens: 280, held_out: 0.5 + rise * 2.8, of: 1000 });
    lines.push({ step: 20, tokens: 400, held_out: 0.5 + rise * 4, of: 1000 });
    lines.push({ warnings: [] });
    return readLog(lines.map((line) => JSON.stringify(line)).join('\n'));
  };

  it('pairs the seeds, and holds 70 % of the steps against all of plain GRPO', () => {
    const logs = [1, 2, 3].flatMap((seed) => [
      run('share', seed, 0.1 + seed / 100),
      run('uniform', seed, 0.05),
    ]);
    // early .5 + 2.8·rise, plain GRPO's final .7: .136 on average; three differences of one sign: p = 2/8
    // at 70 % itself 2.8 times the difference of the rises, at the end 4 times
    const [, , itself, share] = comparisonTable(logs).split('\n');
    expect(share).toMatch(
      /^\| share \| 0\.136 ± 0\.070 \| 0\.250 \| 0\.196 ± 0\.070 \| 0\.250 \| 0\.280 ± 0\.099 \| 0\.250 \|/,
    );
    expect(itself).toMatch(/^\| uniform, itself \| -0\.060 ± 0\.000 \| 0\.250 \| {2}\|/);
  });

  it("has an arm's final accuracy, and the tool's share of a step", () => {
    const logs = [1, 2, 3].flatMap((seed) => [run('share', seed, 0.1), run('uniform', seed, 0.05)]);
    const [, , plain, share] = summaryTable(logs).split('\n');
    expect(plain).toMatch(/^\| uniform \| 3 \| 0\.700 ± 0\.000 \| 0\.\d+ ± 0\.000 \| 3 \| {2}\| 0 % \|$/);
    expect(share).toMatch(/^\| share \| 3 \| 0\.900 ± 0\.000 \| 0\.\d+ ± 0\.000 \| 3 \| 63 % \| 25 % \|$/);
  });

  it('has when an arm gets to a level, in steps and in tokens, with intervals over seeds', () => {
    const rises = [0.08, 0.1, 0.12];
    const logs = [1, 2, 3].flatMap((seed) => [
      run('share', seed, rises[seed - 1] as number),
      run('uniform', seed, 0.07),
    ]);
    const [, , plain, share] = levelsTable(logs).split('\n');
    // plain GRPO: .5 + .07·n/5 meets .65, .70, .75 at 10.7, 14.3, 17.9, and its own end at 20
    const whole = '100 % [100 %, 100 %]';
    expect(plain).toBe(
      `| uniform | 11 [11, 11] | ${whole} | 14 [14, 14] | ${whole} | 18 [18, 18] | ${whole} | ${whole} | 20 [20, 20] |`,
    );
    // the mean rise is .1: .65, .70, .75 at 7.5, 10, 12.5, each 70 % of plain GRPO's; .78 at 14. All draws of the slowest seed alone
    // (1 in 27) are within 2.5 %'s reach: a rise of .08, 12.5 / 10 of those; and of the fastest: 12.5 / 15
    // two of the eight ways to exchange the arms are as far from 1: none, and all
    const share70 = '70 % [58 %, 88 %], p = 0.250';
    expect(share).toBe(
      `| share | 8 [6, 9] | ${share70} | 10 [8, 13] | ${share70} | 13 [10, 16] | ${share70} | ${share70} | 14 [12, 18] |`,
    );
    // what never gets there has no share; where plain GRPO never does, it counts as all its steps
    const slow = [1, 2].flatMap((seed) => [
      run('flat', seed, 0.01),
      run('late', seed, 0.07),
      run('uniform', seed, 0.05),
    ]);
    const [, , , flat, late] = levelsTable(slow).split('\n');
    expect(flat?.split(' | ')[6]).toBe('– [–, –], p = 1.000');
    // 17.9 of 20
    expect(late?.split(' | ')[6]).toBe('89 % [89 %, 89 %], p = 0.500');
    expect(levelsTable([run('share', 1, 0.1)])).toBe('');
    const dense = logs.map((log) => ({ ...log, arguments: { ...log.arguments, density: 'dense' } }));
    expect(levelsTable(dense)).toMatch(
      /steps to 0\.80 .* steps to 0\.85 .* steps to 0\.90 .* tokens to 0\.90/,
    );
  });

  it('one seed has no test', () => {
    expect(comparisonTable([run('share', 1, 0.1), run('uniform', 1, 0.05)])).toMatch(
      /\| share \|(?: {2}\|){8}$/,
    );
    expect(comparisonTable([run('share', 1, 0.1)])).toBe('');
  });
});

it('docs/training.md and its charts say what the logs say', async () => {
  const { text, charts } = measured();
  expect(await readFile(join(ROOT, 'docs/training.md'), 'utf8')).toContain(text);
  for (const [name, svg] of charts) expect(await readFile(join(ROOT, 'docs', name), 'utf8'), name).toBe(svg);
});

it('runs that are not of one sweep make no page', async () => {
  const stored = async (name: string) =>
    readLog(gunzipSync(await readFile(join(ROOT, 'examples/grpo/logs/sparse', name))).toString());
  const logs = [await stored('uniform-1.jsonl.gz'), await stored('share-calibrated-1.jsonl.gz')];
  const [plain, share] = logs;
  expect(() => alike('sparse', logs)).not.toThrow();
  const withArguments = (change: object) => [
    plain,
    { ...share, arguments: { ...share.arguments, ...change } },
  ];
  expect(() => alike('sparse', withArguments({ steps: 49 }))).toThrow('seed 1, rate 0.0006: found');
  expect(() => alike('sparse', withArguments({ held_out: 500 }))).toThrow('expected');
  expect(() => alike('sparse', [share, ...withArguments({ seed: 2, rate: 0.001 }).slice(1)])).toThrow(
    'others have 0.0006',
  );
  expect(() => alike('tuning-sparse', [share, ...withArguments({ rate: 0.001 }).slice(1)])).not.toThrow();
  expect(() => alike('sparse', [share, share])).toThrow('is there twice');
  expect(() => alike('sparse', [plain, { ...share, looks: share.looks.slice(0, -1) }])).toThrow(
    'has no look at its last step',
  );
  const foreign = logs.map((log) => ({ ...log, arguments: { ...log.arguments, weights: 'others' } }));
  expect(() => alike('sparse', foreign)).toThrow('is of another weak policy');
});

it('the learning rates that train-proof takes are those that did best in the tuning', async () => {
  const rates = JSON.parse(await readFile(join(ROOT, 'examples/grpo/rates.json'), 'utf8'));
  expect(rates).toEqual({ sparse: tunedRates('sparse'), dense: tunedRates('dense') });
});

it('train-proof refuses what it cannot do', () => {
  const refused = (...args: string[]) => {
    try {
      execFileSync(process.execPath, [join(ROOT, 'bench/train-proof.mjs'), ...args], { stdio: 'pipe' });
    } catch (error) {
      return String((error as { stderr: Buffer }).stderr);
    }
    return 'nothing';
  };
  expect(refused('--density', 'thin')).toContain('sparse|dense');
  expect(refused('--seeds', '0')).toContain('--seeds 0');
});
