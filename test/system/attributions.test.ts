/** examples/attributions.py and examples/prm.py over real checkpoints: the numbers of the estimators that this program once had. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { EMBEDDED, FIXTURES, ROOT, type ScoredRow } from '../support/program.js';
import { ONE_THREAD, pythonWith } from '../support/python.js';
import { openScene } from '../support/scene.js';

/** Of the first 8 traces of chains.jsonl: values at the exit points (of attributions sums of a_k), and σ of each segment. */
const BEFORE: Record<string, { values: number[]; sigma: number[] }[]> = JSON.parse(
  readFileSync(join(ROOT, 'test/files/attributions.json'), 'utf8'),
);
const python = pythonWith('torch, transformers');
const { at, done, rows, write } = await openScene();

describe.skipIf(python === undefined)('examples for --estimator given (skipped without transformers)', () => {
  beforeAll(() => done(`segment ${FIXTURES} --limit 8 -o cut.jsonl`));

  /** What a script writes of the traces, and what score makes of that. */
  async function made(script: string, name: string, ...args: string[]) {
    const path = join(ROOT, 'examples', script);
    const { status, stdout, stderr } = spawnSync(python as string, [path, ...args, at('cut.jsonl')], {
      env: ONE_THREAD,
      encoding: 'utf8',
      maxBuffer: 2 ** 26,
    });
    expect(status, stderr).toBe(0);
    await write(`${name}.jsonl`, stdout);
    const flags = '--estimator given --segmenter given --baseline group';
    await done(`score ${name}.jsonl ${flags} -o ${name}.scored.jsonl`);
    return {
      valued: await rows<{ values: number[]; attributions: number[] }>(`${name}.jsonl`),
      scored: await rows<ScoredRow>(`${name}.scored.jsonl`),
    };
  }

  function expectSigma(scored: readonly ScoredRow[], name: string) {
    for (const [n, { segments }] of scored.entries())
      for (const [k, { sigma }] of segments.entries())
        expect(sigma).toBeCloseTo(BEFORE[name]?.[n]?.sigma[k] as number, 3);
  }

  it.each(['gradient', 'attention'])('%s of every segment, and the same σ', async (by) => {
    const { valued, scored } = await made('attributions.py', by, by, EMBEDDED);
    expect(valued).toHaveLength(8);
    for (const [n, { attributions }] of valued.entries()) {
      const values = BEFORE[by]?.[n]?.values as number[];
      const expected = values.slice(1).map((value, k) => value - (values[k] as number));
      expect(attributions).toHaveLength(expected.length);
      const largest = Math.max(...expected);
      for (const [k, a] of attributions.entries())
        expect(Math.abs(a - (expected[k] as number)) / largest, `${by} of trace ${n}`).toBeLessThan(2e-4);
    }
    expectSigma(scored, by);
  });

  it('P(right) of every step by models/prm, and the same σ', async () => {
    const { valued, scored } = await made('prm.py', 'prm', join(ROOT, 'models/prm'));
    for (const [n, { values }] of valued.entries()) {
      const expected = BEFORE.prm?.[n]?.values as number[];
      expect(values).toHaveLength(expected.length);
      for (const [k, value] of values.entries()) expect(value).toBeCloseTo(expected[k] as number, 4);
    }
    expectSigma(scored, 'prm');
  });
});
