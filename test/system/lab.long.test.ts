/** The lab's own tests: its statistics by hand, and every table of the docs as its scripts make it. */
import { spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { ROOT } from '../support/program.js';
import { pythonWith } from '../support/python.js';

const python = pythonWith('pandas, scipy, pyarrow');

it.skipIf(python === undefined)('lab/test_lab.py (skipped without pandas, scipy and pyarrow)', () => {
  const run = spawnSync(python as string, ['-m', 'unittest', 'lab/test_lab.py'], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  expect(run.status, run.stderr).toBe(0);
});
