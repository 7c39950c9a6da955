// What a run says of itself at its end; and a policy that did not write the traces is told.
import { readdir } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { changePolicy } from '../support/changed-policy.js';
import { FIXTURES, writeFixtures } from '../support/program.js';
import { randomPolicy } from '../support/random-policy.js';
import { openScene } from '../support/scene.js';

const { at, done, fails, folder, rows, write } = await openScene();
const { path } = await randomPolicy(folder, 3);

/** The lines about policy, values and σ, and the warnings. */
const said = ({ stderr }: { stderr: string }) =>
  stderr.split('\n').filter((line) => /^(policy |σ uniform|also in|rejected|WARN)/.test(line));

describe('the numbers at the end', () => {
  it('are those of the whole run', async () => {
    await writeFixtures(at('some.jsonl'), 24, { 5: '{"prompt": broken' });
    expect(said(await done('score some.jsonl --rows-per-part 8 -o whole/'))).toEqual([
      expect.stringMatching(
        /^policy bundled: mean log p −0\.0\d+ a token \(guessing: −5\.557\), median range of v̂ 0\.\d+$/,
      ),
      expect.stringMatching(/^σ uniform by fallback: [\d.]+ %.*; in effect: [\d.]+ %$/),
      'rejected: 1 (json 1)',
    ]);
  });

  it('say that the bundled policy meets traces which it cannot have written', async () => {
    const completion = 'She begins with 16 eggs.\nEating three leaves 16 - 3 = 13.\nA: 13';
    const prompt = 'Janet has 16 eggs and eats three. How many are left?\n';
    await write('foreign.jsonl', [{ prompt, completion, answer: '13', reward: 1 }]);
    expect(said(await done('score foreign.jsonl -o foreign.out.jsonl'))).toContainEqual(
      expect.stringMatching(/^WARN: 1 of 1 trace .*bundled policy.*rredcot policy build.*--policy/),
    );
    expect((await rows('foreign.out.jsonl'))[0]?.status).toBe('completion:end-token;uniform:flat-values');
  });

  it('are told after some traces already, and once more where the others change them', async () => {
    const more = Array.from({ length: 70 }, (_, n) => ({
      ...{ id: `${n}`, prompt: 'Two and two?\n', completion: 'It is four.\nA: 4', answer: '4', reward: 1 },
    }));
    await write('seventy.jsonl', more);
    const warned = said(await done('score seventy.jsonl -o seventy.out.jsonl --estimator pr'))
      .filter((line) => line.includes('foreign'))
      .map((line) => line.slice(0, 43));
    expect(warned).toEqual([
      'WARN: after 64 traces: 64 of 64 traces are ',
      'WARN: 70 of 70 traces are foreign to the bu',
    ]);
  });

  it('ask of another policy whether it wrote the traces, and tell programs the same', async () => {
    const { stderr } = await done(`score ${FIXTURES} --limit 4 -o random.jsonl --policy ${path} --log-json`);
    const lines = stderr.trimEnd().split('\n');
    const told = lines.map((line) => JSON.parse(line));
    expect(told.find((record) => record.code === 'unlikely_traces')?.msg).toMatch(
      /^4 of 4 traces .*did this policy write these traces\?/,
    );
    const last = told.at(-1);
    expect(last).toMatchObject({ msg: 'done', policy: path, traces: 4 });
    expect(last.mean_logprob).toBeLessThan(last.guessing_logprob / 2);
    expect(last.median_value_range).toBeGreaterThanOrEqual(0);
  });
});

it('a policy whose weights are broken ends the run with 69 before a row is written, by token, numbers and device', async () => {
  await changePolicy(path, 'model.safetensors', (bytes) => {
    bytes.writeFloatLE(Number.NaN, bytes.length - 4);
    return bytes;
  });
  await fails(
    `score ${FIXTURES} --limit 4 -o broken.jsonl --policy ${path}`,
    69,
    /rredcot: \S*\/policy: on cpu the policy does not give the numbers of its canary: log p of token \d+ of \d+ is NaN, expected -\d.*\n {2}try: build the folder again with: rredcot policy build/,
  );
  expect(await readdir(folder)).not.toContain('broken.jsonl');
});
