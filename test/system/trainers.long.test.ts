// The examples for trainers: losses against eq. 11 computed by hand, weights in each trainer's layout, and a whole small run.

import { spawn, spawnSync } from 'node:child_process';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { FIXTURES, ROOT, readJsonl, rredcot, temporaryFolder } from '../support/program.js';

const imports = (python: string, modules: string): boolean =>
  spawnSync(python, ['-c', `import ${modules}`]).status === 0;
/** A Python that has PyTorch: the one on the path, or Debian's beside it. */
const python = ['python3', '/usr/bin/python3'].find((name) => imports(name, 'torch'));
/** what reads Parquet there; Debian has no package of it */
const hasPyarrow = python !== undefined && imports(python, 'pyarrow');

/** A dump's first row twice, with another completion and reward the second time: a group of two. */
async function twice(dump: string, path: string, second: object): Promise<void> {
  const [row] = await readJsonl<object>(join(ROOT, 'test/io/presets/dumps', `${dump}.jsonl`));
  await writeFile(path, [row, { ...row, ...second }].map((each) => `${JSON.stringify(each)}\n`).join(''));
}

interface Results {
  readonly losses: {
    readonly lengths: number[];
    readonly old: number[][];
    readonly new: number[][];
    readonly sigma: number[][];
    readonly advantages: number[];
    readonly weights: number[][];
    readonly gradient: number[][];
    readonly loss: number;
    readonly loss_with_noise_in_padding: number;
    readonly plain: number;
    readonly uniform: number;
    readonly group_advantages: number[];
    readonly batches: number[][];
  };
  readonly weights: { readonly behind_a_prompt: number[][]; readonly cut: string };
  readonly forward: { readonly off: number; readonly tokens: number; readonly same: boolean };
  readonly trl: {
    readonly dumps: number[][][];
    readonly advantages: number[][];
    old: number[][];
    rewards: number[];
    again: number[][];
  };
  readonly verl: {
    dumps: [string, string, boolean][][];
    advantages: number[][];
    returns: number[][];
    others: string[];
    registered: string[];
  };
  readonly openrlhf: { advantages: number[][]; rewards: number[]; log_probs: number[]; unknown: string };
}

describe.skipIf(python === undefined)('trainers (skipped without PyTorch)', () => {
  let folder: string;
  let results: Results;

  beforeAll(async () => {
    folder = await temporaryFolder();
    const scored = join(folder, 'scored.jsonl');
    expect(await rredcot(['score', FIXTURES, '--limit', '16', '--quiet', '-o', scored])).toMatchObject({
      code: 0,
    });
    await twice('trl-completions', join(folder, 'trl.jsonl'), { completion: 'No.', accuracy_reward: 0 });
    await twice('verl-rollout', join(folder, 'verl.jsonl'), { output: '#### 8', acc: false });
    const dumps: string[] = [];
    for (const name of hasPyarrow ? ['trl', 'verl'] : []) {
      dumps.push(join(folder, `${name}.parquet`));
      const args = ['score', join(folder, `${name}.jsonl`), '--quiet', '-o', dumps.at(-1) as string];
      expect(await rredcot(args)).toMatchObject({ code: 0 });
    }
    const program = join(ROOT, 'test/support/trainers.py');
    const run = spawnSync(python as string, [program, scored, join(folder, 'rows.jsonl'), ...dumps], {
      encoding: 'utf8',
    });
    expect(run.status, run.stderr).toBe(0);
    results = JSON.parse(run.stdout) as Results;
  });

  it('the loss with σ is the clipped one of eq. 11, mean over traces of Σ_t σ_t A …', () => {
    const { lengths, old, sigma, advantages, loss, new: moved } = results.losses;
    let expected = 0;
    for (const [i, T] of lengths.entries())
      for (let t = 0; t < T; t++) {
        const ratio = Math.exp((moved[i]?.[t] as number) - (old[i]?.[t] as number));
        const gain = (advantages[i] as number) * (sigma[i]?.[t] as number);
        expected -= Math.min(ratio * gain, Math.min(Math.max(ratio, 0.8), 1.2) * gain) / lengths.length;
      }
    expect(loss).toBeCloseTo(expected, 6);
    expect(Math.abs(expected)).toBeGreaterThan(0.1);
    expect(results.losses.loss_with_noise_in_padding).toBe(loss);
  });

  it('its gradient at the old policy is that of eq. 11: −σ_t A / B', () => {
    const { lengths, sigma, advantages, gradient } = results.losses;
    for (const [i, row] of gradient.entries())
      for (const [t, found] of row.entries()) {
        const ours = t < (lengths[i] as number) ? (sigma[i]?.[t] as number) * (advantages[i] as number) : 0;
        expect(found).toBeCloseTo(-ours / lengths.length, 6);
      }
  });

  it("with uniform σ it is plain GRPO's, to 1e-6, and that is GRPO's by hand", () => {
    const { lengths, old, advantages, plain, uniform, loss, new: moved } = results.losses;
    expect(Math.abs(uniform - plain)).toBeLessThan(1e-6);
    expect(Math.abs(loss - plain)).toBeGreaterThan(0.01);
    let expected = 0;
    for (const [i, T] of lengths.entries())
      for (let t = 0; t < T; t++) {
        const ratio = Math.exp((moved[i]?.[t] as number) - (old[i]?.[t] as number));
        const A = advantages[i] as number;
        expected -= Math.min(ratio * A, Math.min(Math.max(ratio, 0.8), 1.2) * A) / T / lengths.length;
      }
    expect(plain).toBeCloseTo(expected, 6);
  });

  it('weights have mean 1 over a trace and are 0 beyond it, wherever the completion stands', () => {
    expect(results.losses.weights).toEqual([
      [3, -1.5, 1, 2, 0.5],
      [3, -1, 0, 0, 0],
      [0, 0.75, 2.25, 0, 0],
    ]);
    expect(results.weights.behind_a_prompt).toEqual([
      [0, 0, 1.5, 0.75, 0.75],
      [0, 4, -2, 0, 0],
    ]);
    expect(results.weights.cut).toMatch(/^trace 1: 2 completion tokens in the batch, but sigma has 1/);
  });

  it("advantages are a group's own, and batches keep groups whole", () => {
    const spread = Math.sqrt(1 / 3) + 1e-4; // of 1, 0, 1
    const expected = [1 / 3 / spread, -2 / 3 / spread, 1 / 3 / spread, 0, 0];
    for (const [i, found] of results.losses.group_advantages.entries())
      expect(found).toBeCloseTo(expected[i] as number, 5);
    // six rows of groups a a b b b c, two a batch at least; the fourth has no reward
    expect(results.losses.batches).toEqual([[0, 1], [2, 4], [5]]);
  });

  it("the small Llama's log-probabilities are the stored ones, and a checkpoint survives writing", () => {
    expect(results.forward.tokens).toBeGreaterThan(1000);
    expect(results.forward.off).toBeLessThan(1e-4);
    expect(results.forward.same).toBe(true);
  });

  it('TRL: the subclass makes (B, T) advantages of (B,), and the replay goes round', () => {
    const { advantages, old, rewards, again } = results.trl;
    expect(advantages).toEqual([
      [3, -1.5, 4.5],
      [-4, -0, -0],
    ]);
    expect(old).toEqual([
      [-1, -2, -3],
      [-0.5, 0, 0],
    ]);
    expect(rewards).toEqual([1, 0]);
    expect(again).toEqual([[7, 8, 9], [5], [7, 8, 9]]);
  });

  it('verl: the estimator groups by `group` and weights, the others stay as they are', () => {
    const { advantages, returns, others, registered } = results.verl;
    expect(registered).toEqual(['grpo_sigma']);
    // rewards 1 and 0 in one group: A = ±0.5
    expect(advantages).toEqual([
      [0.75, -0.375, 1.125],
      [-0.5, -0, -0],
    ]);
    expect(returns).toEqual([
      [0.5, 0.5, 0.5],
      [-0.5, -0, -0],
    ]);
    expect(others).toEqual(['gae']);
  });

  it.skipIf(!hasPyarrow)(
    'TRL and verl, with pyarrow: the examples read scored dumps of either, texts of the input too',
    () => {
      // a prompt of two traces each, of 17 and 3, and of 13 and 6 bytes
      expect(results.trl.dumps).toEqual([[[2, 18]], [[2, 13]]]);
      const rows = results.verl.dumps.map((found) => found.map(([, role, isWhole]) => [role, isWhole]));
      expect(rows).toEqual(new Array(2).fill(new Array(2).fill(['user', true])));
      for (const found of results.verl.dumps) expect(new Set(found.map(([group]) => group)).size).toBe(1);
    },
  );

  it('OpenRLHF: weights land on the actions, behind the prompt', () => {
    const { advantages, rewards, log_probs, unknown } = results.openrlhf;
    expect(advantages).toEqual([
      [0, 0.75, -0.375, 1.125, 0],
      [-0, -0.5, -0],
    ]);
    expect(rewards).toEqual([1, 0, 1]);
    expect(log_probs).toEqual([0, 0, -1, -2, -3]);
    expect(unknown).toMatch(/^1 of 1 traces are not among the scored ones/);
  });

  it('reinforce_torch.py trains on what score writes to its pipe, and its checkpoint can be built', async () => {
    const trained = join(folder, 'trained');
    const flags = ['score', FIXTURES, '--limit', '24', '--quiet', '--format', 'jsonl', '-o', '-'];
    const score = spawn(process.execPath, [join(ROOT, 'bin/rredcot.js'), ...flags]);
    const trainer = spawn(python as string, [
      join(ROOT, 'examples/reinforce_torch.py'),
      ...['--batch', '8', '--save', trained],
    ]);
    score.stdout.pipe(trainer.stdin);
    let [printed, errors] = ['', ''];
    trainer.stdout.on('data', (text) => (printed += text));
    trainer.stderr.on('data', (text) => (errors += text));
    const code = await new Promise((resolve) => trainer.on('close', resolve));
    expect(code, errors).toBe(0);
    const steps = [
      ...printed.matchAll(/^step (\d): (\d+) traces, loss (\S+), gradient (\S+), log p off by (\S+),/gm),
    ].map((match) => match.slice(1).map(Number));
    expect(steps.map(([n, traces]) => [n, traces])).toEqual([
      [1, 8],
      [2, 8],
      [3, 8],
    ]);
    const [, , loss, gradient, off] = steps[0] as number[];
    // before the first step the ratio is 1, so the loss is −mean A, which is 0 in whole groups
    expect(Math.abs(loss as number)).toBeLessThan(1e-3);
    expect(gradient).toBeGreaterThan(0.01);
    expect(off).toBeLessThan(1e-4);

    expect((await readdir(trained)).sort()).toEqual([
      'config.json',
      'exit_template.json',
      'model.safetensors',
      'tokenizer.json',
      'tokenizer_config.json',
    ]);
    const build = await rredcot(['policy', 'build', trained, '-o', join(folder, 'policy')]);
    expect(build.code, build.stderr).toBe(0);
  });

  it('reinforce_torch.py says when the traces were scored by another policy, and refuses what is no plain Llama', async () => {
    const rows = await readJsonl<{ logprobs: number[] }>(join(folder, 'scored.jsonl'));
    const others = rows.map((row) => JSON.stringify({ ...row, logprobs: row.logprobs.map((p) => p - 1) }));
    await writeFile(join(folder, 'others.jsonl'), others.join('\n'));
    const run = (...flags: string[]) =>
      spawnSync(
        python as string,
        [join(ROOT, 'examples/reinforce_torch.py'), join(folder, 'others.jsonl'), ...flags],
        { encoding: 'utf8' },
      );
    const once = run('--credit', 'uniform');
    expect(once.status, once.stderr).toBe(0);
    expect(once.stderr).toContain("are not this policy's");
    await writeFile(join(folder, 'config.json'), '{"architectures": ["GPT2LMHeadModel"]}');
    const other = run('--policy', folder);
    expect(other.status).toBe(1);
    expect(other.stderr).toContain('GPT2LMHeadModel');
  });
});
