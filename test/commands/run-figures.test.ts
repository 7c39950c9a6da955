// What a run says of itself at its end is of the whole of it: resumed, by workers; and a policy that did not write the traces is told.
import { createHash } from 'node:crypto';
import { cp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { rredcotHere } from '../support/in-process.js';
import { FIXTURES, readJsonl, temporaryFolder, writeFixtures } from '../support/program.js';
import { randomPolicy } from '../support/random-policy.js';

let folder: string;
beforeAll(async () => {
  folder = await temporaryFolder();
});

/** The lines about policy, values and σ, and the warnings. */
const said = (stderr: string) =>
  stderr.split('\n').filter((line) => /^(policy |σ uniform|also in|rejected|WARN)/.test(line));

describe('the numbers at the end', () => {
  it('are those of the whole run, by one process, resumed, or by workers', async () => {
    const input = join(folder, 'some.jsonl');
    await writeFixtures(input, 24, { 5: '{"prompt": broken' });
    const score = async (out: string, ...flags: string[]) => {
      const args = ['score', input, '-o', join(folder, out), '--rows-per-chunk', '8', ...flags];
      const { code, stderr } = await rredcotHere(args);
      expect(code, stderr).toBe(0);
      return stderr;
    };
    const whole = said(await score('whole/'));
    expect(whole).toEqual([
      expect.stringMatching(
        /^policy bundled: mean log p −0\.0\d+ a token \(guessing: −5\.56\), median range of v̂ 0\.\d+$/,
      ),
      expect.stringMatching(/^σ uniform by fallback: [\d.]+ %.*; in effect: [\d.]+ %$/),
      'rejected: 1 (json 1)',
    ]);
    // two of four chunks are left, one of them with the reject
    await cp(join(folder, 'whole'), join(folder, 'resumed'), { recursive: true });
    for (const name of ['done/00000-of-00001.json', '_SUCCESS'])
      await rm(join(folder, 'resumed', name), { force: true });
    for (const chunk of [1, 2])
      await rm(join(folder, 'resumed', `done/00000-of-00001/00000${chunk}.json`), { force: true });
    const resumed = await score('resumed/');
    expect(resumed).toMatch(/resuming: 2 chunks/);
    expect(resumed).toMatch(/^16 traces, /m);
    expect(said(resumed)).toEqual(whole);
    expect(said(await score('shared/', '--workers', '2'))).toEqual(whole);
  });

  it('say that traces have the id of others, which verify finds too', async () => {
    const [a, b] = await readJsonl<{ id: string }>(FIXTURES);
    const input = join(folder, 'same.jsonl');
    await writeFile(
      input,
      [a, { ...b, id: 'x' }, { ...b, id: a?.id }].map((row) => `${JSON.stringify(row)}\n`).join(''),
    );
    const out = join(folder, 'same.scored.jsonl');
    const { code, stderr } = await rredcotHere(['score', input, '-o', out]);
    expect(code, stderr).toBe(0);
    expect(said(stderr).filter((line) => line.includes('id'))).toEqual([
      `WARN: 1 trace has the id of an earlier one, first "${a?.id}": what joins rows by id mixes them, and verify finds them; --map id=<column> names a column that tells them apart`,
    ]);
    expect((await rredcotHere(['verify', out])).stdout).toContain('its id stands in an earlier row too');
  });

  it('say that a group is of several prompts', async () => {
    const rows = await readJsonl<Record<string, unknown>>(FIXTURES);
    const input = join(folder, 'mixed.jsonl');
    const two = [0, 1, 8, 9].map((n) => ({ ...rows[n], group: n === 9 ? 'other' : 'one' }));
    await writeFile(input, two.map((row) => `${JSON.stringify(row)}\n`).join(''));
    const { code, stderr } = await rredcotHere(['score', input, '-o', join(folder, 'told.jsonl')]);
    expect(code, stderr).toBe(0);
    expect(said(stderr).filter((line) => line.includes('prompt'))).toEqual([
      'WARN: 1 prompt is in a group with other prompts, first in "one": what follows of a group, such as its mean reward, is meant for completions of one prompt; --map group=<column> names one that holds a prompt together',
    ]);
  });

  it('say that the bundled policy meets traces which it cannot have written', async () => {
    const input = join(folder, 'foreign.jsonl');
    const row = {
      prompt: 'Janet has 16 eggs and eats three. How many are left?\n',
      completion: 'She begins with 16 eggs.\nEating three leaves 16 - 3 = 13.\nA: 13',
      answer: '13',
      reward: 1,
    };
    await writeFile(input, `${JSON.stringify(row)}\n`);
    const { code, stderr } = await rredcotHere([
      'score',
      input,
      '-o',
      join(folder, 'foreign.jsonl.out.jsonl'),
    ]);
    expect(code, stderr).toBe(0);
    expect(said(stderr)).toContainEqual(
      expect.stringMatching(/^WARN: 1 of 1 trace .*bundled policy.*rredcot policy build.*--policy/),
    );
    const [scored] = await readJsonl<{ status: string }>(join(folder, 'foreign.jsonl.out.jsonl'));
    expect(scored?.status).toBe('uniform:flat-values');
  });

  it('ask of another policy whether it wrote the traces, and tell programs the same', async () => {
    const { path } = await randomPolicy(folder, 3);
    const args = ['score', FIXTURES, '--limit', '8', '-o', join(folder, 'random.jsonl'), '--policy', path];
    const { code, stderr } = await rredcotHere([...args, '--log-json']);
    expect(code, stderr).toBe(0);
    const records = stderr
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(records.find((record) => record.code === 'unlikely_traces')?.msg).toMatch(
      /^8 of 8 traces .*did this policy write these traces\?/,
    );
    const done = records.at(-1);
    expect(done).toMatchObject({ msg: 'done', policy: path, traces: 8 });
    expect(done.mean_logprob).toBeLessThan(done.guessing_logprob / 2);
    expect(done.median_value_range).toBeGreaterThanOrEqual(0);
  });
});

describe('a policy whose weights are broken', () => {
  it('ends the run with 69 before a row is written, by token, numbers and device', async () => {
    const { path } = await randomPolicy(join(folder, 'broken'), 4);
    const weights = join(path, 'model.safetensors');
    const bytes = await readFile(weights);
    bytes.writeFloatLE(Number.NaN, bytes.length - 4);
    await rm(weights); // it may be a link to the checkpoint's
    await writeFile(weights, bytes);
    const manifest = join(path, 'policy.json');
    const { files, ...rest } = JSON.parse(await readFile(manifest, 'utf8'));
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    await writeFile(manifest, JSON.stringify({ ...rest, files: { ...files, 'model.safetensors': sha256 } }));
    const out = join(folder, 'broken.jsonl');
    const args = ['score', FIXTURES, '--limit', '8', '-o', out, '--policy', path];
    const { code, stderr } = await rredcotHere(args);
    expect(stderr).toMatch(
      /rredcot: \S*\/policy: on cpu the policy does not give the numbers of its canary: log p of token \d+ of \d+ is NaN, expected -\d.*\n {2}try: rredcot policy check/,
    );
    expect(code).toBe(69);
    expect(await readdir(folder)).not.toContain('broken.jsonl');
  });
});
