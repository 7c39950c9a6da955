// The examples for trainers: losses against eq. 11 computed by hand, weights in each trainer's layout, and a whole small run.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { EMBEDDED, FIXTURES, ROOT, readJsonl } from '../support/program.js';
import { ONE_THREAD, pythonThatForks, pythonWith } from '../support/python.js';
import { openScene } from '../support/scene.js';
import { trainerPython } from '../support/trainer-venv.js';

const python = pythonWith('torch; torch.jagged') ?? trainerPython();
const torch = python === undefined ? undefined : pythonThatForks(python, ['torch', 'torch._dynamo']);
afterAll(() => torch?.close());
const { at, done, folder, write } = await openScene();

/** What test/support/trainers.py prints: its parts are those of the tests below. */
type Results = ReturnType<JSON['parse']>;

describe.skipIf(python === undefined)('trainers (skipped without PyTorch)', () => {
  let results: Results;
  const torched = async (...words: readonly string[]) =>
    (await torch?.run(words)) ?? expect.unreachable('no Python');
  beforeAll(async () => {
    await done(`score ${FIXTURES} --limit 16 --quiet -o scored.jsonl`);
    const program = join(ROOT, 'test/support/trainers.py');
    const run = await torched(program, at('scored.jsonl'));
    expect(run.status, run.stderr).toBe(0);
    results = JSON.parse(run.stdout);
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
    // gains of 3 and of none, which counts as 1: all are halved
    expect(results.weights.by_gain).toEqual([
      [0, 0, 0.75, 0.375, 0.375],
      [0, 2, -1, 0, 0],
    ]);
    expect(results.weights.cut).toMatch(/^trace 1: 2 completion tokens in the batch, but sigma has 1/);
    expect(results.weights.no_sigma).toBe('trace 0: sigma sums to 0.5, expected 1');
    // of T tokens, for every T below 3,000: float32 of 1/T is not 1/T
    expect(results.weights.uniform).toEqual([1]);
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

  it('reinforce_torch.py trains on what score writes to its pipe, and its checkpoint can be built', async () => {
    const trained = at('trained');
    const all = ['score', FIXTURES, '--limit', '24', '--quiet', '--format', 'jsonl', '-o', '-'];
    const score = spawn(process.execPath, [join(ROOT, 'bin/rredcot.js'), ...all]);
    const flags = ['--policy', EMBEDDED, '--batch', '8', '--save', trained];
    const trainer = spawn(python as string, [join(ROOT, 'examples/reinforce_torch.py'), ...flags], {
      env: ONE_THREAD,
    });
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

    await done('policy build trained -o policy');
  });

  it('reinforce_torch.py says when the traces were scored by another policy, and refuses what is no plain Llama', async () => {
    const rows = await readJsonl<{ logprobs: number[]; sigma_gain: number | null }>(at('scored.jsonl'));
    const others = rows.map((row) => ({ ...row, logprobs: row.logprobs.map((p) => p - 1) }));
    await write('others.jsonl', others);
    const example = join(ROOT, 'examples/reinforce_torch.py');
    const run = (...flags: string[]) => torched(example, at('others.jsonl'), ...flags);
    const gradient = async (...flags: string[]) =>
      Number(
        /gradient (\S+),/.exec((await run('--policy', EMBEDDED, '--batch', '999', ...flags)).stdout)?.[1],
      );
    const gains = rows.map((row) => row.sigma_gain ?? 1);
    const mean = gains.reduce((sum, gain) => sum + gain, 0) / gains.length;
    expect(Math.abs(mean - 1)).toBeGreaterThan(0.05);
    expect((await gradient()) / (await gradient('--by-gain'))).toBeCloseTo(mean, 1);
    const once = await run('--policy', EMBEDDED, '--credit', 'uniform');
    expect(once.status, once.stderr).toBe(0);
    expect(once.stderr).toContain("are not this policy's");
    await write('config.json', '{"architectures": ["GPT2LMHeadModel"]}');
    const other = await run('--policy', folder);
    expect(other.status).toBe(1);
    expect(other.stderr).toContain('GPT2LMHeadModel');
    const none = await run();
    expect(none.status).toBe(2);
    expect(none.stderr).toContain('required: --policy');
  });
});
