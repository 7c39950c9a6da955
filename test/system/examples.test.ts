// The examples where their libraries are not: what needs none runs, the others say in one line what to install.
import { spawnSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { FIXTURES, ROOT, type ScoredRow, temporaryFolder } from '../support/program.js';
import { openScene } from '../support/scene.js';

const RECORD = join(ROOT, 'examples/hooks/record.py');
const hasPython = spawnSync('python3', ['--version']).status === 0;

/** Runs an example with the standard library alone: `-S` leaves out every package that is installed. */
const example = (name: string, ...args: string[]) =>
  spawnSync('python3', ['-S', join(ROOT, 'examples', name), ...args], {
    encoding: 'utf8',
    env: { ...process.env, PYTHONPATH: '' },
  });

describe.skipIf(!hasPython)('examples (skipped without Python)', () => {
  it('trainer_forms.py makes forms whose numbers follow from our columns', async () => {
    const { at, done, rows: read } = await openScene();
    await done(`score ${FIXTURES} --limit 8 --quiet --sigma rudder --baseline value -o scored.jsonl`);
    type Form = Record<'model_input' | 'target_tokens' | 'weights' | 'advantages' | 'progress', number[]> & {
      completions: string[];
      labels: boolean[];
    };
    const made = (form: string) => {
      const { status, stdout, stderr } = example('trainer_forms.py', form, at('scored.jsonl'));
      expect(status, stderr).toBe(0);
      return stdout
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as Form & { id: string });
    };
    const scored = new Map(
      (await read<ScoredRow & { baseline: number; completion: string }>('scored.jsonl')).map((row) => [
        row.id,
        row,
      ]),
    );
    const sum = (list: readonly number[]) => list.reduce((a, b) => a + b, 0);
    for (const { id, model_input: ids, target_tokens: next, weights, advantages } of made('tinker')) {
      const row = scored.get(id) as ScoredRow & { baseline: number };
      expect([ids[0], ...next]).toEqual([...row.prompt_ids, ...row.completion_ids]);
      expect(ids.slice(1)).toEqual(next.slice(0, -1));
      expect(sum(weights)).toBeCloseTo(row.sigma.length, 3);
      expect(sum(advantages)).toBeCloseTo((row.reward as number) - row.baseline, 5);
    }
    for (const { id, advantages } of made('vineppo'))
      expect(sum(advantages) / advantages.length).toBeCloseTo(
        (scored.get(id)?.reward as number) - (scored.get(id)?.baseline as number),
        5,
      );
    for (const [form, key] of [
      ['prm', 'labels'],
      ['progress', 'progress'],
    ] as const)
      for (const { id, completions, ...own } of made(form)) {
        expect(completions.join('')).toBe(scored.get(id)?.completion);
        expect(own[key]).toHaveLength(completions.length);
      }
  });

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
