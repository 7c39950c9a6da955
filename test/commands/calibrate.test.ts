// `rredcot calibrate` over files: what it writes, what it refuses, and what it says of what it left out.
import { readdir } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { type CalibrationFile, readCalibration } from '../../dist/estimate/calibration.js';
import { KnownGroups } from '../../dist/estimate/fit/groups.js';
import { oracleFit } from '../oracle/calibration.js';
import { FIXTURES } from '../support/program.js';
import { openScene } from '../support/scene.js';
import { type MadeTrace, madeTraces, scoredLine, summaryText } from '../support/scored-traces.js';

const traces = madeTraces(12, 4);
const lines = traces.map((trace) => scoredLine(trace));

/** A folder with files. */
async function sceneWith(files: Readonly<Record<string, string | readonly object[]>>) {
  const scene = await openScene();
  for (const [name, content] of Object.entries(files)) await scene.write(name, content);
  const calibration = async (name: string): Promise<CalibrationFile> =>
    (await readCalibration(scene.at(name))).file;
  return { ...scene, calibration };
}

describe('calibrate', () => {
  it('writes weights, folds, losses and the curve, the same bytes again, from any cut of the rows into files', async () => {
    const { calibration, done, expectSame, folder } = await sceneWith({
      'all.jsonl': lines,
      'a.jsonl': lines.slice(0, 31),
      'b.jsonl': lines.slice(31),
    });
    const { stderr } = await done('calibrate all.jsonl -o c.json');
    expect(stderr).toContain('48 traces of 12 groups');
    expect(stderr).toMatch(/calibrated +0\.\d{3}/);
    expect(stderr).toMatch(/0\.\d–\d\.\d .*█/);
    await done('calibrate a.jsonl b.jsonl -o d.json');
    await expectSame('d.json', 'c.json');
    expect((await readdir(folder)).sort()).toEqual(['a.jsonl', 'all.jsonl', 'b.jsonl', 'c.json', 'd.json']);

    const file = await calibration('c.json');
    expect(file).toMatchObject({ uses: 'features', traces: 48, groups: 12, skipped: {}, policy: null });
    // v̂ goes through a float32 logarithm on its way
    const expected = oracleFit(traces.map((trace) => ({ ...trace, key: trace.group as string })));
    for (const [n, weight] of expected.whole.entries())
      expect(file.weights?.at(-1)?.[n]).toBeCloseTo(weight, 4);
  });

  it('leaves out rows that it cannot take, says how many and why, and fails where none is left', async () => {
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
    const { calibration, done, fails, folder } = await sceneWith({
      'clean.jsonl': lines,
      'mixed.jsonl': [...lines.slice(0, 30), ...broken, ...lines.slice(30)],
      'none.jsonl': broken,
    });
    await done('calibrate clean.jsonl -o clean.json');
    const { stderr } = await done('calibrate mixed.jsonl -o mixed.json');
    expect(stderr).toContain('8 traces left out, the first: mixed.jsonl: row 30: its reward is unknown');
    const [clean, mixed] = [await calibration('clean.json'), await calibration('mixed.json')];
    // the hash is of what was left out, too
    expect(mixed.sha256).not.toBe(clean.sha256);
    expect({ ...mixed, skipped: {}, sha256: clean.sha256 }).toEqual(clean);
    expect(Object.values(mixed.skipped).reduce((a, b) => a + b, 0)).toBe(8);
    await fails('calibrate none.jsonl -o none.json', 65, 'none.jsonl: row 0: its reward is unknown');
    expect(await readdir(folder)).not.toContain('none.json');
  });

  it('refuses what is no scored file, what lacks columns, and continuations in place of answers', async () => {
    const row = scoredLine(traces[0] as MadeTrace);
    const { logprobs: _, ...less } = row;
    const { done, fails, folder, run, text, write } = await sceneWith({
      'less.jsonl': [less],
      'joint.jsonl': [row],
      'joint.jsonl.summary.json': summaryText({ estimator: 'joint' }),
      'bad.jsonl': '{"id": broken\n',
      'good.jsonl': [row],
    });
    for (const [inputs, code, why] of [
      ['less.jsonl', 2, /less\.jsonl: has no column logprobs/],
      ['joint.jsonl', 2, /--estimator joint/],
      ['bad.jsonl', 65, /bad\.jsonl: row 0/],
      ['gone.jsonl', 2, /gone\.jsonl: cannot be read: no such file/],
      ['good.jsonl ./good.jsonl', 2, /good\.jsonl: is given twice/],
      ['.', 65, /rredcot: /],
    ] as const)
      await fails(`calibrate ${inputs} -o c.json`, code, why);
    await write('c.json', [row]);
    await fails('calibrate c.json -o c.json', 2, /c\.json: is an input/);
    expect((await readdir(folder)).filter((name) => name.startsWith('.'))).toEqual([]);
    const chunk = 'run/part-00000.jsonl';
    await done(`score ${FIXTURES} --limit 2 --format jsonl -o run/`);
    await write(chunk, (await text(chunk)).replace('"reward":1', '"reward":0'));
    await fails('calibrate run -o c.json', 65, /part-00000\.jsonl: is not the file that was written/);
    // one run in two formats
    for (const format of ['parquet', 'jsonl']) await done(`score ${FIXTURES} --limit 3 -o twice.${format}`);
    const both = (await run('calibrate twice.parquet twice.jsonl -o c.json')).said;
    expect(both).toMatch(/twice\.jsonl: does not say which policy scored it/);
    expect(both).not.toContain('another policy');
  });

  it('says where it stands back, and where files were not scored alike', async () => {
    const alike = traces.map((trace) => scoredLine(trace, { reward: 1 }));
    const { calibration, done } = await sceneWith({
      'alike.jsonl': alike,
      'more.jsonl': alike,
      'more.jsonl.summary.json': summaryText({ segmenter: 'newline', estimator: 'pr' }),
    });
    const { stderr } = await done('calibrate alike.jsonl more.jsonl -o c.json');
    expect(stderr).toContain('all traces have the same reward');
    expect(stderr).toContain(
      'more.jsonl: was scored with other flags than the files before it, or one of them does not say how',
    );
    expect(await calibration('c.json')).toMatchObject({
      ...{ uses: 'now', why: 'one-reward', weights: null, scored_with: null },
    });
  });
});

describe('a calibration file', () => {
  it('is read with distrust: what it is, what it was fitted to, and whether anybody has edited it', async () => {
    const { at, calibration, done, write } = await sceneWith({ 'all.jsonl': lines });
    await done('calibrate all.jsonl -o c.json');
    const file = await calibration('c.json');
    const read = async (more: object, isProbe?: boolean) => {
      await write('other.json', JSON.stringify({ ...file, ...more }));
      return readCalibration(at('other.json'), isProbe);
    };
    expect((await read({})).file).toEqual(file);
    await expect(read({ version: 1 })).rejects.toThrow(/is no calibration file of version 2/);
    await expect(read({ estimator: 'toString' })).rejects.toThrow(/is no calibration file/);
    await expect(read({ features: ['value'] })).rejects.toThrow(/features: expected logit_value/);
    await expect(read({}, true)).rejects.toThrow(/is no probe/);
    await expect(read({ estimator: 'probe' })).rejects.toThrow(/is a probe/);
    for (const edit of [{ weights: file.weights?.slice(1) }, { sd: [0] }, { uses: 'now' }, { more: 1 }])
      await expect(read(edit)).rejects.toThrow(/was changed after it was written/);
    await write('list.json', '[]');
    await expect(readCalibration(at('list.json'))).rejects.toThrow(/is no calibration file/);
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
