// TRL's own GRPOTrainer with our hook, and what data libraries read of a scored file: in an environment that pip makes.

import { spawnSync } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { EMBEDDED, FIXTURES, ROOT } from '../support/program.js';
import { ONE_THREAD } from '../support/python.js';
import { openScene } from '../support/scene.js';
import { trainerPython } from '../support/trainer-venv.js';

const python = trainerPython();

interface Run {
  /** of each step: TRL's loss, eq. 11, and how far their gradients are apart, of the largest number in it */
  readonly steps: { loss: number; hand: number; gradient: number; largest: number }[];
  /** how far the weights are apart after three steps: uniform σ and none, σ and none */
  readonly uniform: number;
  readonly moved: number;
  /** of uniform σ and of none */
  readonly losses: [number[], number[]];
}

const why = python === undefined ? ' (skipped: pip has no trl 1.13.0 here)' : '';
const { at, done, rows: rowsOf } = await openScene();

describe.skipIf(python === undefined)(`TRL itself${why}`, () => {
  let runs: Record<'stored' | 'text', Run>;

  const inPython = (program: string, ...args: string[]): unknown => {
    const run = spawnSync(python as string, [join(ROOT, 'test/support', program), ...args], {
      encoding: 'utf8',
      maxBuffer: 1e9,
      env: { ...ONE_THREAD, HF_HUB_OFFLINE: '1', HF_DATASETS_CACHE: at('cache') },
    });
    expect(run.status, run.stderr).toBe(0);
    return JSON.parse(run.stdout);
  };

  beforeAll(async () => {
    await mkdir(at('trl'));
    for (const format of ['jsonl', 'parquet', 'arrow'])
      await done(`score ${FIXTURES} --limit 16 --quiet -o scored.${format}`);
    runs = inPython('trl_real.py', EMBEDDED, at('scored.jsonl'), at('trl')) as typeof runs;
  });

  it.each(['stored', 'text'] as const)('%s: loss and gradient of every step are eq. 11', (kind) => {
    const { steps } = runs[kind];
    expect(steps.length).toBe(3);
    for (const { loss, hand, gradient } of steps) {
      expect(Math.abs(loss - hand)).toBeLessThan(1e-6);
      expect(gradient).toBeLessThan(1e-4);
    }
    // the policy has moved away from the old one by the second step
    expect(Math.max(...steps.map(({ loss }) => Math.abs(loss)))).toBeGreaterThan(1e-3);
  });

  it.each(['stored', 'text'] as const)("%s: uniform σ is TRL's own run to the last digit", (kind) => {
    const { uniform, moved, losses } = runs[kind];
    expect(losses[0].length).toBe(3);
    expect(losses[0]).toEqual(losses[1]);
    expect(uniform).toBe(0);
    expect(moved).toBeGreaterThan(1e-4);
  });

  it('pyarrow, pandas, polars and datasets read scored files, in one way', async () => {
    const paths = ['parquet', 'arrow', 'jsonl'].map((format) => at(`scored.${format}`));
    const found = inPython('read_columnar.py', ...paths, at('cache')) as Record<string, object[]>;
    const rows = await rowsOf('scored.jsonl');
    const expected = rows.map(({ id, completion_ids, sigma, reward }) => ({
      ...{ id, completion_ids, reward },
      sigma: sigma.map(Math.fround),
    }));
    expect(Object.keys(found).sort()).toEqual([
      ...['datasets of JSONL', 'datasets of Parquet', 'pandas', 'polars'],
      ...['pyarrow of Arrow', 'pyarrow of Parquet'],
    ]);
    for (const [reader, read] of Object.entries(found)) {
      const same = (read as typeof rows).map((row) => ({ ...row, sigma: row.sigma.map(Math.fround) }));
      expect(same, reader).toEqual(expected);
    }
  });
});
