// The examples for trainers: losses against eq. 11 computed by hand, weights in each trainer's layout, and a whole small run.
import { spawn, spawnSync } from 'node:child_process';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import { EMBEDDED, FIXTURES, ROOT, readJsonl } from '../support/program.js';
import { ONE_THREAD, pythonWith } from '../support/python.js';
import { openScene } from '../support/scene.js';
import { trainerPython } from '../support/trainer-venv.js';

const python = pythonWith('torch; torch.jagged') ?? trainerPython();
/** what reads Parquet there; Debian has no package of it, and JSONL needs none */
const hasPyarrow = python !== undefined && spawnSync(python, ['-c', 'import pyarrow']).status === 0;
const FORMATS = ['jsonl', 'jsonl.gz', ...(hasPyarrow ? ['parquet'] : [])];
/** what is scored: TRL's dump, verl's, and messages */
const DUMPS = ['trl', 'verl', 'chat'];
const WITHOUT_PYARROW = hasPyarrow ? '' : ' (skipped without pyarrow)';

/** A row as `score` wrote it: what a trainer takes of it; the prompts of the chat's dump are messages. */
type Scored = Readonly<
  Record<'id' | 'group' | 'completion', string> &
    Record<'prompt_ids' | 'completion_ids' | 'logprobs' | 'sigma', number[]> & {
      prompt: string | object[];
      reward: number;
    }
>;
const SCORED = 'id group prompt completion prompt_ids completion_ids logprobs sigma reward'.split(' ');

const { at, done, folder, write } = await openScene();

/** A dump's first row twice, with another completion and reward the second time: a group of two. */
async function twice(dump: string, name: string, second: object, both: object = {}): Promise<void> {
  const [row] = await readJsonl<object>(join(ROOT, 'test/io/map/dumps', `${dump}.jsonl`));
  const group = [row, { ...row, ...second }].map((each) => ({ ...each, ...both }));
  await write(`${name}.jsonl`, group);
}

/** A group of two of each of `DUMPS`, scored into every format; the dumps are gone then. @returns the files, one after the other for each of `FORMATS` */
async function scoredDumps(): Promise<string[]> {
  await twice('trl-completions', 'trl', { completion: 'No.', accuracy_reward: 0 });
  await twice('verl-rollout', 'verl', { output: '#### 8', acc: false });
  const answer = { role: 'assistant', content: '5, I think' };
  await twice('chat', 'chat', { completion: [answer], reward: 0 }, { group: 'chat' });
  const written: string[] = [];
  for (const format of FORMATS)
    for (const dump of DUMPS) {
      const scored = `${dump}.scored.${format}`;
      if (format !== 'jsonl.gz') await done(`score ${dump}.jsonl --quiet --sigma entropy -o ${scored}`);
      else await write(scored, gzipSync(await readFile(at(`${dump}.scored.jsonl`))));
      written.push(at(scored));
    }
  // from here on there is our output alone
  for (const dump of DUMPS) await rm(at(`${dump}.jsonl`));
  return written;
}

/** The rows of the JSONL in `path`, as our own tests read them; numbers are float32, as in Parquet. */
async function expectedRows(path: string): Promise<Scored[]> {
  const rows = await readJsonl<Scored>(path);
  return rows.map((row) => ({
    ...(Object.fromEntries(SCORED.map((name) => [name, row[name as keyof Scored]])) as unknown as Scored),
    logprobs: row.logprobs.map(Math.fround),
    sigma: row.sigma.map(Math.fround),
  }));
}

function expectClose(found: readonly number[][], expected: readonly number[][], digits = 5): void {
  expect(found.map((row) => row.length)).toEqual(expected.map((row) => row.length));
  for (const [i, row] of expected.entries())
    for (const [t, value] of row.entries()) expect(found[i]?.[t]).toBeCloseTo(value, digits);
}

/** What test/support/trainers.py and read_scored.py print: their parts are those of the tests below. */
type Results = ReturnType<JSON['parse']>;

/** Advantages of the two traces that the stand-ins are asked about, of rewards 1 and 0 in one group: A = ±0.5. */
const WEIGHTED = [[0.75, -0.375, 1.125], [-0.5]];

describe.skipIf(python === undefined)('trainers (skipped without PyTorch)', () => {
  let results: Results;
  /** the rows of each of `DUMPS` */
  let expected: Scored[][];

  beforeAll(async () => {
    await done(`score ${FIXTURES} --limit 16 --quiet -o scored.jsonl`);
    const dumps = await scoredDumps();
    expected = await Promise.all(dumps.slice(0, DUMPS.length).map(expectedRows));
    const program = join(ROOT, 'test/support/trainers.py');
    const run = spawnSync(python as string, [program, at('scored.jsonl'), at('rows.jsonl')], {
      encoding: 'utf8',
      env: { ...ONE_THREAD, RREDCOT_SCORE: `${process.execPath} ${join(ROOT, 'bin/rredcot.js')} score` },
    });
    expect(run.status, run.stderr).toBe(0);
    const reader = join(ROOT, 'test/support/read_scored.py');
    const read = spawnSync(python as string, [reader, at('scratch'), ...dumps], { encoding: 'utf8' });
    expect(read.status, read.stderr).toBe(0);
    results = { ...JSON.parse(run.stdout), read: JSON.parse(read.stdout) };
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

  for (const [n, format] of ['jsonl', 'jsonl.gz', 'parquet'].entries()) {
    const skip = format === 'parquet' ? WITHOUT_PYARROW : '';

    it.skipIf(skip !== '')(`scored_rows reads in ${format} what the JSONL says${skip}`, () => {
      expect(results.read.dumps.slice(3 * n, 3 * n + 3)).toEqual(expected);
    });
  }

  it('scored_rows gives numbers of one type, whatever the format', () => {
    expect(results.read.types).toEqual({
      ...Object.fromEntries(['id', 'group', 'completion'].map((name) => [name, ['str']])),
      prompt: ['dict', 'str'],
      ...{ prompt_ids: ['int'], completion_ids: ['int'] },
      ...{ logprobs: ['float'], sigma: ['float'], reward: ['float'] },
    });
  });

  it('scored_rows refuses what is not whole, or not ours, in one line with file, row, found and expected', () => {
    const expectations: Record<string, RegExp> = {
      'not scored':
        /^FILE:1: has no prompt_ids, completion_ids, logprobs, sigma, expected the columns of .* it has 'prompt'/,
      'no object': /^FILE:1: found \[1, 2\], expected an object/,
      'no sigma': /^FILE:1: has no sigma, expected the columns/,
      'null sigma': /^FILE:1: sigma: found None, expected a list of numbers/,
      'words in sigma': /^FILE:1: sigma\[2\]: found 'a', expected a finite number/,
      'NaN in sigma': /^FILE:1: sigma\[2\]: found nan, expected a finite number/,
      'other ids': /^FILE:1: logprobs has 3 numbers and completion_ids 4, expected one a token/,
      'broken ids': /^FILE:1: prompt_ids\[0\]: found 1\.5, expected a whole number/,
      'reward in words': /^FILE:1: reward: found 'right', expected a finite number, or null/,
      'no text': /^FILE:1: has no text of prompt: score it without --columns/,
      'no group': /^FILE:1: has no group, expected the columns/,
      'no reward': /^FILE: no trace has a known reward: score it with --map reward=/,
      empty: /^FILE: has no row, expected the traces/,
      'cut line':
        /^FILE:1: .* at character \d+, found b'.*, expected one JSON object a line.*was the file cut off\?$/,
      'no JSON': /^FILE:1: 'utf-8' .*, found b'\\xff.*, expected one JSON object a line, or Parquet$/,
      'cut gzip': /^FILE:0: .*, expected gzip to its end: was the file cut off\?$/,
      'damaged gzip': /^FILE:2: .*, expected gzip to its end/,
      'cut Parquet': hasPyarrow
        ? /^FILE: .*Expected a complete Parquet file/
        : /^FILE: is Parquet, and \S+ has no pyarrow: install it, or write JSONL/,
      folder: /^\S+: is a folder, expected a file: rredcot filter/,
      missing: /^\S+\.missing: No such file or directory, expected a file of `rredcot score`$/,
    };
    const { refused } = results.read;
    expect(Object.keys(refused).sort()).toEqual(Object.keys(expectations).sort());
    for (const [name, expected] of Object.entries(expectations))
      expect(refused[name]?.replace(at('scratch'), 'FILE'), name).toMatch(expected);
    expect(Object.values(refused).join('')).not.toContain('\n');
  });

  it('OpenRLHF: weights land on the actions, behind the prompt', () => {
    const { advantages, rewards, log_probs, label, unknown, environment } = results.openrlhf;
    expect(advantages).toEqual([
      [0, 0.75, -0.375, 1.125, 0],
      [-0, -0.5, -0],
    ]);
    expect(rewards).toEqual([1, 0, 1]);
    expect(log_probs).toEqual([0, 0, -1, -2, -3]);
    expect(label).toMatch(/^label 'h' is not a group of .*rows\.jsonl: --data\.label_key/);
    expect(unknown).toMatch(/^1 of 1 traces are not among the scored ones/);
    // what OpenRLHF itself gives Ray is still there
    expect(environment).toEqual([
      { env_vars: { NCCL_DEBUG: 'WARN' }, worker_process_setup_hook: 'openrlhf_sigma.install' },
    ]);
  });

  it('slime: σ is found by token ids and cut as slime cuts, and stored rollouts have what a Sample has', () => {
    const { rollouts, size, samples, advantages, halves, unknown } = results.slime;
    expect([rollouts, size]).toEqual([1, 2]);
    const first = { group_index: 0, index: 0, tokens: [1, 2, 7, 8, 9], response_length: 3, reward: 1 };
    const second = { group_index: 0, index: 1, tokens: [1, 2, 5], response_length: 1, reward: 0 };
    expect(samples).toMatchObject([
      { ...first, rollout_log_probs: [-1, -2, -3] },
      { ...second, rollout_log_probs: [-0.5] },
    ]);
    expect(advantages).toEqual(WEIGHTED);
    expect(halves).toEqual([[0.75], []]);
    expect(unknown).toMatch(/^a trace of 5 tokens, 3 of them sampled, is not among those of .*rows\.jsonl$/);
  });

  it('prime-rl: a sampled group goes through `rredcot score`, and a trace of two turns keeps one advantage', () => {
    const { advantages } = results.primeRl;
    const rows: Scored[] = results.primeRl.rows;
    expect(rows.length).toBe(8);
    const plain = rows.map(({ reward }) => (reward > 0 ? 0.5 : -0.5));
    expectClose(
      advantages.slice(0, -1),
      rows
        .slice(0, -1)
        .map(({ sigma }, i) => sigma.map((s) => (plain[i] as number) * Math.fround(s) * sigma.length)),
      // what a trace shares a run with moves last bits of its answers
      4,
    );
    expect(new Set(advantages.at(-1))).toEqual(new Set([plain.at(-1)]));
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
    const run = (...flags: string[]) =>
      spawnSync(python as string, [example, at('others.jsonl'), ...flags], {
        ...{ encoding: 'utf8', env: ONE_THREAD },
      });
    const gradient = (...flags: string[]) =>
      Number(/gradient (\S+),/.exec(run('--policy', EMBEDDED, '--batch', '999', ...flags).stdout)?.[1]);
    const gains = rows.map((row) => row.sigma_gain ?? 1);
    const mean = gains.reduce((sum, gain) => sum + gain, 0) / gains.length;
    expect(Math.abs(mean - 1)).toBeGreaterThan(0.05);
    expect(gradient() / gradient('--by-gain')).toBeCloseTo(mean, 1);
    const once = run('--policy', EMBEDDED, '--credit', 'uniform');
    expect(once.status, once.stderr).toBe(0);
    expect(once.stderr).toContain("are not this policy's");
    await write('config.json', '{"architectures": ["GPT2LMHeadModel"]}');
    const other = run('--policy', folder);
    expect(other.status).toBe(1);
    expect(other.stderr).toContain('GPT2LMHeadModel');
    const none = run();
    expect(none.status).toBe(2);
    expect(none.stderr).toContain('required: --policy');
  });
});
