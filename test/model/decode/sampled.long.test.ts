// Monte Carlo values: of a toy policy against the sum over all continuations, and of a scored file against its own samples.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { continueTraces, withDecoder } from '../../../dist/model/decode/continue.js';
import { monteCarloValues } from '../../../dist/model/decode/sampled.js';
import { rowKey, type Written } from '../../../dist/model/decode/sampling.js';
import { tokenStats } from '../../oracle/llama.js';
import { enumerate } from '../../oracle/sampling.js';
import { seeded } from '../../oracle/toy.js';
import { LLAMA } from '../../support/checkpoints.js';
import { openFamily } from '../../support/family-checks.js';
import { rredcotHere } from '../../support/in-process.js';
import { FIXTURES, readJsonl, type ScoredRow, temporaryFolder } from '../../support/program.js';

const cwd = await temporaryFolder();

test.each([
  { temperature: 1, topP: 1 },
  { temperature: 0.7, topP: 0.9 },
])(
  'a policy small enough to sum over every continuation: values and what is lost are within 4 standard errors, %o',
  async (how) => {
    const vocab = 41;
    await using opened = await openFamily({ ...LLAMA, vocab_size: vocab }, { seed: 3 });
    const { model } = opened;
    const session = await withDecoder(opened.session);
    const next = (ids: readonly number[]) => tokenStats(model, ids).next;
    const random = seeded(9);
    const ids = Int32Array.from({ length: 9 }, () => Math.floor(random() * vocab));
    const stops = Array.from({ length: 9 }, (_, n) => 4 * n);
    const zeta = (written: readonly number[]) => (written.reduce((a, b) => a + b, 0) % 3) / 2;
    const [exits, M, limit] = [[2, 5, 9], 4000, 2];
    const starts = exits.flatMap((exit) =>
      Array.from({ length: M }, (_, m) => ({ exit, key: rowKey('toy', exit, m), most: limit })),
    );
    const [written] = await continueTraces(session, [{ ids, starts }], { ...how, stops, batch: 1024 });
    const utilities = exits.map((_, k) =>
      (written as Written[])
        .slice(k * M, (k + 1) * M)
        .map((own) => (own.finish === 'length' ? null : zeta([...own.ids]))),
    );
    const { values, columns } = monteCarloValues(utilities, 'zero');
    for (const [k, exit] of exits.entries()) {
      const exact = enumerate(next, [...ids.subarray(0, exit)], limit, new Set(stops), zeta, how);
      const error = (columns.value_sd as Float32Array)[k] as number;
      expect(error).toBeGreaterThan(0);
      expect(Math.abs((values[k] as number) - exact.value)).toBeLessThan(4 * error);
      const lost = (columns.lost_fraction as Float32Array)[k] as number;
      expect(Math.abs(lost - exact.lost)).toBeLessThan(4 * Math.sqrt((exact.lost * (1 - exact.lost)) / M));
    }
  },
);

interface Sampled extends ScoredRow {
  readonly answer: string;
  readonly value_sd: number[];
  readonly lost_fraction: number[];
  readonly samples: {
    exit: number;
    completion: string;
    completion_ids: number[];
    finish_reason: string;
    utility: number | null;
  }[];
}

async function scored(name: string, ...flags: string[]): Promise<Sampled[]> {
  const args = ['score', 'traces.jsonl', '-o', name, '--max-segments', '4', ...flags];
  const { code, stderr } = await rredcotHere(args, { cwd });
  expect(code, stderr).toBe(0);
  return name.endsWith('.jsonl') ? readJsonl<Sampled>(join(cwd, name)) : [];
}

const M = 8;
const HOW = ['--estimator', 'mc', '--mc-samples', String(M)];

test('a scored file: has values that are the means of its samples, which go on from their exits', async () => {
  const traces = (await readJsonl<Record<string, unknown>>(FIXTURES)).slice(0, 2);
  await writeFile(join(cwd, 'traces.jsonl'), traces.map((row) => `${JSON.stringify(row)}\n`).join(''));
  const rows = await scored('mc.jsonl', ...HOW, '--keep-samples');
  for (const row of rows) {
    const thoughts = row.segments.filter(({ kind }) => kind === 'thought');
    const values = [row.value_start, ...thoughts.map(({ value }) => value)];
    const ends = [0, ...thoughts.map(({ char_end }) => char_end as number)];
    expect(row.samples.length).toBe(M * values.length);
    for (const [k, value] of values.entries()) {
      const own = row.samples.filter(({ exit }) => exit === k);
      const right = own.map(({ completion, finish_reason: finish }) => {
        const whole = row.completion.slice(0, k === 0 ? '<think>'.length : ends[k]) + completion;
        expect(finish).toBe('stop');
        return whole.split('answer: ').at(-1)?.trimEnd() === row.answer ? 1 : 0;
      });
      expect(own.map(({ utility }) => utility)).toEqual(right);
      const mean = right.reduce<number>((a, b) => a + b, 0) / M;
      expect(Math.fround(value as number)).toBe(Math.fround(mean));
      expect(row.value_sd[k]).toBeCloseTo(Math.sqrt((mean * (1 - mean)) / M), 6);
      expect(row.lost_fraction[k]).toBe(0);
    }
    expect(row.baseline).toBe(row.value_start); // V(s_0), on the reward's scale
    expect(new Set(row.samples.map(({ completion }) => completion)).size).toBeGreaterThan(values.length);
  }
  // nothing depends on what is sampled beside
  const apart = ['--batch', '5', '--rows-per-part', '1'];
  const again = await scored('apart.jsonl', ...HOW, '--keep-samples', ...apart);
  expect(again.map(({ samples }) => samples)).toEqual(rows.map(({ samples }) => samples));
  const other = await scored('seed.jsonl', ...HOW, '--seed', '1');
  expect(other.map(({ value_sd }) => value_sd)).not.toEqual(rows.map(({ value_sd }) => value_sd));
  expect(other[0]?.samples).toBeUndefined();
  const verified = await rredcotHere(['verify', 'mc.jsonl'], { cwd });
  expect(verified.code, verified.stdout).toBe(0);
});
