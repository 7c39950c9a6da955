// Traces behind one prompt, which `score` reads once a window: the same numbers as by themselves, the same bytes however they are cut.
import { beforeAll, expect, it } from 'vitest';
import { type ScoredRow, storedValues } from '../support/program.js';
import { fixtureRows, openScene } from '../support/scene.js';

const GROUPS = ['top-0022', 'top-0026'];
const FLAGS = '--segmenter fixed --fixed-length 500 --max-segments 1';

const { done, expectSame, joinParts, rows, write } = await openScene();

beforeAll(async () => {
  // two groups of eight, whose completions are short beside their prompt of 34 tokens
  const traces = (await fixtureRows(0, 512)).filter(({ group }) => GROUPS.includes(group));
  expect(traces).toHaveLength(16);
  await write('traces.jsonl', traces);
  await done(`score traces.jsonl ${FLAGS} --rows-per-part 8 -o whole.jsonl`);
});

it('gives the numbers of traces that are alone, to 1e-5, and not by the same sums', async () => {
  await done(`score traces.jsonl ${FLAGS} --rows-per-part 1 -o apart.jsonl`);
  const [whole, apart] = [await rows('whole.jsonl'), await rows('apart.jsonl')];
  let worst = 0;
  for (const [n, row] of whole.entries()) {
    const alone = apart[n] as ScoredRow;
    expect(row.id).toBe(alone.id);
    const numbers = (of: ScoredRow) => [...of.logprobs, ...of.entropies, ...storedValues(of)];
    const [found, expected] = [numbers(row), numbers(alone)];
    expect(found).toHaveLength(expected.length);
    for (const [i, value] of found.entries())
      worst = Math.max(worst, Math.abs(value - (expected[i] as number)));
  }
  expect(worst).toBeLessThan(1e-5);
  expect(worst).toBeGreaterThan(0); // else nothing was shared
});

it('writes the same bytes in shards', async () => {
  for (const shard of [0, 1])
    await done(`score traces.jsonl ${FLAGS} --rows-per-part 8 --shard ${shard}/2 --format jsonl -o parts/`);
  await joinParts('parts', 'merged.jsonl');
  await expectSame('merged.jsonl', 'whole.jsonl');
});
