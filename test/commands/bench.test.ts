/** `rredcot bench`: the sets that ship, the rows that are committed, a stranger's script, and credits that are not what they should be. */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { BenchRow } from '../../dist/compare/bench.js';
import { ROOT } from '../support/program.js';
import { jsonLines, openScene } from '../support/scene.js';

const { done, fails, json, text, write } = await openScene();
const page = await import(join(ROOT, 'bench/benchmark.mjs'));

interface Row {
  id: string;
  group: string;
  half: string;
  prompt: string;
  completion: string;
  reward: number;
  segment_ends: number[];
  logprobs: number[];
  values?: number[];
  wins_first?: number[];
  wins_second?: number[];
}
const SETS = ['puzzles', 'embedded', 'bifurcation'];
const lines = (of: string) =>
  of
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Row);
const sets = new Map<string, Row[]>();
const walks = () => (sets.get('bifurcation') as Row[]).filter(({ half }) => half === 'choose');
const valued = () => walks().map(({ id, values }) => ({ id, values }));
const benched = async (name: string, rows: readonly object[], flags = ''): Promise<BenchRow> => {
  await write(`${name}.jsonl`, jsonLines(rows));
  await done(`bench bifurcation ${name}.jsonl -o ${name}.json ${flags}`);
  return json(`${name}.json`);
};
const figure = ({ figures }: BenchRow, measure: string, credit = 'row', traces = 'all') =>
  figures.find((f) => f.measure === measure && f.credit === credit && f.traces === traces)?.value;

beforeAll(async () => {
  for (const set of SETS) sets.set(set, lines((await done(`bench ${set} --half all`)).stdout));
});

describe('the sets that ship', () => {
  it('come before a file or a folder of their name, such as that of a policy', async () => {
    await write('reach', '{}');
    expect(lines((await done('bench reach')).stdout)[0]?.id).toBe('bench-reach-0000/0');
  });

  it('have no problem of the fixtures, and whole groups in either half', () => {
    const known = ['chains', 'puzzles'].flatMap((name) =>
      lines(readFileSync(join(ROOT, `fixtures/${name}.jsonl`), 'utf8')),
    );
    const prompts = new Set(known.map(({ prompt }) => prompt));
    for (const rows of sets.values()) {
      expect(rows.filter(({ prompt }) => prompts.has(prompt))).toEqual([]);
      const halves = new Map(rows.map(({ group, half }) => [group, half]));
      expect(rows.filter(({ group, half }) => halves.get(group) !== half)).toEqual([]);
      expect([...halves.values()].filter((half) => half === 'judge')).toHaveLength(12);
    }
    expect(SETS.map((set) => sets.get(set)?.length)).toEqual([144, 144, 192]);
  });

  it('have the values of the walk that its prompt tells, summed over every way', () => {
    for (const { prompt, completion, segment_ends, values, reward } of walks()) {
      const ways = new Map(
        [...prompt.matchAll(/(\w\d)>(\S+ [\d.]+(?:\|\S+ [\d.]+)*)/g)].map(([, from, to]) => [
          from,
          to?.split('|'),
        ]),
      );
      const chance = (place: string): number =>
        ways.get(place)?.reduce((sum, way) => {
          const [to, odds] = way.split(' ') as [string, string];
          return sum + Number(odds) * chance(to);
        }, 0) ?? Number(place === 'h0');
      const places = ['a0'];
      for (const [k, end] of segment_ends.entries())
        places.push(
          /to (\w\d)\n$/.exec(completion.slice(segment_ends[k - 1] ?? 0, end))?.[1] ?? (places[k] as string),
        );
      expect(values).toHaveLength(places.length);
      for (const [k, place] of places.entries()) expect(values?.[k]).toBeCloseTo(chance(place), 12);
      expect(values?.at(-1)).toBe(reward);
    }
  });
});

describe('rows', () => {
  const folder = join(ROOT, 'docs/benchmark');
  const committed = readdirSync(folder).flatMap((set) =>
    readdirSync(join(folder, set)).map((name) => ({
      set,
      text: readFileSync(join(folder, set, name), 'utf8'),
    })),
  );

  it('that are committed make the page, and are of the sets that ship, of all of their judged traces', () => {
    expect(readFileSync(join(ROOT, 'docs/benchmark.md'), 'utf8')).toBe(page.pageWith(page.rowsPart()));
    for (const { set, text } of committed) {
      const bytes = readFileSync(join(ROOT, `fixtures/bench/${set}.parquet`));
      const row = JSON.parse(text) as BenchRow;
      expect(row.made_by).not.toBeNull();
      expect([row.set, row.set_sha256, row.half]).toEqual([
        `${set}@${set === 'reach' ? 2 : 1}`,
        createHash('sha256').update(bytes).digest('hex'),
        'judge',
      ]);
      expect([row.counted, row.left_out]).toEqual([row.traces, {}]);
    }
    expect(committed.length).toBeGreaterThan(25);
  });

  const python = spawnSync('python3', ['--version']).status === 0;
  it.skipIf(!python)(
    `of the page's script have the bytes that are committed${python ? '' : ' (skipped: no python3)'}`,
    async () => {
      expect(page.stranger().trim().split('\n').length).toBeLessThan(21);
      for (const set of SETS) {
        const { stdout: input } = await done(`bench ${set} --half judge`);
        await write(
          'entropy-of-lines.jsonl',
          spawnSync('python3', ['-c', page.stranger()], { input, encoding: 'utf8' }).stdout,
        );
        const how = ['--name', 'entropy of lines', '--made-by', 'the script of docs/benchmark.md'];
        await done(['bench', set, 'entropy-of-lines.jsonl', '--half', 'judge', ...how]);
        expect(await text('row.json')).toBe(readFileSync(join(folder, set, 'entropy-of-lines.json'), 'utf8'));
      }
    },
  );

  it('of a scored file have the figures of compare, and beside them those of the set', async () => {
    await write('walks.jsonl', jsonLines(walks()));
    // the set's own uniform credit has the group's mean as its baseline
    await done(
      'score walks.jsonl --estimator given --segmenter given --baseline group -o scored.parquet --quiet',
    );
    await done('bench bifurcation scored.parquet');
    const row: BenchRow = await json('row.json');
    expect([row.name, figure(row, 'share')]).toEqual(['given', 1]);
    // values are stored as 32-bit floats
    expect(figure(row, 'level_error')).toBeLessThan(1e-7);
    const compared = JSON.parse(
      (await done('compare scored.parquet --values mc=values --truth mc --json')).stdout,
    );
    for (const measure of ['pearson', 'sign_of_large', 'worst_segment']) {
      const traces = measure === 'worst_segment' ? 'wrong' : 'all';
      const own = compared.figures.find(
        (f: { measure: string; credit: string; traces: string; last: number }) =>
          f.measure === measure && f.credit === 'uniform' && f.traces === traces && f.last === 1,
      );
      expect(figure(row, measure, 'uniform', traces)).toBeCloseTo(own.value, 5);
    }
    expect(figure(row, 'hit_at_1')).toBeUndefined();
  });

  it('of another policy than the one that wrote the traces say so', async () => {
    await write('walks.jsonl', jsonLines(walks()));
    await done('score walks.jsonl --estimator surprise --segmenter given -o foreign.parquet --quiet');
    const { said } = await done('bench bifurcation foreign.parquet');
    expect(said).toContain('! 96 traces scored by another policy than the one that wrote them');
    const row: BenchRow = await json('row.json');
    expect(row.other_policy).toBe(96);
    await write('own.jsonl', (await done('bench embedded --half judge')).stdout);
    await done('score own.jsonl --segmenter given -o own.parquet --quiet');
    const own = await done('bench embedded own.parquet --half judge');
    expect(own.said).not.toContain('another policy');
    const ownRow: BenchRow = await json('row.json');
    expect(ownRow).not.toHaveProperty('other_policy');
  });

  it('of surprise are what its estimator and a column a token make of it', async () => {
    const sign = new Map(walks().map((row) => [row.group, 0]));
    for (const { group, reward } of walks()) sign.set(group, (sign.get(group) as number) + reward / 8);
    const tokens = walks().map(({ id, group, reward, logprobs }) => {
      const weight = Math.sign(reward - (sign.get(group) as number));
      // of this task no segment has two tokens that are unsure
      return { id, tokens: logprobs.map((logprob) => -weight * logprob), tokens_spent: 2 * logprobs.length };
    });
    const row = await benched('tokens', tokens);
    expect(figure(row, 'pearson')).toBe(figure(row, 'pearson', 'surprise'));
    expect(row.tokens_spent).toBe(2);
    const shuffled = figure(row, 'share', 'shuffled');
    expect(figure(await benched('seed', tokens, '--seed 1'), 'share', 'shuffled')).not.toBe(shuffled);
  });
});

describe('credits that are not as they should be', () => {
  it('of single traces are left out, counted and told', async () => {
    const [first, second, third, fourth, ...others] = valued();
    const rows = [
      { ...second, values: second?.values?.slice(1).slice(1) },
      { ...third, values: third?.values?.map(() => null) },
      { ...fourth, id: 'nobody' },
      { values: [] },
      ...others,
      others[0] as object,
    ];
    await write('some.jsonl', `${jsonLines(rows)}no json\n`);
    const { said } = await done('bench bifurcation some.jsonl');
    const row: BenchRow = await json('row.json');
    expect([row.traces, row.counted]).toEqual([96, 92]);
    expect(Object.entries(row.left_out).map(([code, { count }]) => [code, count])).toEqual([
      ['credit', 3],
      ['no_partner', 2],
      ['json', 1],
      ['missing', 4],
    ]);
    // of each kind the first is told
    expect(said).toContain(`id "${first?.id}" has no credit in some.jsonl`);
    expect(said).toMatch(/some.jsonl:0: --values values: values has \d+ numbers, expected/);
    expect(said).toContain('some.jsonl:2: id "nobody" is not in the set');
    expect(said).toContain('92 of 96 traces');
  });

  it('of another set, of no trace, or cut elsewhere are refused', async () => {
    await write('other.jsonl', jsonLines(valued().map((row) => ({ ...row, set: 'bifurcation@2' }))));
    await fails(
      'bench bifurcation other.jsonl',
      65,
      'is of the set bifurcation@2, and this one is bifurcation@1',
    );
    await write('own.jsonl', jsonLines(valued()));
    await fails('bench puzzles own.jsonl', 65, 'has credit for no trace of puzzles@1');
    await fails('bench bifurcation own.jsonl --credit a --tokens b', 2, 'a row has one credit');
    await fails('bench bifurcation own.jsonl --credit b', 65, 'has nothing at b');
    await fails('bench own.jsonl own.jsonl', 65, 'is no row of a set');
    await fails('bench nothing own.jsonl', 2, 'bench embedded|puzzles|bifurcation');
    await fails('bench bifurcation own.jsonl -o own.jsonl', 2, 'is an input');
    const cut = walks().map((row) => ({
      ...row,
      segment_ends: [8, ...row.segment_ends.slice(1)],
      values: row.values,
    }));
    await write('cut.jsonl', jsonLines(cut));
    await done('score cut.jsonl --estimator given --segmenter given -o cut.parquet --quiet');
    await fails('bench bifurcation cut.parquet', 65, 'is cut at other places than the set');
  });

  it('a set that is none of its own form is refused, by its row', async () => {
    const refused = async (change: object, why: string) => {
      await write('set.jsonl', jsonLines(walks().map((row, n) => (n === 1 ? { ...row, ...change } : row))));
      await fails('bench set.jsonl own.jsonl', 65, why);
    };
    await refused({ set: 'another@1' }, 'set.jsonl:1: is of another set: bifurcation@1 and another@1');
    await refused({ values: [1] }, 'values has 1 numbers, expected');
    await refused({ reward: null }, 'expected id, half and reward');
    await refused({ first_wrong: 99 }, 'first_wrong is 99, expected a segment from 0 to');
    await refused({ segment_ends: [5, 4] }, 'that rise to');
    await refused({ id: walks()[0]?.id }, 'is there twice');
    await refused({ wins_first: walks()[1]?.values, completions_a_half: 0 }, 'expected wins between 0');
  });
});
