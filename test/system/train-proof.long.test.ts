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
const { comparison, csvOf, levels, summary } = await part('figures');
const { alike, measured, tunedRates } = await part('measured');
const { measureTable, pooledTable, tables, trainingTable } = await part('within');

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

describe('the figures', () => {
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

  interface Figure {
    readonly arm: string;
    readonly figure: string;
    readonly value: number;
    readonly low?: number;
    readonly high?: number;
    readonly p?: number;
  }
  /** One figure of an arm: [value, low, high, p], to three digits. */
  const told = (figures: readonly Figure[], arm: string, name: string) => {
    const found = figures.find((each) => each.arm === arm && each.figure === name);
    return (
      found && [found.value, found.low, found.high, found.p].map((x) => x && Math.round(x * 1000) / 1000)
    );
  };

  it('pair the seeds, and hold 70 % of the steps against all of plain GRPO', () => {
    const logs = [1, 2, 3].flatMap((seed) => [
      run('share', seed, 0.1 + seed / 100),
      run('uniform', seed, 0.05),
    ]);
    // early .5 + 2.8·rise, plain GRPO's final .7: .136 on average; three differences of one sign: p = 2/8
    // at 70 % itself 2.8 times the difference of the rises, at the end 4 times
    const figures = comparison(logs) as Figure[];
    expect(told(figures, 'share', 'early_less_end')).toEqual([0.136, 0.066, 0.206, 0.25]);
    expect(told(figures, 'share', 'early_less_early')).toEqual([0.196, 0.126, 0.266, 0.25]);
    expect(told(figures, 'share', 'end_less_end')).toEqual([0.28, 0.181, 0.379, 0.25]);
    expect(told(figures, 'share', 'area_less_area')?.[3]).toBe(0.25);
    expect(told(figures, 'uniform', 'early_less_end')).toEqual([-0.06, -0.06, -0.06, 0.25]);
    expect(figures.length).toBe(5);
  });

  it("have an arm's final accuracy, and the tool's share of a step", () => {
    const logs = [1, 2, 3].flatMap((seed) => [run('share', seed, 0.1), run('uniform', seed, 0.05)]);
    const figures = summary(logs) as Figure[];
    const value = (arm: string, name: string) => told(figures, arm, name)?.[0];
    for (const [arm, end, tool] of [
      ['uniform', 0.7, 0],
      ['share', 0.9, 0.25],
    ] as const) {
      expect([value(arm, 'seeds'), value(arm, 'end'), value(arm, 'last_tokens')]).toEqual([3, end, 3]);
      expect(value(arm, 'tool_share')).toBe(tool);
    }
    expect(value('share', 'uniform')).toBe(0.625);
    expect(value('uniform', 'uniform')).toBeUndefined();
  });

  it('have when an arm gets to a level, in steps and in tokens, with intervals over seeds', () => {
    const rises = [0.08, 0.1, 0.12];
    const logs = [1, 2, 3].flatMap((seed) => [
      run('share', seed, rises[seed - 1] as number),
      run('uniform', seed, 0.07),
    ]);
    const found = levels(logs) as Figure[];
    // plain GRPO: .5 + .07·n/5 meets .65, .70, .75 at 10.7, 14.3, 17.9, and its own end at 20
    const whole = [1, 1, 1, undefined];
    for (const [level, steps] of [
      ['0.65', 10.714],
      ['0.70', 14.286],
      ['0.75', 17.857],
    ] as const) {
      expect(told(found, 'uniform', `steps_to_${level}`)).toEqual([steps, steps, steps, undefined]);
      expect(told(found, 'uniform', `steps_to_${level}_share`)).toEqual(whole);
    }
    expect(told(found, 'uniform', 'tokens_to_0.75_share')).toEqual(whole);
    expect(told(found, 'uniform', 'steps_to_plain_end')).toEqual([20, 20, 20, undefined]);
    // the mean rise is .1: .65, .70, .75 at 7.5, 10, 12.5, each 70 % of plain GRPO's; .78 at 14. All draws of the slowest seed alone
    // (1 in 27) are within 2.5 %'s reach: a rise of .08, 12.5 / 10 of those; and of the fastest: 12.5 / 15
    // two of the eight ways to exchange the arms are as far from 1: none, and all
    for (const name of ['steps_to_0.65_share', 'steps_to_0.70_share', 'steps_to_0.75_share'])
      expect(told(found, 'share', name)).toEqual([0.7, 0.583, 0.875, 0.25]);
    expect(told(found, 'share', 'tokens_to_0.75_share')).toEqual([0.7, 0.583, 0.875, 0.25]);
    expect(told(found, 'share', 'steps_to_0.65')).toEqual([7.5, 6.25, 9.375, undefined]);
    expect(told(found, 'share', 'steps_to_plain_end')?.[0]).toBe(14);
    // what never gets there has no share; where plain GRPO never does, it counts as all its steps
    const slow = [1, 2].flatMap((seed) => [
      run('flat', seed, 0.01),
      run('late', seed, 0.07),
      run('uniform', seed, 0.05),
    ]);
    const never = Number.POSITIVE_INFINITY;
    expect(told(levels(slow), 'flat', 'steps_to_0.75_share')).toEqual([never, never, never, 1]);
    // 17.9 of 20
    expect(told(levels(slow), 'late', 'steps_to_0.75_share')).toEqual([0.893, 0.893, 0.893, 0.5]);
    expect(levels([run('share', 1, 0.1)])).toEqual([]);
    const dense = logs.map((log) => ({ ...log, arguments: { ...log.arguments, density: 'dense' } }));
    const names = new Set((levels(dense) as Figure[]).map(({ figure }) => figure));
    for (const name of ['steps_to_0.80', 'steps_to_0.85', 'steps_to_0.90', 'tokens_to_0.90_share'])
      expect(names).toContain(name);
  });

  it('one seed has no test', () => {
    expect(comparison([run('share', 1, 0.1), run('uniform', 1, 0.05)])).toEqual([]);
    expect(comparison([run('share', 1, 0.1)])).toEqual([]);
  });

  it('are CSV: what is not known is empty, what is never reached inf', () => {
    const figures = [
      { from: 'a', arm: 'segment exact, summed', figure: 'x', value: 0.123456, low: Number.NaN },
      { from: 'a', arm: 'b', figure: 'y', value: Number.POSITIVE_INFINITY, low: 2, high: 3, p: 0.5 },
    ];
    expect(csvOf(figures, ['from'])).toBe(
      'from,arm,figure,value,low,high,p\na,"segment exact, summed",x,0.1235,,,\na,b,y,inf,2,3,0.5\n',
    );
  });
});

describe('credit inside the segment', () => {
  const run = (arm: string, seed: number, rise: number, end: number) => {
    const lines: object[] = [{ arguments: { arm, seed, steps: 100, clip: 1, density: 'sparse' } }];
    for (let step = 0; step < 100; step += 5)
      lines.push({ step, tokens: 10 * step, held_out: 0.5 + rise * step, of: 250 });
    for (let step = 1; step <= 100; step++)
      lines.push({ step, reward: 1, norm: step <= 25 ? 2 : 0.5, sigma_gain: 4, entropy: 1 / step });
    for (const step of [70, 100]) lines.push({ step, tokens: 10 * step, held_out: end, of: 1000 });
    return readLog(lines.map((line) => JSON.stringify(line)).join('\n'));
  };

  it('counts the steps to plain GRPO’s end of the same seed, and tests the logarithms of the shares', () => {
    // plain GRPO gets to .8 by .01 a step after 30 of them, the arm by .02 after 15 and by .04 after 7.5
    const logs = [1, 2].flatMap((seed) => [
      run('uniform', seed, 0.01, 0.8),
      run('within', seed, 0.02 * seed, 0.9),
    ]);
    const { runs, arms } = trainingTable(logs);
    const [, plain, first, , second] = runs.split('\n').map((line: string) => line.split(','));
    expect(plain.slice(0, 3)).toEqual(['plain GRPO', '1', '30']);
    expect(plain.slice(5, 7)).toEqual(['0.800', '0.800']);
    expect(plain.slice(8, 14)).toEqual(['1.000', '0.020', '0.010', '0.875', '0.250', '4.0']);
    expect(first.slice(0, 4)).toEqual(['within', '1', '15', '0.500']);
    expect(first.slice(5, 7)).toEqual(['0.900', '0.900']);
    expect(second.slice(0, 4)).toEqual(['within', '2', '8', '0.250']);
    // two shares below 1: p = 2/4; the end is .1 above plain GRPO's
    const row = arms.split('\n')[1].split(',');
    expect(row.slice(0, 2)).toEqual(['within', '2']);
    expect(Number(row[2])).toBeCloseTo(Math.sqrt(0.5 * 0.25), 3);
    expect(row[3]).toBe('0.500');
    // to .75 after 25 steps, 12.5 and 6.25: the same shares
    expect(row.slice(4, 6)).toEqual(row.slice(2, 4));
    expect(row.slice(8, 10)).toEqual(['0.100', '0.500']);
    // who never gets there takes all its steps
    const never = trainingTable([run('uniform', 1, 0.01, 0.8), run('late', 1, 0.001, 0.7)]);
    expect(never.runs.split('\n')[2]).toMatch(/^late,1,100,/);
    expect(never.arms.split('\n')[1]).toMatch(/^late,1,[\d.]+,,/);
  });

  it('pools pairs of several sweeps, each with plain GRPO of its own sweep', () => {
    // two sweeps with the same seed: to .7 after 10 of 20 steps, and after 2.5 of 10
    const pooled = pooledTable('sparse', [
      [run('uniform', 1, 0.01, 0.8), run('within calibrated', 1, 0.02, 0.9)],
      [run('uniform', 1, 0.02, 0.7), run('within calibrated', 1, 0.08, 0.9)],
    ]);
    const row = pooled.split('\n')[1].split(',');
    const share = Math.sqrt(0.5 * 0.25);
    // Student's quantile for one degree of freedom, and the deviation of two logarithms
    const half = (12.706 * Math.log(2)) / Math.SQRT2 / Math.SQRT2;
    expect(row.slice(0, 3)).toEqual(['within calibrated', '2', share.toFixed(3)]);
    expect(row.slice(3, 6)).toEqual([...[-half, half].map((x) => (share * Math.exp(x)).toFixed(3)), '0.500']);
    expect(row[14]).toBe('0.150');
  });

  it('compares with the end of the run beside, of the same arm and of the other one', () => {
    const logs = [run('uniform', 1, 0.01, 0.8), run('uniform', 2, 0.02, 0.7), run('within', 1, 0.02, 0.9)];
    const [, others, exchanged] = measureTable([['a', logs]]).split('\n');
    // to .7 after 20 steps and 10, to .8 after 30 and 15
    expect(others).toBe('a,plain GRPO of other seeds,2,1.000,,,');
    // to .8 after 15 steps of 30, to its own .9 plain GRPO takes 40 of 20
    expect(exchanged).toBe('a,within,1,0.500,,2.000,');
  });

  it('its tables say what the logs say', async () => {
    for (const [name, text] of Object.entries(tables()))
      expect(await readFile(join(ROOT, 'examples/grpo/logs', name), 'utf8'), name).toBe(text);
  });
});

it('docs/training.md, its charts and figures.csv say what the logs say', async () => {
  const { text, charts, csv } = measured();
  expect(await readFile(join(ROOT, 'examples/grpo/logs/figures.csv'), 'utf8')).toBe(csv);
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
