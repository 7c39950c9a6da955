// `filter` keeps what fits all conditions, as it is, and counts what each of them removed.
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { hashSaid } from '../../dist/io/files/facts.js';
import { FIGURES, parseWhere } from '../../dist/scored/choose.js';
import { OUR_COLUMNS } from '../../dist/scored/columns.js';
import type { OutputRow } from '../../dist/scored.js';
import { named } from '../support/estimators.js';
import { bareRow, readMetadata } from '../support/io-helpers.js';
import { ROOT, type ScoredRow } from '../support/program.js';
import { fixtureRows, openScene, valued } from '../support/scene.js';

const SOURCE = { ours: OUR_COLUMNS, credit: { estimator: named('pr') } } as unknown as Parameters<
  typeof parseWhere
>[2];

const unknown = { charStart: null, charEnd: null, entropy: null } as const;
const segment = { ...unknown, delta: null, noise: null, sigma: null } as const;
/** Values .5 .75 .25 and ζ = 1 over 4 tokens. */
const TRACE: OutputRow = {
  ...bareRow({}),
  ...{ reward: 1, baseline: 0.25, valueStart: 0.5, sigmaMaxWeight: 2 },
  sigma: Float32Array.of(0.5, -0.25, 0.5, 0.25),
  logprobs: Float32Array.of(-1, -2, -3, -2),
  segments: [
    { ...segment, start: 0, end: 1, kind: 'thought', value: 0.75 },
    { ...segment, start: 1, end: 3, kind: 'thought', value: 0.25 },
    { ...segment, start: 3, end: 4, kind: 'answer', value: null },
  ],
  status: ['references:row', 'uniform:no-gain'],
};

describe('a condition', () => {
  it.each([
    ['status == uniform:no-gain', true],
    ['status == ok', false],
    ['status == "uniform:no-gain"', true],
    ["status != 'uniform:no-gain'", false],
    ['status != uniform:*', false],
    ['status == references:*', true],
    ['status != rudder:no-gain and status != rudder:*', true],
    ['advantage == .75', true],
    ['tokens == 4 and segments == 2', true],
    ['tokens == 5 or segments == 2', true],
    // and binds first
    ['tokens == 4 or tokens == 5 and segments == 9', true],
    ['tokens == 5 and segments == 2 or segments == 9', false],
    ['value_start == .5', true],
    ['value_end<.3', true],
    ['value_range == .5 and value_drop == .5 and value_rise == .25', true],
    ['disagreement == .25', true],
    ['sigma_negative == .25', true],
    ['sigma_max_weight == 2', true],
    ['mean_logprob == -2', true],
    // what the trace has not fits nothing
    ['group != a', false],
    ['sigma_ess < 1', false],
    ['sigma_ess >= 1', false],
  ])('%s: %s', (text, expected) => {
    expect(parseWhere(text, 'x.parquet', SOURCE).holds(TRACE)).toBe(expected);
  });

  it.each([
    ['value_rnage > 1', /no figure is called "value_rnage"/],
    ['constructor == 1', /no figure is called "constructor"/],
    ['reward', /"reward" is no comparison/],
    ['reward = 1', /is no comparison/],
    ['reward == one', /reward is a number, and "one" is none/],
    ['status > ok', /status is text/],
    ['status != uniform:no-gian', /no status is "uniform:no-gian"/],
    ['status == ok;references:row', /no status is "ok;references:row"/],
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

describe('a filtered file', async () => {
  const { at, done, fails, folder, json, rows, text, write } = await openScene();
  beforeAll(async () => {
    const fixtures = await fixtureRows(0, 16);
    await write('traces.jsonl', fixtures);
    await write('given.jsonl', fixtures.map(valued));
    await done('score traces.jsonl --max-segments 6 -o all.parquet');
    await done('redistribute all.parquet -o all.jsonl');
  });
  const keysOf = async (name: string) => (await readMetadata(at(name))).keys;
  const baselines = async (name: string) => (await rows(name)).map(({ baseline }) => baseline);

  it('has the rows that fit, unchanged, and counts what each condition removed', async () => {
    const where = "--where 'value_range >= .6' --where 'reward == 1 and status == ok'";
    const { stderr } = await done(`filter all.parquet -o some.parquet ${where}`);
    expect(stderr).toMatch(/kept \d+ of 16 traces\n {2}value_range >= \.6: removed \d/);
    const [all, some] = [await rows('all.parquet'), await rows('some.parquet')];
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
    const failing = (n: number) => all.filter((row) => !fits[n]?.(row));
    expect(await json('some.parquet.summary.json')).toMatchObject({
      kept: expected.length,
      of: 16,
      conditions: [0, 1].map((n) => ({
        removed: failing(n).length,
        alone: failing(n).filter((row) => fits[1 - n]?.(row)).length,
      })),
    });
    expect((await done('verify some.parquet')).stdout).toBe('');
    const [keys, before] = [await keysOf('some.parquet'), await keysOf('all.parquet')];
    expect(keys.get('rredcot.config')).toBe(before.get('rredcot.config'));
    expect(keys.get('rredcot.run')).not.toBe(before.get('rredcot.run'));
    expect(JSON.parse(keys.get('rredcot.part') as string)).toMatchObject({
      by: 'filter',
      where: ['value_range >= .6', 'reward == 1 and status == ok'],
      sha256: hashSaid(before),
    });
    // what is made of it says so still, and has the groups' means that it had
    await done('redistribute some.parquet -o again.parquet --sigma rudder');
    expect([...(await keysOf('again.parquet')).keys()]).toContain('rredcot.part');
    expect(await baselines('again.parquet')).toEqual(await baselines('some.parquet'));
  });

  it('of JSON lines has their bytes', async () => {
    await done("filter all.jsonl --where 'reward == 0'");
    const wrong = (await rows('all.jsonl')).filter(({ reward }) => reward === 0);
    const lines = (await text('all.jsonl')).split('\n');
    const kept = (await text('all.filtered.jsonl')).trimEnd().split('\n');
    expect(kept).toEqual(lines.filter((line) => wrong.some(({ id }) => line.includes(`"id":"${id}"`))));
    expect(kept.length).toBe(wrong.length);
    expect((await done('verify all.filtered.jsonl')).stdout).toBe('');
  });

  it('of the parts of a run without a condition is the file of that run', async () => {
    await done('score traces.jsonl --max-segments 6 --rows-per-part 4 -o run/');
    await done('score traces.jsonl --max-segments 6 --rows-per-part 4 -o one.parquet');
    await done('filter run/ -o joined.parquet');
    expect(await rows('joined.parquet')).toEqual(await rows('one.parquet'));
    expect((await keysOf('joined.parquet')).get('rredcot.part')).toBeUndefined();
    expect((await done('verify joined.parquet')).stdout).toBe('');
    // rows that were cut and not scored too
    await done('segment traces.jsonl --no-policy --rows-per-part 4 -o cut/');
    await done("filter cut/ -o cut.parquet --where 'segments >= 1'");
    expect(await rows('cut.parquet')).toHaveLength(16);
    await fails(
      "filter cut/ --where 'reward == 1' -o x.parquet",
      2,
      'reward needs reward, which cut/ has not',
    );
  });

  it('is none where no trace fits: an empty one would pass for data', async () => {
    await fails(
      "filter all.jsonl -o none.jsonl --where 'value_end > 1' --where 'reward == 1'",
      65,
      /none of 16 traces fits: value_end > 1: removed 16, \d+ of them alone; reward == 1: removed \d+, 0 of them alone; nothing was written/,
    );
    expect((await readdir(folder)).filter((name) => name.includes('none'))).toEqual([]);
  });

  it('is refused in another format', async () => {
    const why = 'writes the format that it reads, parquet';
    await fails("filter all.parquet --where 'reward == 1' -o x.jsonl", 2, why);
  });
});
