// Column types guessed from the first rows: the output is the one that a look at all rows would have given.
import { spawnSync } from 'node:child_process';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { guessColumns, TypesChangedError } from '../dist/io/guess.js';
import { inferColumns } from '../dist/io/schema.js';
import { inputRow, queryDuckdb } from './io-helpers.js';
import { ROOT, rredcot, temporaryFolder } from './program.js';

type Columns = Record<string, unknown>;

function typesOf(rows: readonly Columns[]): string {
  const inference = inferColumns();
  for (const row of rows) inference.add(row);
  return JSON.stringify(inference.finish());
}

/** Whether a guess from the first rows stands against the others. */
async function holds(first: readonly Columns[], others: readonly Columns[]): Promise<boolean> {
  async function* rows() {
    for (const row of first) yield inputRow(row);
  }
  const guess = await guessColumns(rows(), () => 1);
  expect(JSON.stringify(guess.columns)).toBe(typesOf(first));
  try {
    for (const row of others) guess.watch(inputRow(row));
    return true;
  } catch (error) {
    if (error instanceof TypesChangedError) return false;
    throw error;
  }
}

describe('a guess', () => {
  // few names and kinds, so that rows often agree
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 2 },
      fc.constantFrom(null, true, 1, 2, 0.5, 'a', 9007199254740993n, 2n ** 70n),
      fc.array(tie('value'), { maxLength: 2 }),
      fc.dictionary(fc.constantFrom('x', 'y'), tie('value'), { maxKeys: 2 }),
    ),
  }));
  const rows = fc.array(fc.dictionary(fc.constantFrom('a', 'b'), value, { maxKeys: 2 }), { maxLength: 4 });

  it('stands until a row makes the types so far others than those of the first rows', async () => {
    const seen = { stood: 0, fell: 0 };
    await fc.assert(
      fc.asyncProperty(rows, rows, async (first, others) => {
        const isSame = others.every(
          (_, n) => typesOf([...first, ...others.slice(0, n + 1)]) === typesOf(first),
        );
        expect(await holds(first, others)).toBe(isSame);
        if (others.length > 0) seen[isSame ? 'stood' : 'fell']++;
      }),
      { numRuns: 2000 },
    );
    expect(Math.min(seen.stood, seen.fell)).toBeGreaterThan(100);
  });

  it('that stands in two processes, each with a part of the rows, stands for all of them', async () => {
    let stood = 0;
    await fc.assert(
      fc.asyncProperty(rows, rows, rows, async (first, some, others) => {
        if (!((await holds(first, some)) && (await holds(first, others)))) return;
        stood++;
        expect(typesOf([...first, ...some, ...others])).toBe(typesOf(first));
      }),
      { numRuns: 2000 },
    );
    expect(stood).toBeGreaterThan(100);
  });
});

describe('segment --no-policy', () => {
  let folder: string;
  const row = (n: number, more: { level: number; note?: string }) => ({
    ...{ id: `r${n}`, completion: `Step ${n}.\nA: ${n}` },
    ...more,
  });
  beforeAll(async () => {
    folder = await temporaryFolder();
  });
  const segment = (...args: string[]) =>
    rredcot(['segment', '--no-policy', ...args, '--rows-per-chunk', '256'], { cwd: folder });

  it('begins anew where a late row changes the types, and leaves nothing behind', async () => {
    // whole numbers, then a fraction; a column that only late rows have
    const rows = Array.from({ length: 3000 }, (_, n) =>
      row(n, n < 2500 ? { level: n } : { level: n + 0.5, note: 'x' }),
    );
    await writeFile(join(folder, 'late.jsonl'), rows.map((each) => JSON.stringify(each)).join('\n'));
    const { code, stderr } = await segment('late.jsonl', '-o', 'late.parquet');
    expect(stderr).toContain('late.jsonl:2500 changes the column types of the first rows');
    expect(code).toBe(0);
    const from = `from '${join(folder, 'late.parquet')}'`;
    const types = await queryDuckdb(
      `select column_name as name, column_type as type from (describe ${from})`,
    );
    expect(types).toEqual(
      expect.arrayContaining([
        { name: 'level', type: 'DOUBLE' },
        { name: 'note', type: 'VARCHAR' },
      ]),
    );
    const sums = `select count(*)::int as rows, sum(level) as levels, count(note)::int as notes ${from}`;
    const levels = rows.reduce((sum, { level }) => sum + level, 0);
    expect(await queryDuckdb(sums)).toEqual([{ rows: 3000, levels, notes: 500 }]);
    expect((await readdir(folder)).filter((name) => name.startsWith('.'))).toEqual([]);
  });

  it('writes the columns that a look at all rows would have given', async () => {
    const rows = Array.from({ length: 1500 }, (_, n) => row(n, { level: n % 7 }));
    const late = [...rows, row(1500, { level: 0.5 })];
    await writeFile(join(folder, 'same.jsonl'), rows.map((each) => JSON.stringify(each)).join('\n'));
    await writeFile(join(folder, 'other.jsonl'), late.map((each) => JSON.stringify(each)).join('\n'));
    // two shards are surveyed; one is not
    expect((await segment('same.jsonl', '-o', 'guessed/')).code).toBe(0);
    expect(await readdir(join(folder, 'guessed'))).not.toContain('survey.json');
    expect((await segment('same.jsonl', '-o', 'surveyed/', '--shard', '0/2')).code).toBe(0);
    expect(await readdir(join(folder, 'surveyed'))).toContain('survey.json');
    const describe = (path: string) =>
      queryDuckdb(`describe from '${join(folder, path)}/chunks/*/*.parquet'`);
    expect(await describe('guessed')).toEqual(await describe('surveyed'));
    // a fraction at the end: the run folder is as if all had been read from the start
    expect((await segment('other.jsonl', '-o', 'other/')).code).toBe(0);
    expect(await readdir(join(folder, 'other'))).toContain('survey.json');
    const [level] = await queryDuckdb(
      `select sum(level) as sum, typeof(any_value(level)) as type from '${join(folder, 'other')}/chunks/*/*.parquet'`,
    );
    expect(level).toEqual({
      sum: late.reduce((sum, each) => sum + each.level, 0),
      type: 'DOUBLE',
    });
  });

  it('takes no columns from rows beyond --limit', async () => {
    const rows = [row(0, { level: 1 }), row(1, { level: 2 }), row(2, { level: 0.5, note: 'x' })];
    await writeFile(join(folder, 'limit.jsonl'), rows.map((each) => JSON.stringify(each)).join('\n'));
    expect((await segment('limit.jsonl', '-o', 'limit.parquet', '--limit', '2')).code).toBe(0);
    const types = await queryDuckdb(
      `select column_name as name, column_type as type from (describe from '${join(folder, 'limit.parquet')}')`,
    );
    expect(types).toContainEqual({ name: 'level', type: 'BIGINT' });
    expect(types).not.toContainEqual(expect.objectContaining({ name: 'note' }));
  });

  it('may die while it begins anew: the same command then ends with the same bytes', async () => {
    const rows = Array.from({ length: 1300 }, (_, n) => row(n, { level: n < 1200 ? n : 0.5 }));
    await writeFile(join(folder, 'dies.jsonl'), rows.map((each) => JSON.stringify(each)).join('\n'));
    const whole = await segment('dies.jsonl', '-o', 'whole.arrow');
    expect(whole.stderr).toContain('dies.jsonl:1200 changes the column types');
    // in the first chunk of the guess, when its chunks go, and before the survey is there
    const deaths = [
      { op: 'rename', path: 'chunks/.*/000002', nth: 0, when: 'before' },
      { op: 'rm', path: 'chunks', nth: 0, when: 'after' },
      { op: 'write', path: 'survey\\.json', nth: 0, when: 'before' },
      { op: 'rename', path: 'chunks/.*/000002', nth: 1, when: 'before' },
    ];
    for (const death of deaths) {
      const args = ['segment', '--no-policy', 'dies.jsonl', '-o', 'dies.arrow', '--rows-per-chunk', '256'];
      const hook = ['--import', join(ROOT, 'test/torture/fs-hook.mjs'), join(ROOT, 'bin/rredcot.js')];
      const env = { ...process.env, RREDCOT_FS_PLAN: JSON.stringify({ under: 'dies.arrow', ...death }) };
      const { signal } = spawnSync(process.execPath, [...hook, ...args], { cwd: folder, env });
      expect([death, signal]).toEqual([death, 'SIGKILL']);
      expect((await segment('dies.jsonl', '-o', 'dies.arrow')).code).toBe(0);
      expect(await readFile(join(folder, 'dies.arrow'))).toEqual(await readFile(join(folder, 'whole.arrow')));
      await rm(join(folder, 'dies.arrow'));
    }
    expect((await readdir(folder)).filter((name) => name.startsWith('.'))).toEqual([]);
  });
});
