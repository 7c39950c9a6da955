// `filter` keeps what fits all conditions, as it is, and counts what each of them removed.
import { execFileSync } from 'node:child_process';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { StoredTrace } from '../../dist/commands/scored/scored-rows.js';
import { FIGURES, parseWhere } from '../../dist/commands/scored/where.js';
import { OUR_COLUMNS } from '../../dist/io/arrow/output-columns.js';
import { rredcotHere } from '../support/in-process.js';
import { bareRow, readMetadata } from '../support/io-helpers.js';
import {
  FIXTURES,
  ROOT,
  readJsonl,
  readScored,
  type ScoredRow,
  temporaryFolder,
} from '../support/program.js';

const SOURCE = { ours: OUR_COLUMNS, credit: { estimator: 'pr' } } as unknown as Parameters<
  typeof parseWhere
>[2];

/** Values .5 .75 .25 and ζ = 1 over 4 tokens. */
const TRACE = {
  row: {
    ...bareRow({}),
    reward: 1,
    baseline: 0.25,
    sigma: Float32Array.of(0.5, -0.25, 0.5, 0.25),
    sigmaMaxWeight: 2,
    logprobs: Float32Array.of(-1, -2, -3, -2),
    segments: [{ kind: 'thought' }, { kind: 'thought' }, { kind: 'answer' }],
    status: ['bank:row', 'uniform:no-gain'],
  },
  creditable: { values: Float32Array.of(0.5, 0.75, 0.25), ends: Int32Array.of(1, 3, 4) },
} as unknown as StoredTrace;

describe('a condition', () => {
  it.each([
    ['status == uniform:no-gain', true],
    ['status == ok', false],
    ['status != uniform:*', false],
    ['status == bank:*', true],
    ['status != rudder:no-gain and status != rudder:*', true],
    ['advantage == .75', true],
    ['tokens == 4 and segments == 2', true],
    ['tokens == 5 or segments == 2', true],
    // and binds first
    ['tokens == 4 or tokens == 5 and segments == 9', true],
    ['tokens == 5 and segments == 2 or segments == 9', false],
    ['value_start == .5', true],
    ['value_end<.3', true],
    ['value_min >= .25 and value_max <= .75', true],
    ['value_range == .5 and value_drop == .5 and value_rise == .25', true],
    ['disagreement == .25', true],
    ['sigma_negative == .25', true],
    ['sigma_min == -1 and sigma_max == 2 and sigma_max_weight == 2', true],
    ['mean_logprob == -2', true],
    // what the trace has not fits nothing
    ['group != a', false],
    ['sigma_ess < 1', false],
    ['sigma_ess >= 1', false],
  ])('%s: %s', (text, expected) => {
    expect(parseWhere(text, 'x.parquet', SOURCE).holds(TRACE)).toBe(expected);
  });

  it.each([
    ['id == "a and b"', 'a and b', true],
    ["id == 'a and b' and reward == 1", 'a and b', true],
    ['reward == 0 or id == "a or b"', 'a or b', true],
    ['id=="a and b" and reward == 0 or id != "x or y" and id == "a and *"', 'a and b', true],
    [`id == '"a" and b'`, '"a" and b', true],
    [`id == it's and reward == 1`, "it's", true],
    ['id == "a\nand b"', 'a\nand b', true],
    ['id != "a and b"', 'a and b', false],
  ])('%j of the trace %j: %s', (text, id, expected) => {
    const { trace, ...row } = TRACE.row;
    const named = { ...TRACE, row: { ...row, trace: { ...trace, id } } };
    expect(parseWhere(text, 'x.parquet', SOURCE).holds(named)).toBe(expected);
  });

  it.each([
    ['id == "a and b', /the quote of "a is not closed/],
    ['id == "a" b and c"', /the quote of "a" b is not closed/],
    ['value_rnage > 1', /no figure is called "value_rnage", did you mean value_range\?/],
    ['constructor == 1', /no figure is called "constructor"/],
    ['id == "x', /the quote of "x is not closed/],
    ['id == "x' + "'", /is not closed/],
    ['reward', /"reward" is no comparison/],
    ['reward = 1', /is no comparison/],
    ['reward == one', /reward is a number, and "one" is none/],
    ['status > ok', /status is text/],
    ['status != uniform:no-gian', /no status is "uniform:no-gian", did you mean uniform:no-gain\?/],
    ['status == ok;bank:row', /no status is "ok;bank:row"/],
    ['status != unifrom:*', /no status is "unifrom:\*"/],
    ['reward == 1 and ok', /"ok" is no comparison/],
  ])('%s is refused', (text, expected) => {
    expect(() => parseWhere(text, 'x.parquet', SOURCE)).toThrow(expected);
  });

  it('names the columns that the file lacks', () => {
    const few = { ...SOURCE, ours: ['id', 'status'] as const };
    expect(() => parseWhere('disagreement < 1', 'x.parquet', few)).toThrow(
      /disagreement needs segments, value_start, reward, which x.parquet has not/,
    );
  });

  it('has figures that docs/output.md explains, all of them', async () => {
    const text = await readFile(join(ROOT, 'docs/output.md'), 'utf8');
    const [section = ''] = text.slice(text.indexOf('## Filters')).split('\n## ');
    const rows = section.split('\n').filter((line) => line.startsWith('| `'));
    const listed = rows.flatMap((row) =>
      [...(row.split('|')[1] as string).matchAll(/`(\w+)`/g)].map(([, name]) => name),
    );
    expect(listed.sort()).toEqual(Object.keys(FIGURES).sort());
  });
});

describe('a filtered file', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await temporaryFolder();
    const lines = (await readFile(FIXTURES, 'utf8')).split('\n').slice(0, 16);
    await writeFile(join(folder, 'traces.jsonl'), `${lines.join('\n')}\n`);
    await here('score', 'traces.jsonl', '--max-segments', '6', '-o', 'all.parquet');
    await here('redistribute', 'all.parquet', '-o', 'all.jsonl');
  });
  const here = async (...args: string[]) => {
    const run = await rredcotHere(args, { cwd: folder });
    expect(run.code, run.stderr).toBe(0);
    return run;
  };

  it('has the rows that fit, unchanged, and counts what each condition removed', async () => {
    const where = ['--where', 'value_range >= .6', '--where', 'reward == 1 and status == ok'];
    // Parquet holds its own hash: a file of that name is somebody's own
    await writeFile(join(folder, 'some.parquet.sha256'), 'mine');
    const run = await here('filter', 'all.parquet', '-o', 'some.parquet', ...where);
    expect(await readFile(join(folder, 'some.parquet.sha256'), 'utf8')).toBe('mine');
    expect(run.stderr).toMatch(/kept \d+ of 16 traces\n {2}value_range >= \.6: removed \d/);
    const all = await readScored(join(folder, 'all.parquet'));
    const some = await readScored(join(folder, 'some.parquet'));
    const range = ({ value_start, segments }: ScoredRow) => {
      const values = [value_start, ...segments.flatMap(({ value }) => value ?? [])];
      return Math.max(...values) - Math.min(...values);
    };
    const fits = [
      (row: ScoredRow) => range(row) >= 0.6,
      (row: ScoredRow) => row.status === 'ok' && row.reward === 1,
    ];
    const expected = all.filter((row) => fits.every((each) => each(row)));
    expect(some).toEqual(expected);
    expect([expected.length > 0, expected.length < all.length]).toEqual([true, true]);
    const done = JSON.parse(await readFile(join(folder, 'some.parquet.summary.json'), 'utf8'));
    const failing = (n: number) => all.filter((row) => !fits[n]?.(row));
    expect(done).toMatchObject({
      kept: expected.length,
      of: 16,
      conditions: [0, 1].map((n) => ({
        removed: failing(n).length,
        alone: failing(n).filter((row) => fits[1 - n]?.(row)).length,
      })),
    });
    expect((await rredcotHere(['verify', 'some.parquet'], { cwd: folder })).stdout).toBe('');
    const { keys } = await readMetadata(join(folder, 'some.parquet'));
    const before = (await readMetadata(join(folder, 'all.parquet'))).keys;
    expect(keys.get('rredcot.config')).toBe(before.get('rredcot.config'));
    expect(keys.get('rredcot.run')).not.toBe(before.get('rredcot.run'));
    expect(JSON.parse(keys.get('rredcot.part') as string)).toMatchObject({
      by: 'filter',
      where: ['value_range >= .6', 'reward == 1 and status == ok'],
      sha256: before.get('rredcot.sha256'),
    });
    // what is made of it says so still, and has the groups' means that it had
    await here('redistribute', 'some.parquet', '-o', 'again.parquet', '--sigma', 'rudder');
    expect([...(await readMetadata(join(folder, 'again.parquet'))).keys.keys()]).toContain('rredcot.part');
    const again = await readScored(join(folder, 'again.parquet'));
    expect(again.map(({ baseline }) => baseline)).toEqual(some.map(({ baseline }) => baseline));
  });

  it('has no means of its groups but those that it has stored', async () => {
    const asked = ['--sigma', 'rudder', '--baseline', 'group'];
    for (const format of ['parquet', 'jsonl']) {
      const [whole, part] = [`valued.${format}`, `part.${format}`];
      await here(
        'redistribute',
        'all.parquet',
        '--overwrite',
        '-o',
        whole,
        '--sigma',
        'rudder',
        '--baseline',
        'value',
      );
      await here('filter', whole, '--where', 'reward == 1', '--overwrite', '-o', part);
      const { code, stderr } = await rredcotHere(['redistribute', part, ...asked, '-o', 'x.jsonl'], {
        cwd: folder,
      });
      expect(stderr).toContain("was filtered, so that the mean of its groups' rewards is not known");
      expect(code).toBe(65);
      // nor has what is made of it, in whichever format
      for (const other of ['jsonl', 'arrow']) {
        await here('redistribute', part, '--overwrite', '--sigma', 'softmax', '-o', `softened.${other}`);
        const again = ['redistribute', `softened.${other}`, ...asked, '-o', 'x.jsonl'];
        expect((await rredcotHere(again, { cwd: folder })).code, other).toBe(65);
      }
      await here('redistribute', whole, ...asked, '--overwrite', '-o', 'means.jsonl');
      const [means, stored] = await Promise.all(
        ['means.jsonl', 'all.jsonl'].map((name) => readJsonl<ScoredRow>(join(folder, name))),
      );
      expect(means?.map(({ baseline }) => baseline)).toEqual(stored?.map(({ baseline }) => baseline));
    }
  });

  it('as an input of score is told of, where anything follows of its groups', async () => {
    const warned = async (args: readonly string[], stdin?: Buffer) => {
      const run = await rredcotHere(
        ['score', ...args, '--map', 'reference=answer', '--overwrite', '-o', 'again.parquet', '--log-json'],
        { cwd: folder, ...(stdin === undefined ? {} : { stdin }) },
      );
      expect(run.code, run.stderr).toBe(0);
      return run.stderr.includes('"part_input"');
    };
    const keep = ['--where', 'reward >= 0', '--quiet'];
    for (const format of ['parquet', 'arrow', 'jsonl']) {
      const [all, part] = [`whole.${format}`, `part.${format}`];
      const scored = await rredcotHere(['score', 'traces.jsonl', '--overwrite', '-o', all, '--quiet'], {
        cwd: folder,
      });
      expect(scored.code, scored.stderr).toBe(0);
      const filtered = await rredcotHere(['filter', all, '--overwrite', '-o', part, ...keep], {
        cwd: folder,
      });
      expect(filtered.code, filtered.stderr).toBe(0);
      expect(await warned([all]), all).toBe(false);
      expect(await warned([part]), part).toBe(true);
      expect(await warned([part, '--baseline', 'value']), part).toBe(false);
    }
    const stream = execFileSync(
      process.execPath,
      [join(ROOT, 'bin/rredcot.js'), 'filter', 'whole.parquet', '-o', '-', ...keep],
      {
        cwd: folder,
      },
    );
    expect(await warned(['-'], stream)).toBe(true);
  });

  it('of JSON lines has their bytes', async () => {
    await here('filter', 'all.jsonl', '--where', 'reward == 0');
    const wrong = (await readJsonl<ScoredRow>(join(folder, 'all.jsonl'))).filter(
      ({ reward }) => reward === 0,
    );
    const lines = (await readFile(join(folder, 'all.jsonl'), 'utf8')).split('\n');
    const kept = (await readFile(join(folder, 'all.filtered.jsonl'), 'utf8')).trimEnd().split('\n');
    expect(kept).toEqual(lines.filter((line) => wrong.some(({ id }) => line.includes(`"id":"${id}"`))));
    expect(kept.length).toBe(wrong.length);
    expect((await rredcotHere(['verify', 'all.filtered.jsonl'], { cwd: folder })).stdout).toBe('');
  });

  it('takes away what killed commands have left of the output, and not what could be gone on with', async () => {
    const left = join(folder, '.kept.jsonl.0123456789abcdef');
    await mkdir(left);
    await writeFile(join(left, '.kept.jsonl.01234567.tmp'), 'x');
    await writeFile(join(folder, '.kept.jsonl.note'), 'of a user');
    await here('filter', 'all.jsonl', '--where', 'reward == 1', '-o', 'kept.jsonl');
    const names = (await readdir(folder)).filter((name) => name.startsWith('.kept'));
    expect(names).toEqual(['.kept.jsonl.note']);
  });

  it('is none where no trace fits: an empty one would pass for data', async () => {
    const where = ['--where', 'value_min > 1', '--where', 'reward == 1'];
    const none = await rredcotHere(['filter', 'all.jsonl', '-o', 'none.jsonl', ...where], { cwd: folder });
    expect(none.code).toBe(65);
    expect(none.stderr).toMatch(
      /none of 16 traces fits: value_min > 1: removed 16, \d+ of them alone; reward == 1: removed \d+, 0 of them alone; nothing was written/,
    );
    expect((await readdir(folder)).filter((name) => name.includes('none'))).toEqual([]);
  });

  it('is refused without a condition, and in another format', async () => {
    const none = await rredcotHere(['filter', 'all.parquet'], { cwd: folder });
    expect(none).toMatchObject({ code: 2, stderr: expect.stringContaining('there is no condition') });
    const other = await rredcotHere(['filter', 'all.parquet', '--where', 'reward == 1', '-o', 'x.jsonl'], {
      cwd: folder,
    });
    expect(other).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('writes the format that it reads, parquet'),
    });
  });
});
