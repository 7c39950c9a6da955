/** `rredcot compare` on files: several of them matched, what is left out and told, the three forms of its output. */
import { readFile } from 'node:fs/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { type ComparisonReport, compare } from '../../dist/commands/compare.js';
import type { Log } from '../../dist/report/log.js';
import { seeded } from '../oracle/toy.js';
import { FIXTURES } from '../support/program.js';
import { jsonLines, openScene } from '../support/scene.js';

const { at, done, fails, run, text, write } = await openScene();

interface Row {
  id: string;
  reward: number | null;
  baseline: number;
  status: string;
  segments: { start: number; end: number; kind: string; delta: number; sigma: number }[];
  mc: number[];
  noisy: number[];
  wrong: number | null;
}

/** The same rows under other names. */
const scoredElsewhere = (all: readonly unknown[]): Row[] =>
  all.filter((row) => typeof row === 'object').map((row, n) => ({ ...(row as Row), id: `elsewhere-${n}` }));

/** Scored rows of five thoughts and an answer, whose truth is known. */
function rows(n: number, seed = 1): Row[] {
  const random = seeded(seed);
  return Array.from({ length: n }, (_, i) => {
    const mc = Array.from({ length: 6 }, random);
    const segments = Array.from({ length: 6 }, (_, k) => {
      const change = k < 5 ? (mc[k + 1] as number) - (mc[k] as number) : 0;
      return {
        start: 4 * k,
        end: 4 * k + 4,
        kind: k < 5 ? 'thought' : 'answer',
        delta: change + random() / 4,
        sigma: random(),
      };
    });
    const noisy = mc.map((value) => value + random());
    return {
      id: `t${i}`,
      reward: i % 2,
      baseline: 0.5,
      status: 'ok',
      segments,
      mc,
      noisy,
      wrong: i % 2 === 0 ? i % 5 : null,
    };
  });
}

/** Rows, and lines that are none. */
const writeRows = (name: string, lines: readonly (Row | string)[]) =>
  write(name, lines.map((line) => (typeof line === 'string' ? `${line}\n` : jsonLines([line]))).join(''));

const compared = async (line: string): Promise<ComparisonReport> =>
  JSON.parse((await done(`compare ${line} --json`)).stdout);
const printed = async (line: string) => (await done(`compare ${line}`)).stdout;

function figure({ figures }: ComparisonReport, measure: string, credit: string, traces = 'all') {
  return figures.find(
    (f) => f.measure === measure && f.credit === credit && f.traces === traces && f.last === 1,
  );
}

beforeAll(() => writeRows('scored.jsonl', rows(20)));

describe('one file', () => {
  it('compares its differences, σ and uniform with a column of values and a label', async () => {
    const flags = '--values mc=mc --values noisy=noisy --truth mc --label first_wrong=wrong';
    const report = await compared(`scored.jsonl ${flags}`);
    expect(report).toMatchObject({
      traces: 20,
      right: 10,
      wrong: 10,
      segments: 100,
      truth: 'mc',
      refused: {},
      notes: [],
    });
    expect(report.credits).toEqual(['uniform', 'delta', 'sigma', 'mc', 'noisy']);
    expect(figure(report, 'pearson', 'delta')?.value).toBeGreaterThan(0.9);
    expect(Math.abs(figure(report, 'pearson', 'sigma')?.value as number)).toBeLessThan(0.3);
    expect(figure(report, 'worst_segment', 'delta', 'wrong')).toMatchObject({
      n_traces: 10,
      chance: expect.closeTo(0.2, 9) as number,
    });
    expect(figure(report, 'hit_at_1', 'mc')).toMatchObject({
      of: 'first_wrong',
      n_traces: 10,
      chance: expect.closeTo(0.2, 9) as number,
    });
    expect(figure(report, 'pearson', 'uniform')).toMatchObject({
      value: null,
      notes: ['flat', 'ties', 'none'],
    });
  });

  it('draws pairs with uniform σ only when asked; the figures have them always', async () => {
    const drawn = (flags = '') => printed(`scored.jsonl ${flags}`);
    const pairs = (text: string) => [...text.matchAll(/^(\S+) ~ (\S+) /gm)].map((m) => `${m[1]} ${m[2]}`);
    expect(new Set(pairs(await drawn()))).toEqual(new Set(['delta sigma']));
    expect(await drawn('--report page.html')).not.toContain('uniform');
    const charts = async () => (await text('page.html')).match(/<svg class="chart"/g)?.length;
    expect(await charts()).toBe(2);
    expect(pairs(await drawn('--credit uniform --report page.html'))).toContain('uniform sigma');
    expect(await charts()).toBe(4);
    expect(await drawn('--truth uniform')).toMatch(/^sigma /m);
    expect(await drawn('--csv')).toContain(',uniform,sigma,');
  });

  it('prints a table, CSV with as many lines as figures, and the same again', async () => {
    const line = `scored.jsonl --values 'mc, "x"=mc' --credit uniform`;
    const table = await printed(line);
    expect(table).toMatch(/^20 traces \(10 right, 10 wrong\), 100 thought segments\n/);
    expect(table).toMatch(/\ndelta ~ mc, "x" +0\.9\d \[0\.\d\d, 0\.\d\d\] +<0\.001/);
    expect(table).toMatch(/\* flat: half of the traces/);
    expect(await printed(line)).toBe(table);
    expect(table).not.toContain('agrees with');
    const judged = await printed('scored.jsonl --values mc=mc --truth mc');
    expect(judged).toMatch(/\nagrees with mc +sign of large changes +worst segment of wrong traces\n/);
    expect(judged).toMatch(/\ndelta +\d?\.?\d+ \[/);
    expect(await printed(`${line} --seed 1`)).not.toBe(table);
    const csv = (await printed(`${line} --csv`)).trimEnd().split('\n');
    const json = await compared(line);
    expect(csv).toHaveLength(json.figures.length + 1);
    expect(csv[0]).toBe('measure,of,credit,traces,last,value,low,high,p,chance,n_traces,n_segments,notes');
    expect(csv.filter((line) => line.includes('"mc, ""x"""'))).not.toHaveLength(0);
  });
});

it('tells how far it is', async () => {
  const lines: string[] = [];
  const log = { progress: (line: string) => lines.push(line) } as unknown as Log;
  const many = at('many.jsonl');
  await writeRows('many.jsonl', rows(1000));
  const bare = { firstWrong: undefined, reward: undefined };
  const how = {
    columns: [],
    steps: [],
    drawsUniform: false,
    truth: undefined,
    seed: 0,
    maxLineBytes: 2 ** 20,
  };
  await compare([many], { ...bare, ...how, form: 'csv', page: undefined }, () => {}, log);
  expect(lines[0]).toBe(`reading ${many}: 1,000 rows`);
  expect(lines.slice(1)).toEqual(
    [1, 2, 3].map((n) => expect.stringMatching(`^comparing: ${n} of 3 pairs · .* left$`)),
  );
});

describe('several files', () => {
  it('are matched by id, whatever their order; what does not match is left out, counted and told', async () => {
    const [first, second, third, fourth, ...rest] = rows(20) as [Row, Row, Row, Row, ...Row[]];
    const moved = structuredClone(second);
    Object.assign(moved.segments[0] ?? {}, { end: 5 });
    const other = [
      ...rest.reverse(),
      first,
      moved,
      third,
      third,
      '{"id":',
      { ...fourth, id: 'stranger' },
      { ...fourth, segments: [] },
    ];
    await writeRows('other.jsonl', other);
    const report = await compared('scored.jsonl other.jsonl');
    expect(report.credits).toEqual(['uniform', 'delta', 'sigma', 'other:delta', 'other:sigma']);
    expect(report.files.map(({ traces }) => traces)).toEqual([20, 18]);
    expect(Object.entries(report.refused).map(([code, { count }]) => [code, count])).toEqual([
      ['credit', 1],
      ['duplicate_id', 1],
      ['json', 1],
      ['missing', 1],
      ['no_partner', 1],
      ['other_segments', 1],
    ]);
    expect(report.refused.other_segments?.first).toMatch(/other\.jsonl:17: id "t1" is cut at other places/);
    expect(report.refused.missing?.first).toMatch(/other\.jsonl: has no id "t3"/);
    // a file of which nothing is left is no comparison
    await writeRows('none.jsonl', scoredElsewhere(other));
    await fails(
      'compare scored.jsonl none.jsonl',
      65,
      /none\.jsonl: no trace of it can be compared, .*is not in the first file/,
    );
    const same = report.figures.find(
      (f) => f.measure === 'pearson' && f.of === 'delta' && f.credit === 'other:delta',
    );
    expect(same).toMatchObject({ value: 1, n_traces: 18 });
  });

  it('of this program are called after estimator and rule, and tell of other flags', async () => {
    const score = `score ${FIXTURES} --limit 12 --quiet`;
    await done(`${score} -o pr.parquet`);
    await done(`${score} -o geo.jsonl --estimator pr-geo --sigma rudder,softmax --max-segments 30`);
    // JSON lines by the summary beside them
    const report = await compared('pr.parquet geo.jsonl');
    expect(report.credits).toEqual([
      'uniform',
      'pr',
      'sigma_share',
      'pr-geo',
      'sigma_rudder',
      'sigma_softmax',
    ]);
    expect(report.refused).toEqual({});
    expect(report.notes.map(({ code }) => code)).toContain('other-segmenter');
    expect(report.files.map(({ estimator }) => estimator)).toEqual(['pr', 'pr-geo']);
    for (const file of report.files)
      expect(Object.keys(file).sort()).toEqual([
        'estimator',
        'fallbacks',
        'file',
        'segmenter',
        'sigma',
        'traces',
      ]);
    const shared = report.figures.find(
      (f) => f.of === 'pr' && f.credit === 'pr-geo' && f.measure === 'spearman',
    );
    expect(shared?.value).toBeGreaterThan(0.8);
    expect(report.notes.map(({ code }) => code)).not.toContain('edited');
    // an edited file is told of, in each format
    for (const format of ['jsonl', 'arrow']) {
      const copy = `edited.${format}`;
      await done(`redistribute pr.parquet -o ${copy}`);
      const bytes = await readFile(at(copy));
      bytes.set(Buffer.from('x'), bytes.indexOf('<think>') + 1);
      await write(copy, bytes);
      const { notes } = await compared(copy);
      expect(notes).toEqual([
        { code: 'edited', text: expect.stringMatching(/edited\.\w+: .*how it was made may be untrue/) },
        { code: 'part', text: expect.stringMatching(/edited\.\w+ was cut by --limit/) },
      ]);
    }
    await write('geo.jsonl.summary.json', '{}');
    await fails('compare geo.jsonl', 65, 'is not the summary that was');
  });
});

describe('--steps', () => {
  it('are further credits of files whose values have them, as redistribute would write them', async () => {
    const score = `score ${FIXTURES} --limit 12 --quiet`;
    await done(`${score} -o free.parquet`);
    await done(`${score} -o unlikely.parquet --estimator surprise`);
    for (const steps of ['scaled', 'smoothed']) {
      await done(`redistribute free.parquet -o ${steps}.parquet --steps ${steps}`);
      const report = await compared(`free.parquet ${steps}.parquet unlikely.parquet --steps ${steps}`);
      // surprise is no value, and the second file has them already
      expect(report.credits.filter((name) => name.endsWith(`_${steps}`))).toEqual([
        `pr_${steps}`,
        `${steps}:pr_${steps}`,
      ]);
      const same = report.figures.find(
        (f) => f.of === `pr_${steps}` && f.credit === `${steps}:pr_${steps}` && f.measure === 'pearson',
      );
      expect(same?.value).toBeCloseTo(1, 6);
      const other = report.figures.find(
        (f) => f.of === 'pr' && f.credit === `pr_${steps}` && f.measure === 'pearson',
      );
      expect(other?.value).toBeLessThan(0.99);
    }
    await fails('compare free.parquet --steps free', 2, '--steps');
  });
});

it('labels that count from 1, name all wrong steps, or say N/A are the same labels', async () => {
  const labelled = rows(20).map((row) => {
    const from1 = row.wrong === null ? null : row.wrong + 1;
    return { ...row, from_1: from1 ?? 'N/A', steps: from1 === null ? [] : [5, from1] };
  });
  await writeRows('labelled.jsonl', labelled);
  const of = async (line: string) => (await compared(line)).figures.filter((f) => f.of === 'first_wrong');
  const expected = await of('scored.jsonl --label first_wrong=wrong');
  expect(expected.some(({ value }) => value !== null)).toBe(true);
  for (const name of ['from_1', 'steps'])
    expect(await of(`labelled.jsonl --label first_wrong_from_1=${name}`)).toEqual(expected);
});

describe('what cannot be compared', () => {
  it.each([
    ['--truth mc', /--truth mc: no credit has that name\n {2}try: --truth uniform\|delta\|sigma/],
    ['--credit mc=nothing', /--credit mc=nothing: no row has it/],
    ['--values mc=nothing', /--values mc=nothing: no row has it/],
    ['--label first_wrong=nothing', /--label first_wrong=nothing: no row has it/],
    ['--scores mc=nothing', /--scores mc=nothing: no row has it/],
    ['--credit mc', /expected name=path/],
    ['--credit sigma=mc', /--credit sigma: the name is taken/],
    ['--values a=mc --values a=noisy', /the name is taken/],
    ['--label last_wrong=wrong', /--label first_wrong=/],
    ['--seed -1', /--seed -1/],
    ['--json --csv', /leave out one/],
  ])('%s', async (flags, why) => {
    await fails(`compare scored.jsonl ${flags}`, 2, why);
  });

  it.each([
    ['--credit c=mc', '--credit c: mc has 6 numbers, expected 5 '],
    ['--scores c=mc', '--scores c: mc has 6 numbers, expected 5 '],
    ['--values c=id', '--values c: id is no list of numbers'],
  ])(
    'a column that is wrong in every row leaves no trace: exit 65 with the reason: %s',
    async (flags, why) => {
      const said = /no trace to compare: 20 rows credit, first .*scored\.jsonl:0: --/;
      const { stderr } = await fails(`compare scored.jsonl ${flags}`, 65, said);
      expect(stderr).toContain(`scored.jsonl:0: ${why}`);
      expect(stderr).toContain('try: rredcot inspect <file> shows the columns of a row');
    },
  );

  it('files whose σ is uniform everywhere: that both are the same says nothing', async () => {
    const even = ({ segments, ...row }: Row): Row => {
      const own = segments.map((each, k) => ({ ...each, start: k * k, end: (k + 1) ** 2, delta: 0 }));
      const status = 'uniform:flat-values';
      return { ...row, status, segments: own.map((s) => ({ ...s, sigma: (s.end - s.start) / 36 })) };
    };
    for (const name of ['flat.jsonl', 'flat-2.jsonl']) await writeRows(name, rows(20).map(even));
    const why = 'nothing can be compared: no credit differs within a trace';
    expect((await fails('compare flat.jsonl flat-2.jsonl', 65, why)).stdout).toBe('');
    // two files that do differ within traces may well be the same
    await writeRows('same.jsonl', rows(20));
    await done('compare scored.jsonl same.jsonl');
  });

  it('a file that is not there, and rows that were not scored', async () => {
    expect((await run('compare nowhere.parquet')).code).toBe(2);
    await fails(`compare ${FIXTURES}`, 65, /no segments, expected a row that was scored or cut/);
  });
});
