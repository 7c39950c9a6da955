// The examples where their libraries are not: what needs none runs, the others say in one line what to install.

import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { FIXTURES, ROOT } from '../support/program.js';
import { openScene } from '../support/scene.js';

const hasPython = spawnSync('python3', ['--version']).status === 0;

/** Runs an example with the standard library alone: `-S` leaves out every package that is installed. */
const example = (name: string, ...args: string[]) =>
  spawnSync('python3', ['-S', join(ROOT, 'examples', name), ...args], {
    encoding: 'utf8',
    env: { ...process.env, PYTHONPATH: '' },
  });

describe.skipIf(!hasPython)('examples (skipped without Python)', () => {
  it('verl_sigma.py --rows writes its rows without verl', async () => {
    const { at, done, rows: read } = await openScene();
    await done(`score ${FIXTURES} --limit 16 --quiet -o scored.jsonl`);
    const made = example('verl_sigma.py', '--rows', at('scored.jsonl'), at('replay.json'));
    expect(made).toMatchObject({ status: 0, stderr: '' });
    const kept = (rows: { sigma: number[]; completion_ids: number[]; group: string }[]) =>
      rows.map(({ sigma, completion_ids, group }) => [sigma.map(Math.fround), completion_ids, group]);
    expect(kept(await read('replay.json'))).toEqual(kept(await read('scored.jsonl')));
  });

  it.each([
    ['verl_sigma.py', "No module named 'verl'", 'pip install verl'],
    ['trl_sigma.py', "No module named 'torch'", 'pip install trl datasets torch'],
    ['openrlhf_sigma.py', "No module named 'openrlhf'", 'pip install openrlhf'],
    ['slime_sigma.py', "No module named 'torch'", "run it in slime's environment"],
    ['prime_rl_sigma.py', "No module named 'prime_rl'", "run it in prime-rl's environment"],
    ['reinforce_torch.py', "No module named 'torch'", 'pip install torch'],
    ['make_reference.py', "No module named 'torch'", 'pip install torch transformers'],
  ])('%s says what to install', (name, missing, cure) => {
    const { status, stderr } = example(name);
    expect(status).toBe(1);
    expect(stderr).toContain(`${name}: ${missing}: ${cure}`);
    expect(stderr.trim().split('\n').length).toBe(1);
  });
});
