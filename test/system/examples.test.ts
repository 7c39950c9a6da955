// The examples where their libraries are not: what needs none runs, the others say in one line what to install.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ROOT } from '../support/program.js';

const hasPython = spawnSync('python3', ['--version']).status === 0;

/** Runs an example with the standard library alone: `-S` leaves out every package that is installed. */
const example = (name: string, ...args: string[]) =>
  spawnSync('python3', ['-S', join(ROOT, 'examples', name), ...args], {
    encoding: 'utf8',
    env: { ...process.env, PYTHONPATH: '' },
  });

describe.skipIf(!hasPython)('examples (skipped without Python)', () => {
  it.each([
    ['attributions.py', "No module named 'torch'", 'pip install torch transformers'],
    ['prm.py', "No module named 'torch'", 'pip install torch transformers'],
    ['reinforce_torch.py', "No module named 'torch'", 'pip install torch'],
  ])('%s says what to install', (name, missing, cure) => {
    const { status, stderr } = example(name);
    expect(status).toBe(1);
    expect(stderr).toContain(`${name}: ${missing}: ${cure}`);
    expect(stderr.trim().split('\n').length).toBe(1);
  });
});
