// The training proof: its gradients, advantages, exact values and statistics by hand, and a run of a few steps through the tool.

import { spawnSync } from 'node:child_process';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { ROOT, readJsonl, temporaryFolder } from '../support/program.js';
import { ONE_THREAD, pythonWith } from '../support/python.js';

const python = pythonWith('torch, scipy');

/** What test/support/grpo.py prints: its parts are those of the tests below. */
type Results = ReturnType<JSON['parse']>;

describe.skipIf(python === undefined)('lab/grpo (skipped without PyTorch)', () => {
  let results: Results;
  beforeAll(async () => {
    const args = [join(ROOT, 'test/support/grpo.py'), await temporaryFolder()];
    const run = spawnSync(python as string, args, {
      encoding: 'utf8',
      env: ONE_THREAD,
    });
    expect(run.status, run.stderr).toBe(0);
    results = JSON.parse(run.stdout);
  });

  it('the gradient of the loss is what differences of the loss, token by token, say', () => {
    const { loss, by_hand, slope, difference } = results.gradients;
    expect(Math.abs(loss - by_hand)).toBeLessThan(1e-5);
    expect(Math.abs(slope - difference)).toBeLessThan(1e-5);
  });

  it("advantages are GRPO's, and plain GRPO gives each token its trace's by the trace's length", () => {
    const a = 0.5 / (1 / Math.sqrt(3) + 1e-4);
    const expected = [a, -a, -a, a, 0, 0, 0, 0];
    for (const [n, value] of results.grpo.advantages.entries())
      expect(value).toBeCloseTo(expected[n] as number, 12);
    expect(results.grpo.centred).toEqual([0.5, -0.5, -0.5, 0.5, 0, 0, 0, 0]);
    for (const [n, row] of [
      [0.25, 0.25],
      [-1 / 6, -1 / 6, -1 / 6],
    ].entries())
      for (const [t, value] of row.entries()) expect(results.grpo.uniform[n]?.[t]).toBeCloseTo(value, 6);
  });

  it('what traces hold, and what is wrong with wrong ones', () => {
    expect(results.counted).toEqual({
      right: 1,
      readable: 3,
      operations: 6,
      wrong_operations: 1,
      fillers: 6,
      mistake_known: 1,
      mistake_unknown: 1,
    });
  });

  it('Stage 0 takes the reference that it was asked for, whole', () => {
    const { unfinished, whole, others } = results.references;
    // rows 0, 2 and 1, 3: their means point the same way
    expect(whole[0]).toBe(256);
    expect(whole[1]).toBeCloseTo(1, 12);
    expect(unfinished).toContain('found a reference of None, expected');
    for (const said of others) expect(said).toMatch(/found a reference of \{.*: make it with reference\.py/);
    expect(others).toHaveLength(3);
  });

  it('exact values are the sum over all that can happen, and the mean of what drawn chains earn', () => {
    expect(results.exact.off).toBeLessThan(1e-12);
    for (const [value, reward] of results.exact.drawn) expect(Math.abs(value - reward)).toBeLessThan(0.06);
  });

  it('the oracle moves at mistakes that stay, and nowhere on a right trace', () => {
    const { mistakes, oracle, oracle_right, decisions, decisions_right } = results.exact;
    expect(mistakes).toEqual([3]);
    expect(oracle).toEqual([1, 1, 1, 1, 0]);
    expect(new Set(oracle_right).size).toBe(1);
    // the oracle of decisions: right traces rise at the two lines with `*`
    expect(decisions).toEqual(oracle);
    expect(decisions_right).toEqual([0, 0.5, 0.5, 1, 1]);
  });

  it('the task with a test has no answers, and its oracle falls at the first line that stays wrong', () => {
    expect(results.tested).toEqual({
      answers: 0,
      rewards: [1, 0],
      oracle: [
        [0.5, 0.5, 0.5, 0.5, 0.5],
        [1, 1, 1, 0, 0],
      ],
    });
  });

  it('values that were sampled behind unsure lines hold up to the next one', () => {
    const { ends, cut, found, tokens } = results.unsure;
    expect(cut).toEqual([[ends[1], ends[3]], [9], [tokens]]);
    expect(found).toEqual([
      [ends, [0.5, 0.5, 0.25, 0.25, 0.75]],
      // nothing moves where nothing is known
      [[9], [0, 0]],
      [[tokens], [0, 0]],
    ]);
  });

  it('a problem of one step has one line, right as often as no operation goes wrong', () => {
    const { lines, families, right, farther, of_others } = results.single;
    expect(lines).toEqual([1]);
    expect(families).toEqual(['top']);
    expect(Math.abs(right - 0.6)).toBeLessThan(0.08);
    expect(farther).toEqual([]);
    expect(of_others).toEqual([
      ['longer', 'others'],
      ['longer', 'others'],
    ]);
  });

  it('shuffled values keep the ends, the differences and the sum, in another order', () => {
    const orders = new Set<string>();
    for (const [ends, deltas, first, last] of results.shuffled as [number[], number[], number, number][]) {
      expect(ends).toEqual([3, 6, 9, 12]);
      expect(last - first).toBeCloseTo(0.5, 12);
      const sorted = [...deltas].sort((a, b) => a - b);
      for (const [k, delta] of [-0.2, 0.1, 0.2, 0.4].entries()) expect(sorted[k]).toBeCloseTo(delta, 12);
      orders.add(deltas.map((d) => d.toFixed(1)).join());
    }
    expect(orders.size).toBeGreaterThan(8);
  });

  it('shuffled values that left 0 to 1 are brought back, their differences in proportion', () => {
    const orders = new Set<string>();
    for (const values of results.inside.beyond as number[][]) {
      for (const value of values) expect(value).toBe(Math.min(1, Math.max(0, value)));
      const deltas = values.slice(1).map((value, k) => value - (values[k] as number));
      const unit = deltas.reduce((sum, delta) => sum + delta, 0) / 0.6;
      expect(deltas.map((delta) => Math.round((10 * delta) / unit)).sort((a, b) => a - b)).toEqual([
        -8, 1, 6, 7,
      ]);
      orders.add(unit.toFixed(3));
    }
    expect(orders.size).toBeGreaterThan(1);
  });

  it('weights shuffled inside stay in their segments; what is behind the last one stays', () => {
    const orders = new Set<string>();
    for (const [sigma, rejected] of results.inside.moved) {
      expect(rejected).toBeNull();
      expect([...sigma.slice(0, 4)].sort()).toEqual([0, 1, 2, 3]);
      expect([...sigma.slice(4, 9)].sort()).toEqual([4, 5, 6, 7, 8]);
      expect(sigma[9]).toBe(9);
      orders.add(sigma.join());
    }
    expect(orders.size).toBeGreaterThan(15);
  });

  it('a step is divided by its mean gain over traces that have an advantage, or by its own norm', () => {
    const { pairs, told, step_norms } = results.inside;
    for (const [along, alongByHand, square, squareByHand] of [pairs.constant, pairs.norm]) {
      expect(along).toBeCloseTo(alongByHand, 8);
      expect(square).toBeCloseTo(squareByHand, 8);
    }
    expect(told.gain_mean).toBe(6);
    expect(told.norm).toBe(1);
    expect(told.step_norm).toBeCloseTo((step_norms[0] + step_norms[1]) / 2, 8);
  });

  it("the policy's entropy is the mean over completion tokens, padding or not", () => {
    const [entropy, byHand] = results.gradients.entropy;
    expect(entropy).toBeCloseTo(byHand, 5);
  });

  it('cosines of made gradients are those that they were made with', () => {
    const { uniform, quiet, wrong, biased } = results.figures;
    // signal 1, noise s·√size in a group's gradient: cos = 1 / √(1 + s²·size / groups)
    expect(uniform.cosine).toBeCloseTo(1 / Math.sqrt(1 + 400 / 64), 1);
    expect(quiet.cosine).toBeCloseTo(1 / Math.sqrt(1 + 100 / 64), 1);
    expect(quiet.gain_interval[0]).toBeGreaterThan(0.15);
    expect(wrong.gain).toBeLessThan(-0.5);
    // as little noise as quiet, but off by as much as it is right: the limit is cos 45°, and more groups stop helping
    expect(biased.limit).toBeCloseTo(Math.SQRT1_2, 1);
  });

  it('through the tool: the oracle is on the wrong line, shares keep the sign of the advantage, and every trace has its whole advantage', () => {
    const { wrong, mass, signs, sums, scale, rejected } = results.through_the_tool;
    expect(wrong).toBeGreaterThan(3);
    // λ = .1 is spread over all tokens
    expect(mass).toBeGreaterThan(0.9);
    expect(mass).toBeLessThan(0.98);
    expect(rejected).toBe(0);
    for (const [n, sum] of sums.entries()) {
      expect(sum).toBeCloseTo(scale[n] as number, 6);
      expect(signs[n]).toBe(Math.sign(scale[n] as number));
    }
  });

  it('the tool: warnings come through, and what it says of a failure is the error', () => {
    const { warned, refused } = results.through_the_tool;
    expect(warned).toEqual([expect.stringMatching(/^σ is uniform in 24 of 24 traces/)]);
    expect(refused).toMatch(/exit 2.*nowhere\.jsonl: cannot be read/s);
  });

  it('train-proof: a sweep of some steps is whole, is kept, and its table stands; a step along the gradient lowers the loss', async () => {
    const folder = await temporaryFolder();
    const args = [
      ...[
        '--arms',
        'uniform,share calibrated',
        '--seeds',
        '1',
        '--steps',
        '2',
        '--problems',
        '6',
        '--copies',
        '4',
      ],
      ...['--look', '1', '--held-out', '24', '--check', '--work', folder],
    ];
    const sweep = (...more: string[]) =>
      spawnSync(python as string, [join(ROOT, 'lab/train_proof.py'), ...args, ...more], {
        encoding: 'utf8',
        env: ONE_THREAD,
      });
    const run = sweep();
    expect(run.status, run.stderr).toBe(0);
    expect(run.stdout).toMatch(/^share calibrated,end,0\.\d/m);
    const [made] = await readdir(folder);
    const log = await readFile(join(folder, made as string, 'share-calibrated-1.jsonl'), 'utf8');
    const records = log
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    const steps = records.filter((record) => 'reward' in record);
    expect(steps).toHaveLength(2);
    for (const { loss, loss_after, seconds, statuses } of steps) {
      expect(loss_after).toBeLessThan(loss);
      expect(seconds.tool).toBeGreaterThan(0.5);
      expect(Object.values<number>(statuses).reduce((sum, n) => sum + n, 0)).toBe(24);
    }
    expect(records.filter(({ of }) => of === 24).map(({ step }) => step)).toEqual([1, 2]);
    // nothing is run again
    const again = sweep();
    expect(again.stdout).toBe(run.stdout);
    expect(again.stderr).toBe('');
    // a gradient that is cut to nothing moves nothing
    expect(sweep('--clip', '1e-12').stderr).toContain('clip was None, and is 1e-12');
    const still = join(folder, 'still');
    const clipped = sweep('--clip', '1e-12', '--arms', 'uniform', '--work', still);
    expect(clipped.status, clipped.stderr).toBe(0);
    const unmoved = await readJsonl<{ loss?: number; loss_after?: number; norm?: number }>(
      join(still, made as string, 'uniform-1.jsonl'),
    );
    const moves = unmoved.filter(({ loss }) => loss !== undefined);
    expect(moves).toHaveLength(2);
    for (const { loss, loss_after, norm } of moves) {
      expect(Math.abs((loss_after as number) - (loss as number))).toBeLessThan(1e-6);
      expect(norm).toBeGreaterThan(0.01);
    }
    // another sweep's run, another arm's under this name, and one that is not whole
    const plain = join(folder, made as string, 'uniform-1.jsonl');
    const whole = await readFile(plain, 'utf8');
    const refusedFor = async (text: string) => {
      await writeFile(plain, text);
      const { status, stderr } = sweep();
      expect(status).toBe(1);
      return stderr;
    };
    expect(await refusedFor(whole.replace('"steps": 2', '"steps": 3'))).toContain('steps was 3, and is 2');
    expect(await refusedFor(log)).toContain('arm was share calibrated, and is uniform');
    const last = whole
      .split('\n')
      .findIndex((line) => line.includes('"step": 2, "tokens"') && line.includes('held_out'));
    expect(await refusedFor(whole.split('\n').slice(0, last).join('\n'))).toContain('has no look at step 2');
    expect(sweep('--arms', 'nope').stderr).toMatch(/no such arm: nope; try some of uniform,/);
  });
});
