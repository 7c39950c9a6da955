// The examples where their libraries are not: what needs none runs, the others say in one line what to install.

import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { rredcotHere } from '../support/in-process.js';
import { FIXTURES, ROOT, readJsonl, temporaryFolder } from '../support/program.js';

const hasPython = spawnSync('python3', ['--version']).status === 0;

/** Runs an example with the standard library alone: `-S` leaves out every package that is installed. */
const example = (name: string, ...args: string[]) =>
  spawnSync('python3', ['-S', join(ROOT, 'examples', name), ...args], {
    encoding: 'utf8',
    env: { ...process.env, PYTHONPATH: '' },
  });

describe.skipIf(!hasPython)('examples (skipped without Python)', () => {
  let folder: string;

  beforeAll(async () => {
    folder = await temporaryFolder();
  });

  it('verl_sigma.py --rows writes its rows without verl', async () => {
    const scored = join(folder, 'scored.jsonl');
    const run = await rredcotHere(['score', FIXTURES, '--limit', '16', '--quiet', '-o', scored]);
    expect(run.code, run.stderr).toBe(0);
    const replay = join(folder, 'replay.json');
    const { status, stderr } = example('verl_sigma.py', '--rows', scored, replay);
    expect(stderr).toBe('');
    expect(status).toBe(0);
    const kept = (rows: { sigma: number[]; completion_ids: number[]; group: string }[]) =>
      rows.map(({ sigma, completion_ids, group }) => [sigma.map(Math.fround), completion_ids, group]);
    expect(kept(await readJsonl(replay))).toEqual(kept(await readJsonl(scored)));
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
