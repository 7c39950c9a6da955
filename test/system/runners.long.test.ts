// The runners of rredcot.answer: with torch on the embedded policy and on random models of other families, on Ray Data, and with
// vLLM where RREDCOT_VLLM_PYTHON names a Python that has it.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type AnswerLine, type AskedLine, linesOf } from '../support/oracle-engine.js';
import { EMBEDDED, ROOT, type ScoredRow } from '../support/program.js';
import { ONE_THREAD, pythonThatForks } from '../support/python.js';
import { fixtureRows, jsonLines, openScene } from '../support/scene.js';
import { trainerPython } from '../support/trainer-venv.js';

const python = trainerPython();
const vllm = process.env.RREDCOT_VLLM_PYTHON;
const { at, done, rows, text, write } = await openScene();

const ENV = {
  PYTHONPATH: join(ROOT, 'python/src'),
  RAY_USAGE_STATS_ENABLED: '0',
  RAY_raylet_start_wait_time_s: '300',
};
// what transformers imports with its first model, too
const MODULES = ['torch', 'transformers.masking_utils', 'transformers.models.llama.modeling_llama'];
const torch = python === undefined ? undefined : pythonThatForks(python, MODULES, ENV);
afterAll(() => torch?.close());

function runs(command: string, args: readonly string[], input = '') {
  const { status, stdout, stderr } = spawnSync(command, args, {
    env: { ...ONE_THREAD, ...ENV },
    input,
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  });
  expect(status, stderr).toBe(0);
  return { stdout, stderr };
}
const wordsOf = (engine: string, args: readonly string[]) => [
  ...['-m', 'rredcot.answer', '--engine', engine, '--model', EMBEDDED, ...args],
];
/** By torch, in a fork of one Python: its start takes longer than all that is asked here. */
async function answered(args: readonly string[], input: string) {
  const { status, stdout, stderr } =
    (await torch?.run(wordsOf('torch', args), input)) ?? expect.unreachable('no Python');
  expect(status, stderr).toBe(0);
  return { stdout, stderr };
}
const byId = (lines: string) => new Map(linesOf<AnswerLine>(lines).map((line) => [line.id, line]));

describe.skipIf(python === undefined)('runners with torch (skipped where pip cannot install it)', () => {
  let requests: string;
  let answers: string;

  beforeAll(async () => {
    // of four groups: tokens that traces of one have in common may be asked one by one
    await write('t.jsonl', (await Promise.all([0, 8, 16, 24].map((n) => fixtureRows(n, n + 1)))).flat());
    await done('requests t.jsonl -o requests.jsonl');
    requests = await text('requests.jsonl');
    await answered(['-o', at('answers.jsonl')], requests);
    answers = await text('answers.jsonl');
  });

  it('give score the rows that it has of the policy itself, with exact entropies', async () => {
    await done('score t.jsonl --answers answers.jsonl -o torch.parquet');
    await done('score t.jsonl -o own.parquet');
    const numbers = (row: ScoredRow) => [
      ...[...row.logprobs, ...row.entropies, ...row.sigma, ...row.reference_logprobs.flat(), row.value_start],
      ...row.segments.flatMap(({ end, value }) => [end, value ?? 0]),
    ];
    const [made, own] = [await rows('torch.parquet'), await rows('own.parquet')].map((all) =>
      all.flatMap(numbers),
    );
    const off = made?.map((each, n) => Math.abs(Number(each) - Number(own?.[n]))) ?? [];
    expect(off.length).toBeGreaterThan(500);
    expect(Math.max(...off)).toBeLessThan(1e-4);
  });

  it('go on behind the answers of a killed job, and refuse those of another model, or to other questions', async () => {
    const asked = linesOf<AskedLine>(requests).filter(({ from }) => from !== undefined).length;
    await write('answers.jsonl', answers.slice(0, answers.length / 2));
    const { stderr } = await answered(['-o', at('answers.jsonl')], requests);
    expect(await text('answers.jsonl')).toBe(answers);
    const again = Number(/.*rredcot\.answer: (\d+) questions answered/s.exec(stderr)?.[1]);
    expect(again).toBeGreaterThan(0);
    expect(again).toBeLessThan(asked);
    await write('other.jsonl', '{"rredcot":"answers"}\n');
    const refuses = (file: string, lines: string, why: RegExp) =>
      expect(answered(['-o', at(file)], lines)).rejects.toThrow(why);
    await refuses('other.jsonl', requests, /give another -o/);
    // other questions, and fewer
    const others = requests.replace(/"(?:id|of)":"[^"]*/g, '$&x');
    await refuses('answers.jsonl', others, / is asked: give another -o/);
    const few = requests.split('\n').slice(0, 3).join('\n');
    await refuses('answers.jsonl', few, /answers more than is asked/);
    expect(await text('answers.jsonl')).toBe(answers);
  });

  it('name what the model cannot take, and write nothing but answers to stdout', async () => {
    const lines = [
      { id: 'long', token_ids: Array(140_000).fill(1), from: 5 },
      { id: 'odd', token_ids: [1, 9999], from: 1 },
      { id: 'first', token_ids: [1], from: 0 },
      { id: 'good', token_ids: [1, 2, 3, 4, 5, 6, 7, 8], from: 5 },
    ];
    const { stdout } = await answered([], jsonLines(lines));
    const [header, long, odd, first, good] = linesOf<AnswerLine & { error?: string }>(stdout);
    expect(header).toMatchObject({
      rredcot: 'answers',
      engine: expect.stringMatching(/^torch 2\./),
      model: EMBEDDED,
    });
    for (const each of [long, odd, first])
      expect(each?.error).toMatch(/^over \d+ tokens .* or an id that is none of .* or nothing before/);
    expect(good?.logprobs).toHaveLength(3);
  });

  it('answer for every family as plain passes in float64 do, and sample at T = 1', async () => {
    const script = join(ROOT, 'test/support/runner_families.py');
    const { status, stdout, stderr } =
      (await torch?.run([script, at('families')])) ?? expect.unreachable('no Python');
    expect(status, stderr).toBe(0);
    const found: Record<
      string,
      { way: string; off: number; mean: number; entropies: number; samples: number }
    > = JSON.parse(stdout);
    for (const [family, { way, off, mean, entropies }] of Object.entries(found)) {
      // what has no attention cannot be packed
      const isRecurrent = /Qwen3_5|Mamba/.test(family);
      expect(way, family).toMatch(isRecurrent ? /cached|plain/ : /packed/);
      expect(mean, family).toBeLessThan(1e-5);
      expect(Math.max(off, entropies), family).toBeLessThan(1e-4);
    }
    expect(Object.keys(found)).toHaveLength(6);
    // half the sum of differences between 3,000 samples and the distribution
    expect(found.Llama?.samples).toBeLessThan(0.1);
  });

  it('say the same on Ray, by several engines, in the same order', async () => {
    await write('half.jsonl', answers.slice(0, answers.length / 2));
    runs(python as string, wordsOf('torch', ['--workers', '2', '-o', at('half.jsonl')]), requests);
    expect(await text('half.jsonl')).toBe(answers);
  });

  it.skipIf(!vllm)(
    'agree with vLLM, which computes a trace once (skipped without RREDCOT_VLLM_PYTHON)',
    () => {
      const more = {
        enforce_eager: true,
        block_size: 32,
        kv_cache_memory_bytes: 2 ** 28,
        max_model_len: 2048,
      };
      const flags = ['--dtype', 'float32', '--more', JSON.stringify(more)];
      const questions = requests.replace(/^.*"fresh":true.*\n/gm, '');
      const { stdout, stderr } = runs(vllm as string, wordsOf('vllm', flags), questions);
      const ours = byId(answers);
      const [, ...lines] = linesOf<AnswerLine>(stdout);
      expect(lines.length).toBeGreaterThan(20);
      for (const { id, logprobs } of lines)
        for (const [n, lp] of logprobs.entries())
          expect(Math.abs(lp - (ours.get(id)?.logprobs[n] as number)), id).toBeLessThan(1e-4);
      // a branch may compute the block again that its exit cuts
      const asked = linesOf<AskedLine>(requests).filter(({ fresh, from }) => from !== undefined && !fresh);
      const most = asked.reduce(
        (sum, { token_ids, prefix }) => sum + token_ids.length + (prefix ? 31 : 0),
        0,
      );
      expect(Number(/([\d,]+) tokens computed/.exec(stderr)?.[1]?.replaceAll(',', ''))).toBeLessThanOrEqual(
        most,
      );
    },
  );
});
