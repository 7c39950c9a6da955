// The environments of Python that other tests need. `.ci/run` has this file make them beside the tests that need none.
import { spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';
import { exportPython, trainerPython, wheelPython } from '../support/trainer-venv.js';

it.for([
  ['export', exportPython, 'torch, transformers, onnxscript'],
  ['trl', trainerPython, 'trl'],
  ['wheel', wheelPython, 'hatchling'],
] as const)('that of %s imports what it is for', ([, made, modules], { skip }) => {
  const python = made();
  skip(python === undefined, 'pip cannot install it here');
  const { status, stderr } = spawnSync(python as string, ['-c', `import ${modules}`], { encoding: 'utf8' });
  expect(status, stderr).toBe(0);
});
