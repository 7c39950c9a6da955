// Trainers' own packages with rredcot's modules for them: each test of python/trainers counts as one here. And what data libraries read of a scored file.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { FIXTURES, ROOT } from '../support/program.js';
import { ONE_THREAD } from '../support/python.js';
import { openScene } from '../support/scene.js';
import { ENVIRONMENTS, trainerPython } from '../support/trainer-venv.js';

const python = trainerPython();

interface PytestResult {
  readonly name: string;
  readonly outcome: 'passed' | 'failed' | 'skipped';
  readonly text: string;
}

/** The tests of a trainer (python/trainers), run with the package in `python/src`. */
function runPytest(python: string, trainer: string): PytestResult[] {
  const here = join(ROOT, 'python/trainers');
  const file = at(`${trainer}.jsonl`);
  const own = `test_${trainer.replace('ms-', '').replace('-', '_')}`;
  const files = readdirSync(here).filter((name) => name.startsWith(own));
  const args = [
    ...files.map((name) => join(here, name)),
    '-q',
    '-p',
    'no:cacheprovider',
    '--tb=short',
    '--confcutdir',
    here,
  ];
  const { stdout, stderr } = spawnSync(python, ['-m', 'pytest', ...args], {
    encoding: 'utf8',
    maxBuffer: 1e9,
    env: {
      ...ONE_THREAD,
      PYTHONPATH: join(ROOT, 'python/src'),
      RREDCOT_PYTEST: file,
      HF_DATASETS_CACHE: at('cache'),
    },
  });
  if (!existsSync(file)) return [{ name: 'pytest', outcome: 'failed', text: `${stdout}\n${stderr}` }];
  return readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
}

const why = python === undefined ? ' (skipped: pip has none of them here)' : '';
const { at, done, rows: rowsOf } = await openScene();

describe.skipIf(python === undefined)(`data libraries${why}`, () => {
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
    for (const format of ['jsonl', 'parquet', 'arrow'])
      await done(`score ${FIXTURES} --limit 16 --quiet -o scored.${format}`);
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

/** Gigabytes each: TRL and verl, and those that are named. */
const wanted = ['trl', ...(process.env.RREDCOT_TRAINERS ?? '').split(',')];

for (const [name, { tested, checkout }] of Object.entries(ENVIRONMENTS)) {
  const isWanted = wanted.includes(name);
  const own = isWanted ? trainerPython(name) : undefined;
  const path = checkout === undefined ? '' : `${checkout}=<checkout> `;
  const missing = isWanted ? 'pip cannot install it here' : `${path}RREDCOT_TRAINERS=${name} runs it`;
  for (const trainer of tested)
    describe.skipIf(own === undefined)(
      `${trainer} itself${own === undefined ? ` (skipped: ${missing})` : ''}`,
      () => {
        const results = own === undefined ? [] : runPytest(own, trainer);
        it('was found', () => expect(results.length).toBeGreaterThan(0));
        for (const { name: test, outcome, text } of results)
          it(test, () => {
            expect(outcome, text).toBe('passed');
          });
      },
    );
}
