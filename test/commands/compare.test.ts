/** `rredcot compare` on files: several of them matched, what is left out and told, the three forms of its output. */
import { beforeAll, describe, expect, it } from 'vitest';
import type { CreditPair } from '../../dist/report/correlations.js';
import { seeded } from '../oracle/toy.js';
import { FIXTURES } from '../support/program.js';
import { jsonLines, openScene } from '../support/scene.js';

const { done, fails, run, text, write } = await openScene();

interface Row {
  id: string;
  reward: number | null;
  baseline: number;
  status: string;
  segments: { start: number; end: number; kind: string; delta: number; sigma: number }[];
}

/** Scored rows of five thoughts and an answer, whose truth is known. */
function rows(n: number, seed = 1): Row[] {
  const random = seeded(seed);
  return Array.from({ length: n }, (_, i) => {
    const segments = Array.from({ length: 6 }, (_, k) => {
      const change = k < 5 ? random() : 0;
      const kind = k < 5 ? 'thought' : 'answer';
      return { start: 4 * k, end: 4 * k + 4, kind, delta: change + random() / 4, sigma: random() };
    });
    return { id: `t${i}`, reward: i % 2, baseline: 0.5, status: 'ok', segments };
  });
}

/** Rows, and lines that are none. */
const writeRows = (name: string, lines: readonly (Row | string)[]) =>
  write(name, lines.map((line) => (typeof line === 'string' ? `${line}\n` : jsonLines([line]))).join(''));

const compared = async (line: string): Promise<CreditPair[]> =>
  JSON.parse((await done(`compare ${line} --json`)).stdout).pairs;
const namesOf = (pairs: readonly CreditPair[]) => [...new Set(pairs.flatMap(({ a, b }) => [a, b]))];
const find = (pairs: readonly CreditPair[], a: string, b: string) =>
  pairs.find((pair) => pair.a === a && pair.b === b);

beforeAll(() => writeRows('scored.jsonl', rows(20)));

describe('one file', () => {
  it('compares its differences and σ', async () => {
    const pairs = await compared('scored.jsonl');
    expect(namesOf(pairs)).toEqual(['first_third', 'delta', 'sigma', 'shuffled']);
    const { traces, groups, segments, pearson, spearman } = find(pairs, 'delta', 'sigma') as CreditPair;
    expect({ traces, groups, segments }).toEqual({ traces: 20, groups: 20, segments: 100 });
    expect(pearson.low).toBeLessThan(pearson.value as number);
    expect(spearman.high).toBeGreaterThan(spearman.value as number);
    // the same numbers at other places
    const { low, high } = find(pairs, 'shuffled', 'delta')?.pearson ?? {};
    expect(low).toBeLessThan(0.2);
    expect(high).toBeGreaterThan(-0.2);
    expect(high).toBeLessThan(0.5);
  });

  it('prints a table, and CSV with a line a pair, the same each time', async () => {
    const line = 'compare scored.jsonl';
    const { stdout: table } = await done(line);
    expect(table).toMatch(/^inside traces +traces +groups +segments +Pearson +Spearman\n/);
    expect(table).toMatch(/^delta ~ sigma +20 +20 +100 +−?0\.\d\d \[−?0\.\d\d, /m);
    const csv = (await done(`${line} --csv`)).stdout.trimEnd().split('\n');
    expect(csv).toHaveLength(1 + (await compared('scored.jsonl')).length);
    expect(csv[0]).toContain('credit,with,traces,groups,segments,pearson,pearson_low');
    expect((await done(`${line} --csv`)).stdout.trimEnd().split('\n')).toEqual(csv);
  });
});

describe('several files', () => {
  it('are matched by id, whatever their order; what does not match is left out, counted and told', async () => {
    const [first, second, third, fourth, ...rest] = rows(20) as [Row, Row, Row, Row, ...Row[]];
    const moved = structuredClone(second);
    Object.assign(moved.segments[0] ?? {}, { end: 5 });
    const other = [
      ...[...rest.reverse(), first, moved, third, third, '{"id":'],
      ...[{ id: 'stranger' }, { segments: [] }].map((change) => ({ ...fourth, ...change })),
    ];
    await writeRows('other.jsonl', other);
    const { stdout, stderr } = await done('compare scored.jsonl other.jsonl --json --log-json');
    const pairs: CreditPair[] = JSON.parse(stdout).pairs;
    expect(namesOf(pairs)).toEqual([
      'first_third',
      'delta',
      'sigma',
      'other:delta',
      'other:sigma',
      'shuffled',
    ]);
    expect(find(pairs, 'delta', 'other:delta')).toMatchObject({ traces: 18, pearson: { value: 1 } });
    const told = stderr.trim().split('\n');
    expect(told.flatMap((record) => JSON.parse(record).code ?? []).sort()).toEqual(
      'credit duplicate_id json missing no_partner other_segments'.split(' '),
    );
    expect(stderr).toContain('is cut at other places');
    const elsewhere = rows(3).map((row) => ({ ...row, id: `elsewhere-${row.id}` }));
    await writeRows('none.jsonl', elsewhere);
    await fails('compare scored.jsonl none.jsonl', 65, /none\.jsonl: no trace of it is in the first file/);
  });

  it("leave what the first file's credits have to beat as it was", async () => {
    await writeRows(
      'based.jsonl',
      rows(20).map((row) => ({ ...row, baseline: 0.1 })),
    );
    const alone = find(await compared('scored.jsonl'), 'first_third', 'delta');
    expect(find(await compared('scored.jsonl based.jsonl'), 'first_third', 'delta')).toEqual(alone);
  });

  it('of this program are called after estimator and rule', async () => {
    const score = `score ${FIXTURES} --limit 12 --quiet`;
    await done(`${score} -o pr.parquet`);
    await done(`${score} -o geo.jsonl --estimator pr-geo --sigma rudder,softmax`);
    // JSON lines by the summary beside them
    const pairs = await compared('pr.parquet geo.jsonl');
    const all = ['uniform', 'first_third', 'unlikely', 'shuffled', 'pr', 'sigma_share'];
    expect(namesOf(pairs).sort()).toEqual([...all, 'pr-geo', 'sigma_rudder', 'sigma_softmax'].sort());
    // what any credit has to beat is held against credits alone
    expect(find(pairs, 'uniform', 'unlikely')).toBeUndefined();
    expect(find(pairs, 'pr', 'pr-geo')?.spearman.value).toBeGreaterThan(0.8);
  });
});

describe('what cannot be compared', () => {
  it('two forms at once', async () => {
    await fails('compare scored.jsonl --json --csv', 2, /leave out one/);
  });

  it('a file that is not there, and rows that were not scored', async () => {
    expect((await run('compare nowhere.parquet')).code).toBe(2);
    await fails(`compare ${FIXTURES}`, 65, /no segments, expected a row that was scored or cut/);
  });

  it('a file that was edited after it was scored; one that nobody has hashed is taken, and a stream', async () => {
    await done(`score ${FIXTURES} --limit 4 --quiet -o edited.jsonl`);
    await done('compare edited.jsonl --json');
    await write('edited.jsonl', (await text('edited.jsonl')).replace('"baseline":', '"baseline": '));
    await fails('compare edited.jsonl', 65, 'is not the file that was written');
    expect((await run('compare - --json', await text('scored.jsonl'))).code).toBe(0);
  });
});
