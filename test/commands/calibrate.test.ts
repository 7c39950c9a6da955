// `rredcot calibrate` over files: what it writes, what it refuses, and what it says of what it left out.
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Agreement } from '../../dist/commands/scored/agreement.js';
import {
  Calibration,
  type CalibrationFile,
  parseCalibration,
} from '../../dist/estimate/calibrated/calibration.js';
import { KnownGroups } from '../../dist/estimate/calibrated/folds.js';
import { oracleFeatures, oracleFit, oracleFold } from '../oracle/calibration.js';
import { rredcotHere } from '../support/in-process.js';
import { FIXTURES } from '../support/program.js';
import { type MadeTrace, madeTraces, scoredLine, summaryText } from '../support/scored-traces.js';
import { temporaryFolder } from '../support/temporary-folder.js';

const traces = madeTraces(12, 8);
const lines = (rows: readonly object[]) => rows.map((row) => `${JSON.stringify(row)}\n`).join('');

async function folderWith(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await temporaryFolder();
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  return folder;
}

async function readFileJson(path: string): Promise<CalibrationFile> {
  const parsed = parseCalibration(JSON.parse(await readFile(path, 'utf8')));
  if (typeof parsed === 'string') throw new Error(parsed);
  return parsed;
}

const statesOf = ({ values, geo, ends, logprobs }: MadeTrace) => ({
  values: Float32Array.from(values),
  geoValues: Float32Array.from(geo),
  ends: Int32Array.from(ends),
  logprobs: Float32Array.from(logprobs),
});

describe('calibrate', () => {
  it('writes weights, folds, losses and the curve, the same bytes again, from any cut of the rows into files', async () => {
    const rows = traces.map((trace) => scoredLine(trace));
    const folder = await folderWith({
      'all.jsonl': lines(rows),
      'a.jsonl': lines(rows.slice(0, 31)),
      'b.jsonl': lines(rows.slice(31)),
    });
    const run = (...args: string[]) => rredcotHere(['calibrate', ...args], { cwd: folder });
    const { code, stderr } = await run('all.jsonl', '-o', 'c.json');
    expect(code).toBe(0);
    expect(stderr).toContain('96 traces of 12 groups');
    expect(stderr).toMatch(/calibrated +0\.\d{3}/);
    expect(stderr).toMatch(/0\.9–1\.0 .*█/);
    await run('a.jsonl', 'b.jsonl', '-o', 'd.json');
    expect(await readFile(join(folder, 'd.json'), 'utf8')).toBe(
      await readFile(join(folder, 'c.json'), 'utf8'),
    );
    expect((await readdir(folder)).sort()).toEqual(['a.jsonl', 'all.jsonl', 'b.jsonl', 'c.json', 'd.json']);

    const file = await readFileJson(join(folder, 'c.json'));
    expect(file).toMatchObject({ stands_back: null, traces: 96, groups: 12, skipped: {}, policy: null });
    // v̂ goes through a float32 logarithm on its way
    const expected = oracleFit(traces.map((trace) => ({ ...trace, key: trace.group as string })));
    for (const [n, weight] of expected.whole.entries()) expect(file.weights?.[n]).toBeCloseTo(weight, 4);

    // a trace of the fit gets the weights of its fold, another one those of all
    const calibration = new Calibration(file);
    const trace = traces[20] as MadeTrace;
    const valued = (weights: readonly number[]) =>
      oracleFeatures(trace).map((phi) => {
        const z = phi.map((x, f) => (x - (file.mean[f] as number)) / (file.sd[f] as number));
        return (
          1 /
          (1 + Math.exp(-z.reduce((sum, x, f) => sum + x * (weights[f + 1] as number), weights[0] as number)))
        );
      });
    const own = calibration.values(trace.group as string, statesOf(trace));
    const fold = file.fold_weights?.[oracleFold(trace.group as string)] as number[];
    for (const [k, value] of valued(fold).entries()) expect(own[k]).toBeCloseTo(value, 6);
    const foreign = calibration.values('another group', statesOf(trace));
    for (const [k, value] of valued(file.weights as number[]).entries())
      expect(foreign[k]).toBeCloseTo(value, 6);
    expect(foreign).not.toEqual(own);
  });

  it('leaves out rows that it cannot take, says how many and why, and fails where none is left', async () => {
    const rows = traces.map((trace) => scoredLine(trace));
    const broken = [
      { reward: null },
      { reward: 3 },
      { logprobs: null },
      { logprobs: [-1] },
      { reference_utilities: [], reference_logprobs: [[], [], []] },
      { reference_logprobs: [[-1]] },
      { segments: null },
      { reference_logprobs: [[-1, -2], [-1], [-1], [-1], [-1]].slice(0, (traces[3]?.ends.length ?? 0) + 1) },
    ].map((more) => scoredLine(traces[3] as MadeTrace, more));
    const folder = await folderWith({
      'clean.jsonl': lines(rows),
      'mixed.jsonl': lines([...rows.slice(0, 50), ...broken, ...rows.slice(50)]),
      'none.jsonl': lines(broken),
    });
    const run = (...args: string[]) => rredcotHere(['calibrate', ...args], { cwd: folder });
    await run('clean.jsonl', '-o', 'clean.json');
    // warnings do not go through process.stderr
    const { code, stderr } = await rredcotHere(['calibrate', 'mixed.jsonl', '-o', 'mixed.json'], {
      cwd: folder,
    });
    expect(code).toBe(0);
    expect(stderr).toContain('8 traces left out, the first: mixed.jsonl: row 50: its reward is unknown');
    const [clean, mixed] = await Promise.all(
      ['clean', 'mixed'].map((name) => readFileJson(join(folder, `${name}.json`))),
    );
    // the hash is of what was left out, too
    expect(mixed?.sha256).not.toBe(clean?.sha256);
    expect({ ...mixed, skipped: {}, sha256: clean?.sha256 }).toEqual(clean);
    expect(Object.values(mixed?.skipped ?? {}).reduce((a, b) => a + b, 0)).toBe(8);
    const none = await run('none.jsonl', '-o', 'none.json');
    expect(none.code).toBe(65);
    expect(none.stderr).toContain('none.jsonl: row 0: its reward is unknown');
    expect(await readdir(folder)).not.toContain('none.json');
  });

  it('refuses what is no scored file, what lacks columns, and continuations in place of answers', async () => {
    const row = scoredLine(traces[0] as MadeTrace);
    const { logprobs: _, ...less } = row;
    const folder = await folderWith({
      'less.jsonl': lines([less]),
      'joint.jsonl': lines([row]),
      'joint.jsonl.summary.json': summaryText({ estimator: 'joint' }),
      'bad.jsonl': '{"id": broken\n',
    });
    const run = async (...args: string[]) => {
      const { code, stderr } = await rredcotHere(['calibrate', ...args, '-o', 'c.json'], { cwd: folder });
      return `${code} ${stderr}`;
    };
    expect(await run('less.jsonl')).toMatch(/^2 .*less\.jsonl: has no column logprobs/);
    expect(await run('joint.jsonl')).toMatch(/^2 .*--estimator joint/);
    expect(await run('bad.jsonl')).toMatch(/^65 .*bad\.jsonl: row 0/);
    expect(await run('gone.jsonl')).toMatch(/^2 .*gone\.jsonl: no such file/);
    await writeFile(join(folder, 'good.jsonl'), lines([row]));
    expect(await run('good.jsonl', './good.jsonl')).toMatch(/^2 .*good\.jsonl: is given twice/);
    expect(await run('.')).toMatch(/^2 .*run\.json: is missing/);
    await writeFile(join(folder, 'c.json'), lines([row]));
    expect(await run('c.json')).toMatch(/^2 .*c\.json: is an input/);
    expect((await readdir(folder)).filter((name) => name.startsWith('.'))).toEqual([]);
    const made = await rredcotHere([
      'score',
      FIXTURES,
      '--limit',
      '2',
      '--format',
      'jsonl',
      '-o',
      join(folder, 'run/'),
    ]);
    expect(made.code, made.stderr).toBe(0);
    const chunk = join(folder, 'run/chunks/00000-of-00001/000000.jsonl');
    await writeFile(chunk, (await readFile(chunk, 'utf8')).replace('"reward":1', '"reward":0'));
    expect(await run('run')).toMatch(/^65 .*000000\.jsonl has changed since it was written/);
    // one run in two formats
    for (const format of ['parquet', 'jsonl']) {
      const args = ['score', FIXTURES, '--limit', '3', '-o', join(folder, `twice.${format}`)];
      expect((await rredcotHere(args)).code).toBe(0);
    }
    expect(await run('twice.parquet')).not.toContain('were read before');
    const policies = new Agreement<{ graph: string }>('who', 'by another policy');
    const both = await run('twice.parquet', 'twice.jsonl');
    expect(both).toMatch(
      /3 traces were read before, .* \(the first again: twice\.jsonl: row 0\), and count again/,
    );
    expect(both).toMatch(/twice\.jsonl: does not say which policy scored it/);
    expect(both).not.toContain('another policy');
    // two policies, and none named: each is told as what it is
    const arms = ['a', 'b', 'a', undefined, 'b'].map((policy, n) => {
      const agreement = policy === undefined ? null : { graph: policy };
      return policies.add(agreement, `${n}`);
    });
    expect(arms).toEqual([
      undefined,
      '1: was scored by another policy than the files before it',
      undefined,
      '3: does not say who, as other files do: nobody can tell whether it is the same',
      '4: was scored by another policy than the files before it',
    ]);
    expect(policies.common).toBeNull();
    const late = new Agreement<string>('who', 'by another policy');
    expect([late.add(null, '0'), late.add(null, '1'), late.add('a', '2'), late.add('a', '3')]).toEqual([
      ...[undefined, undefined, expect.stringMatching(/^0: does not say who/), undefined],
    ]);
    expect(late.common).toBeNull();
    const same = new Agreement<string>('who', 'by another policy');
    expect([same.add('a', '0'), same.add('a', '1'), same.common]).toEqual([undefined, undefined, 'a']);
    // a reward that was turned round behind the hash of the file
    for (const format of ['jsonl', 'arrow']) {
      const path = join(folder, `edited.${format}`);
      const made = await rredcotHere(['score', FIXTURES, '--limit', '2', '-o', path]);
      expect(made.code, made.stderr).toBe(0);
      const bytes = await readFile(path);
      const at = format === 'jsonl' ? bytes.indexOf('"reward":1') + 9 : bytes.indexOf('answer:');
      bytes[at] = format === 'jsonl' ? 0x30 : 0x61;
      if (format === 'arrow') bytes[at + 1] = 0x61;
      await writeFile(path, bytes);
      expect(await run(`edited.${format}`)).toMatch(
        /^65 .*edited\.(jsonl|arrow): is not the file that was written/,
      );
    }
  });

  it('says where it stands back, and where files were not scored alike', async () => {
    const alike = traces.map((trace) => scoredLine(trace, { reward: 1 }));
    const folder = await folderWith({
      'alike.jsonl': lines(alike),
      'more.jsonl': lines(alike),
      'more.jsonl.summary.json': summaryText({ segmenter: 'newline', estimator: 'pr' }),
    });
    const { code, stderr } = await rredcotHere(['calibrate', 'alike.jsonl', 'more.jsonl', '-o', 'c.json'], {
      cwd: folder,
    });
    expect(code).toBe(0);
    expect(stderr).toContain('all traces have the same reward');
    expect(stderr).toContain('alike.jsonl: does not say with which flags it was scored');
    const file = await readFileJson(join(folder, 'c.json'));
    expect(file).toMatchObject({ stands_back: 'one-reward', weights: null, scored_with: null });
  });
});

describe('a calibration file', () => {
  it('is read with distrust: the place and what was expected there', async () => {
    const folder = await folderWith({ 'all.jsonl': lines(traces.map((trace) => scoredLine(trace))) });
    await rredcotHere(['calibrate', 'all.jsonl', '-o', 'c.json'], { cwd: folder });
    const file = await readFileJson(join(folder, 'c.json'));
    const parse = (more: object) => parseCalibration({ ...file, ...more });
    expect(parse({})).toEqual(file);
    expect(parse({ version: 2 })).toMatch(/^version: /);
    expect(parse({ features: ['value'] })).toMatch(/^features: expected logit_value/);
    expect(parse({ weights: file.weights?.slice(1) })).toMatch(/^weights: /);
    expect(parse({ sd: file.sd.map(() => 0) })).toMatch(/^sd\.0: /);
    expect(parse({ fold_weights: null })).toMatch(/no weights/);
    expect(parse({ more: 1 })).toMatch(/more/);
    expect(parseCalibration([])).toMatch(/object/);
  });

  it('knows the groups of its fit', () => {
    const known = new KnownGroups();
    const place = (mark: number) => ({ fold: 0, mark });
    for (const mark of [7, 2 ** 32 - 1, 0, 7]) known.add(place(mark));
    const read = KnownGroups.ofText(known.toText());
    expect(read.size).toBe(3);
    expect([7, 2 ** 32 - 1, 0, 8].map((mark) => read.has(place(mark)))).toEqual([true, true, true, false]);
    for (let mark = 0; mark < 2 ** 18; mark++) known.add(place(mark));
    expect(known.toText()).toBe(null);
    expect(KnownGroups.ofText(null).has(place(2 ** 31))).toBe(true);
  });
});
