// `--estimator given`: values that a row brings along become its credit; one that brings another number of them is rejected.
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { rredcotHere } from '../support/in-process.js';
import { FIXTURES, ROOT, readJsonl, type ScoredRow, temporaryFolder } from '../support/program.js';

it('takes the published values of Thought Anchors by its preset, on its own segments', async () => {
  const folder = await temporaryFolder();
  const dump = await readFile(join(ROOT, 'test/io/map/dumps/thought-anchors.jsonl'), 'utf8');
  const row = JSON.parse(dump);
  const short = {
    ...row,
    id: 'short',
    chunks: [...row.chunks.slice(0, 2), { ...row.chunks[2], accuracy: null }],
  };
  const input = join(folder, 'anchors.jsonl');
  await writeFile(input, `${JSON.stringify(row)}\n${JSON.stringify(short)}\n`);
  const out = join(folder, 'given.jsonl');
  const flags = ['--estimator', 'given', '--segmenter', 'given', '--sigma', 'rudder'];
  const run = await rredcotHere(['score', input, '-o', out, ...flags]);
  expect(run.code, run.stderr).toBe(0);
  const [scored] = await readJsonl<ScoredRow & { reference_tokens: number[] }>(out);
  expect([scored?.value_start, scored?.baseline]).toEqual([0.9, 0.9]);
  expect(scored?.segments.map(({ value }) => value)).toEqual([0.9, 1, 1, null]);
  for (const [k, delta] of [0, 0.1, 0].entries()) expect(scored?.segments[k]?.delta).toBeCloseTo(delta, 6);
  expect([scored?.reference_logprobs, scored?.reference_tokens]).toEqual([[[], [], [], []], []]);
  const [reject] = await readJsonl<{ id: string; code: string; reason: string }>(`${out}.rejects.jsonl`);
  expect(reject).toMatchObject({ id: 'short', code: 'values' });
  expect(reject?.reason).toContain('--map values=<path>');
  const verified = await rredcotHere(['verify', out]);
  expect(verified.code, verified.stdout).toBe(0);

  const cut = await rredcotHere(
    ['score', input, '-o', '-', '--format', 'jsonl', '--estimator', 'given', '--segmenter', 'fixed'],
    {
      cwd: folder,
    },
  );
  expect(cut.code).toBe(65);
  expect(cut.stderr).toMatch(/values has 4 entries, the trace has 2 exit points/);
});

it('warns of values that move in wrong traces alone, when they are scored, shared out again, and looked at', async () => {
  const folder = await temporaryFolder();
  const input = join(folder, 'marked.jsonl');
  const out = join(folder, 'marked.parquet');
  const rows = (await readJsonl<{ completion: string; reward: number }>(FIXTURES)).slice(0, 160);
  expect(rows.filter(({ reward }) => reward === 0).length).toBeGreaterThan(30);
  const marked = rows.map((row) => {
    const length = row.completion.indexOf('</think>');
    const ends = [Math.floor(length / 2), length];
    return { ...row, segment_char_ends: ends, values: row.reward === 1 ? [0.5, 0.5, 0.5] : [1, 1, 0] };
  });
  const flags = ['--estimator', 'given', '--segmenter', 'given', '--baseline', 'group'];
  const score = async (lines: readonly object[]) => {
    await writeFile(input, lines.map((row) => `${JSON.stringify(row)}\n`).join(''));
    const { code, stderr } = await rredcotHere(['score', input, '-o', out, ...flags]);
    expect(code, stderr).toBe(0);
    return stderr;
  };
  // where right traces move, too, nothing is of one side
  const both = marked.map((row) => ({ ...row, values: row.reward === 1 ? [0, 1, 1] : row.values }));
  expect(await score(both)).not.toContain('such credit');
  await rm(out);
  const sentence = /in 100 % of the right traces and 0 % of the wrong ones: such credit trained worse/;
  expect(await score(marked)).toMatch(sentence);
  const again = async (rule: string) => {
    const made = join(folder, `${rule}.parquet`);
    const { code, stderr } = await rredcotHere(['redistribute', out, '--sigma', rule, '-o', made]);
    expect(code, stderr).toBe(0);
    return stderr;
  };
  expect(await again('softmax')).toMatch(sentence);
  expect(await again('uniform')).not.toContain('such credit');
  const { stdout } = await rredcotHere(['summary', out, '--json']);
  expect(JSON.parse(stdout).warnings.map(({ code }: { code: string }) => code)).toContain('one_sided');
});
