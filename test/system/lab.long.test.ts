/** The lab's own tests: its statistics and its training proof by hand, and every table of the docs as its scripts make it. */
import { spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { ROOT } from '../support/program.js';
import { ONE_THREAD, pythonWith } from '../support/python.js';
import { IS_TORTURE } from '../support/torture.js';
import { exportPython } from '../support/trainer-venv.js';

for (const [name, modules] of [
  ['test_lab.py', 'pandas, scipy, pyarrow'],
  ['test_grpo.py', 'torch, scipy'],
  ['test_truth.py', 'torch, transformers, safetensors, pyarrow'],
] as const)
  it(`lab/${name} (skipped without ${modules})`, ({ skip }) => {
    skip(name !== 'test_lab.py' && !IS_TORTURE, 'minutes: npm run torture');
    const python = pythonWith(modules) ?? exportPython();
    skip(python === undefined);
    const run = spawnSync(python as string, ['-m', 'unittest', `lab/${name}`], {
      cwd: ROOT,
      encoding: 'utf8',
      env: ONE_THREAD,
    });
    expect(run.status, run.stderr).toBe(0);
  });
