// TRL's own GRPOTrainer and verl's own V1 with our hooks, and what data libraries read of a scored file: in an environment that pip makes.
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

type VerlRow = Readonly<
  Record<'completion_ids' | 'logprobs' | 'sigma', number[]> & { reward: number; group: string }
>;
/** Of each trace its response, advantages and old log-probabilities; of the older trainer advantages (B, T). */
interface VerlRun {
  readonly v1: { readonly rows: [number[], number[], number[]][]; readonly padding: number[][] };
  readonly older: Readonly<Record<'weighted' | 'without_mask' | 'plain', number[][]>>;
}

const why = python === undefined ? ' (skipped: pip has no trl 1.16.0 and verl 0.9.1 here)' : '';
const { at, done, rows: rowsOf } = await openScene();

describe.skipIf(python === undefined)(`TRL and verl themselves${why}`, () => {
  let runs: Record<'stored' | 'text', Run> & { readonly refused: Record<string, string> };

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

  it('refuses the options under which σ would have no effect', () => {
    expect(Object.keys(runs.refused)).toEqual(['importance_sampling_level', 'loss_type']);
    expect(runs.refused.importance_sampling_level).toContain('="sequence" averages a trace');
    expect(runs.refused.loss_type).toContain('="luspo" averages a trace');
  });

  it('verl: its V1 chain and its older trainer give every token A·σ·T', async () => {
    const scored = at('scored.jsonl');
    await mkdir(at('verl'));
    const { v1, older } = inPython('verl_real.py', EMBEDDED, scored, at('verl')) as VerlRun;
    const rows = (await rowsOf('scored.jsonl')) as unknown as VerlRow[];
    const byIds = new Map(rows.map((row) => [row.completion_ids.join(), row]));
    const weighted = ({ reward, group, sigma }: VerlRow): number[] => {
      const all = rows.filter((row) => row.group === group).map((row) => row.reward);
      const mean = all.reduce((sum, each) => sum + each, 0) / all.length;
      const variance = all.reduce((sum, each) => sum + (each - mean) ** 2, 0) / (all.length - 1);
      return sigma.map((s) => ((reward - mean) / (Math.sqrt(variance) + 1e-6)) * s * sigma.length);
    };
    const off = (found: readonly number[], expected: readonly number[]) =>
      Math.max(...found.map((value, t) => Math.abs(value - (expected[t] ?? 0))));

    expect(v1.rows.length).toBe(rows.length);
    for (const [ids, advantages, logprobs] of v1.rows) {
      const row = byIds.get(ids.join()) as VerlRow;
      expect(advantages.length).toBe(row.sigma.length);
      expect(off(advantages, weighted(row))).toBeLessThan(1e-4);
      expect(off(logprobs, row.logprobs)).toBeLessThan(1e-6);
    }
    // verl pads a batch with copies that train no token
    expect(v1.padding.length).toBeGreaterThan(0);
    expect(new Set(v1.padding.flat())).toEqual(new Set([0]));

    for (const [i, row] of rows.entries()) {
      expect(off(older.weighted[i] ?? [], weighted(row))).toBeLessThan(1e-4);
      expect(
        off(older.plain[i] ?? [], weighted({ ...row, sigma: row.sigma.map((_, __, all) => 1 / all.length) })),
      ).toBeLessThan(1e-4);
    }
    expect(older.without_mask).toEqual(older.weighted);
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
