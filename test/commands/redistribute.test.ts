// What `redistribute` makes of a scored file is what `score` would have made of its input with the same flags, byte for byte.
import { copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { rredcotHere } from '../support/in-process.js';
import { readMetadata } from '../support/io-helpers.js';
import {
  FIXTURES,
  ROOT,
  readJsonl,
  readScored,
  type ScoredRow,
  temporaryFolder,
} from '../support/program.js';

let folder: string;
let input: string;
let scored: string;
/** a group of eight, and two of the next: right, wrong and compared rewards, a cut trace, wrong references too */
beforeAll(async () => {
  folder = await temporaryFolder();
  input = join(folder, 'traces.jsonl');
  const rows = (await readJsonl<Record<string, unknown>>(FIXTURES))
    .slice(0, 10)
    .map(({ answer, ...row }, n) => ({
      ...row,
      references: [{ answer }, { answer: `${(Number(answer) + 1) % 10}`, utility: 0 }],
      ...(n === 3 ? { reward: null } : {}),
      ...(n === 9 ? { reward: null, completion: '<think>\na', completion_ids: null } : {}),
      note: { odd: n % 2 === 1 },
    }));
  await writeFile(input, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
  scored = join(folder, 'scored.jsonl');
  await score('-o', scored);
});

async function score(...flags: string[]): Promise<void> {
  const run = await rredcotHere(['score', input, '--max-segments', '6', ...flags], { cwd: folder });
  expect(run.code, run.stderr).toBe(0);
}

async function redistribute(path: string, ...flags: string[]) {
  return rredcotHere(['redistribute', path, ...flags], { cwd: folder });
}

let made = 0;
/** A fresh run's JSON lines. */
async function scoredText(...flags: string[]): Promise<string> {
  const path = join(folder, `fresh-${++made}.jsonl`);
  await score('-o', path, ...flags);
  return readFile(path, 'utf8');
}

/** The same of a redistributed file. */
async function redistributedText(path: string, ...flags: string[]): Promise<string> {
  const output = join(folder, `again-${++made}.jsonl`);
  const run = await redistribute(path, '-o', output, ...flags);
  expect(run.code, run.stderr).toBe(0);
  return readFile(output, 'utf8');
}

const text = (_: string, value: unknown) => (typeof value === 'bigint' ? `${value}` : value);

const ALL_RULES = [
  'rudder',
  'share',
  'signed',
  'softmax',
  'abs',
  'surprise',
  'entropy',
  'top-entropy',
  'uniform',
];

describe('a redistributed file', () => {
  it.each([
    ['all rules, the group mean', ['--sigma', ALL_RULES.join()]],
    ['another baseline', ['--sigma', 'rudder,share,abs', '--baseline', 'value', '--residual', 'answer']],
    [
      'a number, shaped',
      [
        '--sigma',
        'signed,softmax',
        '--baseline',
        '.25',
        '--tau',
        '.2',
        '--smooth',
        '1',
        '--steps',
        'smoothed',
        '--penalty',
        '2',
      ],
    ],
    [
      'another estimator',
      [
        '--estimator',
        'pr-geo',
        '--within',
        'unsure',
        '--even',
        '.8',
        '--steps',
        'scaled',
        '--normalisers',
        'grpo,dr_grpo',
        '--max-completion-length',
        '256',
      ],
    ],
    ['right against wrong', ['--estimator', 'snis', '--sigma', 'share,rudder', '--baseline', 'group']],
  ])('%s: is what score would have written', async (_, flags) => {
    const fresh = await scoredText(...flags);
    expect((await redistributedText(scored, ...flags)) === fresh, 'the same bytes').toBe(true);
    // and from that file again, what there was at first: a rule begins anew
    const between = join(folder, 'between.jsonl');
    expect((await redistribute(scored, '-o', between, '--overwrite', ...flags)).code).toBe(0);
    expect((await rredcotHere(['verify', between])).stdout).toBe('');
    const back = [
      ...['--estimator', 'pr', '--sigma', 'share', '--baseline', 'auto'],
      ...['--within', 'uniform', '--steps', 'free'],
    ];
    const first = JSON.parse((await redistributedText(between, ...back)).split('\n')[0] as string);
    expect(first).toMatchObject(JSON.parse((await readFile(scored, 'utf8')).split('\n')[0] as string));
  });

  it('of Parquet has the columns of a fresh one, says what it was made of, and passes verify', async () => {
    const [source, fresh, again] = ['source', 'fresh', 'again'].map((name) =>
      join(folder, `${name}.parquet`),
    ) as [string, string, string];
    await score('-o', source);
    await score('-o', fresh, '--sigma', 'rudder');
    const run = await redistribute(source, '-o', again, '--sigma', 'rudder');
    expect(run.code, run.stderr).toBe(0);
    expect(await readScored(again)).toEqual(await readScored(fresh));
    const [before, made, wanted] = [
      (await readMetadata(source)).keys,
      (await readMetadata(again)).keys,
      (await readMetadata(fresh)).keys,
    ];
    for (const key of ['rredcot.config', 'rredcot.policy.sha256', 'rredcot.text', 'rredcot.inputs'])
      expect(made.get(key), key).toBe(wanted.get(key));
    expect(made.get('rredcot.run')).not.toBe(before.get('rredcot.run'));
    expect(JSON.parse(made.get('rredcot.redistributed') as string)).toMatchObject({
      run: before.get('rredcot.run'),
      sha256: before.get('rredcot.sha256'),
      credit: { rule: 'share' },
    });
    const verified = await rredcotHere(['verify', again]);
    expect(verified.code, verified.stdout).toBe(0);
    // its configuration is one that score takes
    const configs = await Promise.all(
      [again, fresh].map(async (path) => JSON.parse(await readFile(`${path}.summary.json`, 'utf8')).config),
    );
    expect(configs[0]).toEqual(configs[1]);
  });

  it('normalisers that count the tokens of others are of the group, and of traces one after the other', async () => {
    const flags = ['--normalisers', 'dapo,batch_tokens', '--batch-size', '4'];
    const text = await redistributedText(scored, ...flags);
    const rows = text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    const tokens = rows.map(({ sigma }) => sigma.length as number);
    const sum = (from: number, to: number) => tokens.slice(from, to).reduce((a, b) => a + b, 0);
    for (const [n, row] of rows.entries()) {
      const batch = Math.floor(n / 4) * 4;
      expect(row.normaliser_batch_tokens).toBeCloseTo(1 / sum(batch, batch + 4), 9);
      expect(row.normaliser_dapo).toBeCloseTo(1 / (n < 8 ? sum(0, 8) : sum(8, 10)), 9);
    }
    const refused = await rredcotHere(['score', input, ...flags], { cwd: folder });
    expect(refused).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('rredcot redistribute <scored>'),
    });
  });

  it('rewards on another range: what lies outside is rejected, what was compared or cut stays', async () => {
    const graded = join(folder, 'graded.jsonl');
    const own = (await readJsonl<Record<string, unknown>>(input)).map((row, n) =>
      n === 2 ? { ...row, reward: 0.75 } : row,
    );
    await writeFile(graded, own.map((row) => `${JSON.stringify(row)}\n`).join(''));
    const made = await rredcotHere(['score', graded, '-o', join(folder, 'graded.scored.jsonl')]);
    expect(made.code, made.stderr).toBe(0);
    const source = join(folder, 'graded.scored.jsonl');
    const run = await redistribute(source, '-o', join(folder, 'range.jsonl'), '--reward-range', '-1,1');
    expect(run.code, run.stderr).toBe(0);
    const rows = await readJsonl<ScoredRow>(join(folder, 'range.jsonl'));
    const before = await readJsonl<ScoredRow>(source);
    const ours = rows.flatMap(({ status }, n) => (/reward:compared|truncated/.test(status) ? [n] : []));
    expect(ours).toEqual([3, 9]);
    for (const [n, { reward }] of rows.entries()) {
      const was = before[n]?.reward as number;
      expect(reward).toBe(ours.includes(n) ? was : (was + 1) / 2);
    }
    const narrow = await redistribute(source, '-o', join(folder, 'narrow.jsonl'), '--reward-range', '.5,1');
    expect(narrow.code, narrow.stderr).toBe(0);
    const rejects = await readJsonl<{ code: string; id: string }>(join(folder, 'narrow.jsonl.rejects.jsonl'));
    expect(rejects.length + (await readJsonl(join(folder, 'narrow.jsonl'))).length).toBe(10);
    expect(rejects.every(({ code }) => code === 'reward')).toBe(true);
    expect(rejects.length).toBeGreaterThan(0);
  });

  it('maps no rewards that are 0 and 1 alone onto another range, and auto is the one that the file has', async () => {
    const other = await redistribute(scored, '-o', join(folder, 'none.jsonl'), '--reward-range', '-1,1');
    expect([other.code, other.stderr]).toEqual([
      65,
      expect.stringMatching(/scored\.jsonl: its rewards are 0 and 1, .*\n.*leave it out \(0,1\)/),
    ]);
    const signed = join(folder, 'signed.jsonl');
    const rows = (await readJsonl<ScoredRow>(input)).slice(0, 9).map((row) => {
      return { ...row, reward: row.reward === null ? null : 2 * row.reward - 1 };
    });
    await writeFile(signed, rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
    const made = await rredcotHere(['score', signed, '-o', join(folder, 'signed.scored.jsonl')]);
    expect(made.code, made.stderr).toBe(0);
    const auto = await redistributedText(join(folder, 'signed.scored.jsonl'), '--reward-range', 'auto');
    expect(auto).toBe(await readFile(join(folder, 'signed.scored.jsonl'), 'utf8'));
  });

  it('of Monte Carlo values keeps their columns behind ours, from Parquet to JSON lines and back', async () => {
    const two = (await readFile(FIXTURES, 'utf8')).split('\n').slice(0, 2);
    await writeFile(join(folder, 'two.jsonl'), `${two.join('\n')}\n`);
    const run = async (...args: string[]) => {
      const { code, stderr } = await rredcotHere(args, { cwd: folder });
      expect(code, stderr).toBe(0);
    };
    const how = ['--estimator', 'mc', '--mc-samples', '3', '--mc-max-tokens', '40', '--keep-samples'];
    const base = ['score', 'two.jsonl', '--max-segments', '3', ...how];
    await run(...base, '-o', 'first.parquet');
    await run(...base, '--sigma', 'rudder,abs', '-o', 'mc.jsonl');
    await run('redistribute', 'first.parquet', '--sigma', 'rudder,abs', '-o', 'mc-again.jsonl');
    const [fresh, again] = await Promise.all(
      ['mc.jsonl', 'mc-again.jsonl'].map((name) => readFile(join(folder, name), 'utf8')),
    );
    expect(again === fresh, 'the same bytes').toBe(true);
    // its summary tells what was lost
    const { lost_fraction: lost } = JSON.parse(
      await readFile(join(folder, 'mc-again.jsonl.summary.json'), 'utf8'),
    );
    expect(lost).toBeGreaterThan(0);
    await run('redistribute', 'mc-again.jsonl', '--sigma', 'share', '-o', 'back.parquet');
    const [first, back] = ['first', 'back'].map((name) => join(folder, `${name}.parquet`)) as [
      string,
      string,
    ];
    const [wanted] = await readScored(first);
    expect(Object.keys(wanted ?? {}).slice(-4)).toEqual(['status', 'value_sd', 'lost_fraction', 'samples']);
    expect(JSON.stringify(await readScored(back), text)).toBe(JSON.stringify(await readScored(first), text));
    const config = async (path: string) => (await readMetadata(path)).keys.get('rredcot.config');
    expect(await config(back)).toBe(await config(first));
  });

  it('of a run folder and of a merged one is that of the file', async () => {
    await score('-o', 'run/', '--rows-per-chunk', '4');
    expect((await rredcotHere(['merge', 'run', '-o', 'merged/'], { cwd: folder })).code).toBe(0);
    const expected = await redistributedText(join(folder, 'run'), '--sigma', 'abs');
    expect(expected.trimEnd().split('\n')).toHaveLength(10);
    expect((await redistributedText(join(folder, 'merged'), '--sigma', 'abs')) === expected).toBe(true);
  });

  it('on stdout is what score prints, as an Arrow stream with its metadata too', async () => {
    const flags = ['--sigma', 'rudder,share', '-o', '-', '--quiet'];
    const fresh = await rredcotHere(['score', input, '--max-segments', '6', ...flags], { cwd: folder });
    const again = await rredcotHere(['redistribute', 'source.parquet', ...flags], { cwd: folder });
    expect([fresh.code, again.code], again.stderr).toEqual([0, 0]);
    expect(fresh.stdout.length).toBeGreaterThan(10_000);
    expect(again.stdout === fresh.stdout).toBe(true);
  });
});

describe('what stored values do not allow', () => {
  it.each([
    ['pr-mean', ['--estimator', 'pr-mean'], /single tokens.*not stored/],
    [
      'joint',
      ['--estimator', 'joint', '--baseline', 'group'],
      /pr has scored answers, and joint needs continuations/,
    ],
    ['given', ['--estimator', 'given'], /do not follow from what is stored/],
    ['a flag that no rule reads', ['--tau', '2'], /--tau has no meaning with --sigma share/],
    ['segments as actions', ['--method', 'segment'], /no expected rewards/],
    ['a column that is not there', ['--columns', 'prompt'], /has no such column/],
    ['a column of the input that is not there', ['--drop', 'notes'], /--drop note/],
    ['a folder', ['-o', 'out/'], /writes one file/],
    ['its own input', ['-o', 'scored.jsonl'], /would be written over/],
  ])('%s is refused by name', async (_, flags, expected) => {
    const run = await redistribute(scored, ...flags);
    expect(run.code).toBe(2);
    expect(run.stderr).toMatch(expected);
  });

  it('files that are none, or not as they were written, are told', async () => {
    const told = async (path: string, code: number, expected: RegExp) => {
      const run = await redistribute(path, '-o', join(folder, 'never.jsonl'));
      expect(run.stderr).toMatch(expected);
      expect(run.code).toBe(code);
    };
    await told(join(ROOT, 'test/files/types.parquet'), 2, /types\.parquet: is not scored/);
    await told(input, 2, /is not scored: its rows have no values.*rredcot score /s);
    await told('-', 2, /stdin cannot be/);
    const cut = join(folder, 'cut.parquet');
    await rredcotHere(['segment', input, '--no-policy', '-o', cut]);
    await told(cut, 2, /was made by rredcot segment/);
    const mixed = join(folder, 'mixed');
    await mkdir(mixed);
    for (const name of ['source', 'again'])
      await copyFile(join(folder, `${name}.parquet`), join(mixed, `${name}.parquet`));
    await told(mixed, 2, /is of another run than/);
    const few = join(folder, 'few.parquet');
    await score('-o', few, '--columns', 'id,sigma,status');
    await told(few, 2, /has no segments, value_start, reward, baseline, reference_utilities, group,/);
    const copy = join(folder, 'copy.jsonl');
    const text = await readFile(scored, 'utf8');
    for (const ending of ['', '.sha256', '.summary.json']) await copyFile(scored + ending, copy + ending);
    await writeFile(copy, text.replace('"reward":1', '"reward":0'));
    await told(copy, 65, /is not the file that was written/);
    // without the hash its rows are looked at
    await rm(`${copy}.sha256`);
    await writeFile(copy, text.replace(/"value":0\.\d+/, '"value":null'));
    const run = await redistribute(copy, '-o', join(folder, 'most.jsonl'));
    expect(run.code, run.stderr).toBe(0);
    const [reject] = await readJsonl<{ code: string; reason: string }>(
      join(folder, 'most.jsonl.rejects.jsonl'),
    );
    expect(reject).toMatchObject({
      code: 'scored',
      reason: expect.stringMatching(/segments\[\d\]\.value is null/),
    });
    expect(await readJsonl(join(folder, 'most.jsonl'))).toHaveLength(9);
  });
});
