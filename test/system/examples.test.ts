// The examples where their libraries are not: what needs none runs, the others say in one line what to install.
import { spawnSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { ROOT, temporaryFolder } from '../support/program.js';

const RECORD = join(ROOT, 'examples/hooks/record.py');
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
    ['openrlhf_sigma.py', "No module named 'openrlhf'", 'pip install openrlhf'],
    ['slime_sigma.py', "No module named 'torch'", "run it in slime's environment"],
    ['prime_rl_sigma.py', "No module named 'prime_rl'", "run it in prime-rl's environment"],
    ['reinforce_torch.py', "No module named 'torch'", 'pip install torch'],
  ])('%s says what to install', (name, missing, cure) => {
    const { status, stderr } = example(name);
    expect(status).toBe(1);
    expect(stderr).toContain(`${name}: ${missing}: ${cure}`);
    expect(stderr.trim().split('\n').length).toBe(1);
  });

  it('hooks/record.py says what a checkout has moved, and what is gone', async () => {
    const folder = await temporaryFolder();
    const write = async (path: string, text: string) => {
      await mkdir(dirname(join(folder, path)), { recursive: true });
      await writeFile(join(folder, path), text);
    };
    await write(
      'openrlhf/cli/train_ppo_ray.py',
      'def train(args):\n    ray.init(runtime_env={"env_vars": {}})\n',
    );
    await write(
      'openrlhf/trainer/ppo_utils/experience_maker.py',
      'class RemoteExperienceMaker:\n    def compute_advantages_and_returns(self, batch):\n        advantages = action_mask\n',
    );
    await write('openrlhf/trainer/ppo_utils/experience.py', 'class Experience:\n    sequences: Tensor\n');
    const run = spawnSync('python3', [RECORD, folder], { encoding: 'utf8' });
    expect(run.status, run.stderr).toBe(1);
    const [head, ...lines] = run.stdout.trimEnd().split('\n');
    expect(head).toMatch(/^openrlhf without .*\(recorded: 3c3be623, 2026-08-13\): \d+ moved$/);
    expect(lines).toEqual([
      ...['attention_mask', 'action_mask', 'advantages'].map(
        (name) => `  openrlhf/trainer/ppo_utils/experience.py: Experience has no ${name}`,
      ),
      '  openrlhf/utils/agent.py: is not there',
      expect.stringMatching(
        /compute_advantages_and_returns: signature was \(self, experiences: .*, is \(self, batch\)$/,
      ),
      expect.stringMatching(/Experience: names was .*, is \['sequences'\]$/),
      expect.stringMatching(/Experience: fields was /),
      expect.stringMatching(/Experience: required was /),
    ]);
  });

  it('hooks/record.py refuses a folder that is no trainer of ours', async () => {
    const run = spawnSync('python3', [RECORD, await temporaryFolder()], { encoding: 'utf8' });
    expect(run.status).toBe(1);
    expect(run.stderr).toMatch(/has no file of openrlhf, .*expected a checkout of one of them/);
  });
});
