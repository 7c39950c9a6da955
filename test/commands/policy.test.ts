/** `rredcot policy build` and `info` as a user runs them: what they print, and their exit codes. */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import { loadOracleModel } from '../oracle/llama.js';
import { type Json, LLAMA, writeCheckpoint } from '../support/checkpoints.js';
import { start } from '../support/program.js';
import { openScene } from '../support/scene.js';

const { at, done, fails, write } = await openScene();

/** 259 tokens, so that the embedded policy's tokenizer fits */
const QWEN: Json = {
  ...LLAMA,
  ...{ architectures: ['Qwen2ForCausalLM'], vocab_size: 259, max_position_embeddings: 512 },
  ...{ use_sliding_window: true, sliding_window: 12, max_window_layers: 1 },
  rope_scaling: { rope_type: 'yarn', factor: 2, original_max_position_embeddings: 512 },
};
const checkpoint = at('checkpoint');
let built: string;

beforeAll(async () => {
  writeCheckpoint(checkpoint, QWEN, { dtype: 'BF16', shards: 2 });
  await write('textless.json', '{"close": "", "open": ""}');
  await write('other.json', '{"name": "x"}');
  const { stdout, stderr } = await done('policy build checkpoint -o policy');
  expect(stdout).toBe('');
  built = stderr;
});

describe('policy build', () => {
  test('prints the exit template it took, and the tokens of a branch', () => {
    const letters = (text: string) => [...text].map((letter) => JSON.stringify(letter)).join(' ');
    expect(built).toBe(
      [
        'exit template, from the checkpoint:',
        '  close  "\\n</think>\\n\\n"',
        '  open   "**Final Answer**\\n\\\\boxed{"',
        '  closer "}"',
        `  branch "\\n" "</think>" ${letters('\n\n**Final Answer**\n\\boxed{7}')} (30 tokens for the answer 7)`,
        '  scored "7" "}"',
        'prompt start  none',
        'end tokens    "<|end|>" (258)',
        'graphs: float32 for the CPU, bf16 for CUDA',
        'policy folder written to policy',
        '',
      ].join('\n'),
    );
  });

  test('a part that the file gives wins over the checkpoint', async () => {
    const template = async (given: string) => {
      await write('template.json', given);
      const { stderr } = await done('policy build checkpoint -o given --exit-template template.json');
      const { exitTemplate } = JSON.parse(readFileSync(at('given/policy.json'), 'utf8')) as Json;
      return [exitTemplate, /exit template, (.*):/.exec(stderr)?.[1]];
    };
    expect(built).toContain('from the checkpoint');
    expect(await template('{"close": "a", "open": "b", "closer": "c"}')).toEqual([
      { close: 'a', open: 'b', closer: 'c' },
      'given',
    ]);
    expect(await template('{"closer": ""}')).toEqual([
      { close: '\n</think>\n\n', open: '**Final Answer**\n\\boxed{', closer: '' },
      'given in part',
    ]);
  });

  test.each([
    ['nowhere', /nowhere: no such folder, expected a checkpoint\n {2}try: /],
    ['other.json', /other\.json: is a file, expected a checkpoint/],
    ['Qwen/Qwen2.5-0.5B', /try: hf download Qwen\/Qwen2\.5-0\.5B /],
    ['checkpoint --exit-template other.json', /other\.json/],
    ['checkpoint --exit-template textless.json', /empty/],
  ])('refused: %s', async (flags, why) => {
    const { said } = await fails(`policy build ${flags} -o out`, 2, why);
    expect(said).not.toContain('this is a bug');
  });

  test.each([
    ['mkdir', 0],
    ['write', 0],
    ['write', 2],
  ])('a full disk: %s %i', async (op, nth) => {
    const plan = { under: at('made'), op, nth, code: 'ENOSPC', every: true };
    const { code, stderr } = await start(['policy', 'build', checkpoint, '-o', at('made/full')], { plan })
      .end;
    expect(stderr).toMatch(/made\S*: cannot be written: no space left .*\n {2}try: free some space/);
    expect(code).toBe(75);
    expect(existsSync(at('made'))).toBe(false);
  });

  test('a file in the place of its folder', async () => {
    await fails(
      'policy build checkpoint -o other.json',
      2,
      'other.json: cannot be written: is a file, expected',
    );
  });

  test('refused: no output', async () => {
    await fails('policy build checkpoint', 2, /required option '-o/);
  });
});

describe('policy info', () => {
  test('shows architecture, parameters, dtype, vocabulary, limits, template and files', async () => {
    const { stdout } = await done('policy info policy');
    const parameters = [...loadOracleModel(checkpoint).tensors.values()].reduce(
      (sum, { length }) => sum + length,
      0,
    );
    for (const part of [
      'Qwen2ForCausalLM: 2 layers, hidden 44, 6 heads of 10 on 3 key/value heads, MLP 53, own head',
      'theta 500, yarn × 2 from 512 tokens',
      'the last 12 tokens in 1 of 2 layers',
      `parameters    ${parameters.toLocaleString('en-US')} in bf16`,
      'vocabulary    259, byte-level tokenizer',
      'limit         1,024 tokens',
      'close  "\\n</think>\\n\\n"',
      'model-00002-of-00002.safetensors',
      'policy.onnx',
    ])
      expect(stdout).toContain(part);
    for (const name of ['policy.onnx', 'tokenizer.json']) {
      const sha256 = createHash('sha256')
        .update(readFileSync(at(`policy/${name}`)))
        .digest('hex');
      expect(stdout).toMatch(new RegExp(`(^|  )${sha256.slice(0, 12)}…  +[\\d,]+ bytes  ${name}$`, 'm'));
    }
  });

  test('a folder that is no policy', async () => {
    await fails('policy info checkpoint', 2, /not a policy folder.*\n {2}try: build one/s);
  });
});
