// The examples for trainers on the trainers' own code: the functions of each that run without the rest of it, out of the checkouts
// that RREDCOT_TRAINERS names (separated by colons), and what examples/hooks/record.py says of a checkout.

import { spawnSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { rredcotHere } from '../support/in-process.js';
import { FIXTURES, ROOT, temporaryFolder } from '../support/program.js';
import { pythonWith } from '../support/python.js';
import { trainerPython } from '../support/trainer-venv.js';

const python = pythonWith('torch') ?? trainerPython();
const checkouts = (process.env.RREDCOT_TRAINERS ?? '').split(':').filter((each) => each !== '');
const lacks = [
  ...(python === undefined ? ['PyTorch'] : []),
  ...(checkouts.length === 0 ? ['RREDCOT_TRAINERS'] : []),
];
const RECORD = join(ROOT, 'examples/hooks/record.py');
/** Advantages of two traces of rewards 1 and 0 in one group, times w. */
const WEIGHTED = [[0.75, -0.375, 1.125], [-0.5]];

interface Found {
  readonly verl?: { v1: number[][]; older: number[][] };
  readonly openrlhf?: Record<'dr_grpo' | 'reinforce_baseline', number[][]>;
  readonly slime?: {
    rewards: number[];
    /** by the number of ranks that share a trace, of each rank */
    advantages: Record<'1' | '2', number[][][]>;
    losses: Record<'1' | '2', number>;
  };
  readonly 'prime-rl'?: { advantages: number[][] };
  readonly skyrl?: { loss: number[]; gradient: number[][]; expected: number[][] };
}

const skipped = lacks.length === 0 ? '' : ` (skipped without ${lacks.join(' and ')})`;
describe.skipIf(lacks.length > 0)(`the trainers' own code${skipped}`, () => {
  let found: Found;

  beforeAll(async () => {
    const folder = await temporaryFolder();
    const [scored, datums] = ['scored.jsonl', 'datums.jsonl'].map((name) => join(folder, name)) as [
      string,
      string,
    ];
    const score = ['score', FIXTURES, '--limit', '8', '--quiet', '-o', scored];
    expect(await rredcotHere(score)).toMatchObject({ code: 0 });
    const forms = spawnSync('python3', [join(ROOT, 'examples/trainer_forms.py'), 'tinker', scored], {
      encoding: 'utf8',
    });
    expect(forms.status, forms.stderr).toBe(0);
    await writeFile(datums, forms.stdout);
    const program = join(ROOT, 'test/support/trainer_source.py');
    const run = spawnSync(python as string, [program, join(folder, 'scratch'), datums, ...checkouts], {
      encoding: 'utf8',
    });
    expect(run.status, run.stderr).toBe(0);
    found = JSON.parse(run.stdout) as Found;
  });

  it("verl: V1's own trainer method and the older one's function give A·w, and padding 0", () => {
    if (found.verl === undefined) return;
    expect(found.verl.v1).toEqual([...WEIGHTED, [0]]);
    expect(found.verl.older).toEqual([
      [0.75, -0.375, 1.125],
      [-0.5, -0, -0],
    ]);
  });

  it("OpenRLHF: its own advantages are weighted behind the prompt, and behind its whitening's shift", () => {
    if (found.openrlhf === undefined) return;
    expect(found.openrlhf.dr_grpo).toEqual([
      [0, ...(WEIGHTED[0] as number[])],
      [-0, -0.5],
    ]);
    // the mean over the four tokens, 0.25, is taken off before
    expect(found.openrlhf.reinforce_baseline).toEqual([
      [0, 0.375, -0.1875, 0.5625],
      [-0, -0.75],
    ]);
  });

  it('slime: its own advantages, cut on two ranks, and its own loss is Σ σ A log p on both', () => {
    if (found.slime === undefined) return;
    expect(found.slime.rewards).toEqual([0.5, -0.5]);
    expect(found.slime.advantages['1']).toEqual([WEIGHTED]);
    expect(found.slime.advantages['2']).toEqual([
      [[0.75], []],
      [[-0.375, 1.125], [-0.5]],
    ]);
    const loss = 0.5 * (0.5 * -1 - 0.25 * -2 + 0.75 * -3) - 0.5 * -0.5;
    expect(found.slime.losses).toEqual({ 1: loss, 2: loss });
  });

  it('prime-rl: its own assign_advantages takes A·w, a number a sampled token', () => {
    if (found['prime-rl'] === undefined) return;
    expect(found['prime-rl'].advantages).toEqual(WEIGHTED);
  });

  it("SkyRL: its importance_sampling loss on the tinker form has eq. 11's gradient, −σ_t A", () => {
    if (found.skyrl === undefined) return;
    expect(found.skyrl.loss.length).toBe(8);
    for (const [i, gradient] of found.skyrl.gradient.entries()) {
      const expected = found.skyrl.expected[i] as number[];
      for (const [t, value] of gradient.entries()) expect(value).toBeCloseTo(expected[t] as number, 6);
      // σ sums to 1, so the loss at the old policy is −A
      const sum = expected.reduce((total, each) => total + each, 0);
      expect(found.skyrl.loss[i]).toBeCloseTo(sum, 5);
    }
  });

  it('the records are what is in the checkouts at their commits', () => {
    const run = spawnSync('python3', [RECORD, ...checkouts], { encoding: 'utf8' });
    expect(run.status, run.stdout + run.stderr).toBe(0);
    for (const line of run.stdout.trim().split('\n')) expect(line).toMatch(/: nothing moved$/);
  });
});

const hasPython = spawnSync('python3', ['--version']).status === 0;
describe.skipIf(!hasPython)(
  `examples/hooks/record.py${hasPython ? '' : ' (skipped without python3)'}`,
  () => {
    it('says what a checkout has moved, and what is gone', async () => {
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

    it('refuses a folder that is no trainer of ours', async () => {
      const run = spawnSync('python3', [RECORD, await temporaryFolder()], { encoding: 'utf8' });
      expect(run.status).toBe(1);
      expect(run.stderr).toMatch(/has no file of trl, verl, .*expected a checkout of one of them/);
    });
  },
);
