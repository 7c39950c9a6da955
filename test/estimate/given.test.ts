// `--estimator given`: values that a row brings along become its credit; one that brings another number of them is rejected.
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { ROOT, type ScoredRow } from '../support/program.js';
import { fixtureRows, openScene } from '../support/scene.js';

const { at, done, fails, json, rows, write } = await openScene();

it('takes the published values of Thought Anchors by its preset, on its own segments', async () => {
  const row = await json(join(ROOT, 'test/io/map/dumps/thought-anchors.jsonl'));
  const chunks = [...row.chunks.slice(0, 2), { ...row.chunks[2], accuracy: null }];
  await write('anchors.jsonl', [row, { ...row, id: 'short', chunks }]);
  await done('score anchors.jsonl -o given.jsonl --estimator given --segmenter given --sigma rudder');
  const [scored] = await rows<ScoredRow & { reference_tokens: number[] }>('given.jsonl');
  expect([scored?.value_start, scored?.baseline]).toEqual([0.9, 0.9]);
  expect(scored?.segments.map(({ value }) => value)).toEqual([0.9, 1, 1, null]);
  for (const [k, delta] of [0, 0.1, 0].entries()) expect(scored?.segments[k]?.delta).toBeCloseTo(delta, 6);
  expect([scored?.reference_logprobs, scored?.reference_tokens]).toEqual([[[], [], [], []], []]);
  const [reject] = await rows<{ id: string; code: string; reason: string }>('given.jsonl.rejects.jsonl');
  expect(reject).toMatchObject({ id: 'short', code: 'values' });
  expect(reject?.reason).toContain('--map values=<path>');
  const why = /values has 4 entries, the trace has 2 exit points/;
  await fails('score anchors.jsonl -o - --format jsonl --estimator given --segmenter fixed', 65, why);
});

it('warns of values that move in wrong traces alone, when they are scored, shared out again, and looked at', async () => {
  const fixtures = await fixtureRows(0, 160);
  expect(fixtures.filter(({ reward }) => reward === 0).length).toBeGreaterThan(30);
  const score = async (right: number[]) => {
    const marked = fixtures.map((row) => {
      const length = row.completion.indexOf('</think>');
      const ends = [Math.floor(length / 2), length];
      return { ...row, segment_char_ends: ends, values: row.reward === 1 ? right : [1, 1, 0] };
    });
    await write('marked.jsonl', marked);
    const flags = '--estimator given --segmenter given --baseline group';
    return (await done(`score marked.jsonl -o marked.parquet ${flags}`)).stderr;
  };
  // where right traces move, too, nothing is of one side
  expect(await score([0, 1, 1])).not.toContain('such credit');
  await rm(at('marked.parquet'));
  const sentence = /in 100 % of the right traces and 0 % of the wrong ones: such credit trained worse/;
  expect(await score([0.5, 0.5, 0.5])).toMatch(sentence);
  const again = async (rule: string) =>
    (await done(`redistribute marked.parquet --sigma ${rule} -o ${rule}.parquet`)).stderr;
  expect(await again('softmax')).toMatch(sentence);
  expect(await again('uniform')).not.toContain('such credit');
  const { warnings } = JSON.parse((await done('summary marked.parquet --json')).stdout);
  expect(warnings.map(({ code }: { code: string }) => code)).toContain('one_sided');
});
