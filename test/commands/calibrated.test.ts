// `--estimator calibrated`: values by the calibration's weights, in score's output and as verify computes them again.
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { recomputedFaults } from '../../dist/commands/scored/recompute.js';
import type { CalibrationFile } from '../../dist/estimate/calibrated/calibration.js';
import { storedCredit } from '../../dist/estimators/stored-credit.js';
import { oracleFeatures, oracleFold } from '../oracle/calibration.js';
import { rredcotHere } from '../support/in-process.js';
import { readJsonl, type ScoredRow, storedValues, writeFixtures } from '../support/program.js';
import { madeTraces, scoredLine, summaryText } from '../support/scored-traces.js';
import { temporaryFolder } from '../support/temporary-folder.js';

let folder: string;
let file: CalibrationFile;
const at = (name: string) => join(folder, name);
const run = async (line: string) => {
  const { code, stdout, stderr } = await rredcotHere(line.split(' '), { cwd: folder });
  return { code, said: `${stdout}${stderr}` };
};
const configOf = async (name: string) =>
  JSON.parse(await readFile(at(`${name}.summary.json`), 'utf8')).config as Record<string, unknown>;
const stored = (row: object) => {
  const cells = row as Record<string, unknown>;
  return { number: 0, has: (name: string) => name in cells, cell: (name: string) => cells[name] ?? null };
};

beforeAll(async () => {
  folder = await temporaryFolder();
  // top-0000 was in the fit, top-0001 was not
  const rows = madeTraces(12, 8).map((trace) =>
    scoredLine(trace, trace.group === 'g3' ? { group: 'top-0000' } : {}),
  );
  const lines = (all: readonly object[]) => all.map((row) => `${JSON.stringify(row)}\n`).join('');
  await writeFile(at('made.jsonl'), lines(rows));
  await writeFile(at('alike.jsonl'), lines(rows.map((row) => ({ ...row, reward: 1 }))));
  await writeFixtures(at('traces.jsonl'), 12);
  await run('calibrate made.jsonl -o calibration.json');
  await run('calibrate alike.jsonl -o none.json');
  file = JSON.parse(await readFile(at('calibration.json'), 'utf8')) as CalibrationFile;
});

describe('score --estimator calibrated', () => {
  let rows: ScoredRow[];
  beforeAll(async () => {
    const { code, said } = await run(
      'score traces.jsonl -o scored.jsonl --estimator calibrated --calibration calibration.json',
    );
    expect(code, said).toBe(0);
    rows = await readJsonl<ScoredRow>(at('scored.jsonl'));
  });

  it('gives V by the weights of the fold where the group was in the fit, else by those of all; b is V(s_0)', () => {
    const groups = new Set(rows.map(({ group }) => group));
    expect([...groups]).toEqual(['top-0000', 'top-0001']);
    for (const row of rows) {
      const known = row.group === 'top-0000';
      const weights = known ? file.fold_weights?.[oracleFold('top-0000')] : file.weights;
      const values = row.reference_logprobs.map((exit) => Math.fround(Math.exp(exit[0] as number)));
      const tokens = row.reference_tokens[0] as number;
      const geo = row.reference_logprobs.map((exit) => Math.fround(Math.exp((exit[0] as number) / tokens)));
      const ends = row.segments.filter(({ kind }) => kind === 'thought').map(({ end }) => end as number);
      const expected = oracleFeatures({ values, geo, ends, logprobs: row.logprobs }).map((phi) => {
        const logit = phi.reduce(
          (sum, x, f) =>
            sum + ((x - (file.mean[f] as number)) / (file.sd[f] as number)) * (weights?.[f + 1] as number),
          weights?.[0] as number,
        );
        return 1 / (1 + Math.exp(-logit));
      });
      for (const [k, value] of storedValues(row).entries())
        expect(value).toBeCloseTo(expected[k] as number, 5);
      expect(row.baseline).toBe(row.value_start);
      expect(row.status).not.toContain('value:');
    }
  });

  it('is computed again by verify, which finds a value that the calibration does not give', async () => {
    expect((await run('verify scored.jsonl')).code).toBe(0);
    const credit = storedCredit(await configOf('scored.jsonl'));
    expect(credit?.estimator.name).toBe('calibrated');
    const row = rows[0] as ScoredRow;
    expect(recomputedFaults(stored(row), credit, await configOf('scored.jsonl'))).toEqual([]);
    const [first, ...others] = row.segments;
    const other = { ...row, segments: [{ ...first, value: 0.123 }, ...others] };
    expect(recomputedFaults(stored(other), credit, await configOf('scored.jsonl')).join('\n')).toMatch(
      /by the calibration with 0\.\d+ or 0\.\d+/,
    );
    const marked = { ...row, status: 'value:uncalibrated' };
    expect(recomputedFaults(stored(marked), credit, await configOf('scored.jsonl')).join('\n')).toContain(
      'does not stand back',
    );
    // a configuration without weights says nothing of the values
    const { calibration, ...less } = await configOf('scored.jsonl');
    expect(storedCredit(less)).toBe(undefined);
    expect(storedCredit({ ...less, calibration: { ...(calibration as object), weights: null } })).toBe(
      undefined,
    );
  });

  it('stands back where the calibration does: the bytes of pr, but for the status', async () => {
    await run('score traces.jsonl --limit 4 -o pr.jsonl');
    const { code } = await run(
      'score traces.jsonl --limit 4 -o back.jsonl --estimator calibrated --calibration none.json',
    );
    expect(code).toBe(0);
    const text = await readFile(at('back.jsonl'), 'utf8');
    expect(text.match(/"status":"value:uncalibrated"/g)?.length).toBe(4);
    expect(text.replaceAll('"status":"value:uncalibrated"', '"status":"ok"')).toBe(
      await readFile(at('pr.jsonl'), 'utf8'),
    );
    expect((await run('verify back.jsonl')).code).toBe(0);
    const credit = storedCredit(await configOf('back.jsonl'));
    const [row] = await readJsonl<ScoredRow>(at('pr.jsonl'));
    expect(
      recomputedFaults(stored(row as ScoredRow), credit, await configOf('back.jsonl')).join('\n'),
    ).toContain('stands back');
  });

  it('is fitted again to its own output: v̂ is recovered from the references', async () => {
    const more = madeTraces(12, 8).map((trace) => scoredLine(trace, { value_start: 0.5 }));
    await writeFile(at('again.jsonl'), more.map((row) => `${JSON.stringify(row)}\n`).join(''));
    await writeFile(
      at('plain.jsonl'),
      madeTraces(12, 8)
        .map((row) => `${JSON.stringify(scoredLine(row))}\n`)
        .join(''),
    );
    await writeFile(at('again.jsonl.summary.json'), summaryText(await configOf('scored.jsonl')));
    await run('calibrate again.jsonl -o again.json');
    await run('calibrate plain.jsonl -o plain.json');
    const [again, plain] = await Promise.all(
      ['again.json', 'plain.json'].map(async (name) => JSON.parse(await readFile(at(name), 'utf8'))),
    );
    expect(again.weights).toEqual(plain.weights);
  });

  it('is what redistribute makes of a file of pr, byte for byte, and pr of it again', async () => {
    await run('score traces.jsonl -o plain-pr.jsonl');
    const text = (name: string) => readFile(at(name), 'utf8');
    const same = async (made: string, fresh: string) => {
      expect(await text(made)).toBe(await text(fresh));
      expect(JSON.stringify(await configOf(made))).toBe(JSON.stringify(await configOf(fresh)));
    };
    const again = async (from: string, flags: string, to: string) => {
      const { code, said } = await run(`redistribute ${from} -o ${to} ${flags}`);
      expect(code, said).toBe(0);
    };
    await again(
      'plain-pr.jsonl',
      '--estimator calibrated --calibration calibration.json',
      'made.calibrated.jsonl',
    );
    await same('made.calibrated.jsonl', 'scored.jsonl');
    await again('made.calibrated.jsonl', '--estimator pr', 'made.pr.jsonl');
    await same('made.pr.jsonl', 'plain-pr.jsonl');
    // with its own weights, another baseline; then by another calibration, which stands back
    await again('scored.jsonl', '--estimator calibrated --baseline 0.5', 'made.half.jsonl');
    expect((await run('verify made.half.jsonl')).code).toBe(0);
    await again('scored.jsonl', '--calibration none.json', 'made.back.jsonl');
    await run('score traces.jsonl -o fresh.back.jsonl --estimator calibrated --calibration none.json');
    await same('made.back.jsonl', 'fresh.back.jsonl');
    await again('made.back.jsonl', '--calibration calibration.json', 'made.forth.jsonl');
    await same('made.forth.jsonl', 'scored.jsonl');
    const refused = async (line: string) => {
      const { code, said } = await run(`redistribute ${line} -o refused.jsonl`);
      return `${code} ${said}`;
    };
    expect(await refused('plain-pr.jsonl --estimator calibrated')).toMatch(/^2 .*and no calibration/);
    expect(await refused('plain-pr.jsonl --calibration calibration.json')).toMatch(/^2 .*--estimator pr/);
    await run(
      'score traces.jsonl --limit 2 -o few.parquet --columns id,sigma,segments,value_start,reward,baseline,reference_utilities,status',
    );
    expect(await refused('few.parquet --estimator calibrated --calibration calibration.json')).toMatch(
      /^2 (?:WARN: .*\n)?rredcot: .*has no reference_logprobs, group, logprobs/,
    );
  });

  it('looks at a joined column where the calibration does; without the column nothing is valued with it', async () => {
    const text = (name: string) => readFile(at(name), 'utf8');
    const said = async (line: string) => {
      const { code, said: words } = await run(line);
      return `${code} ${words}`;
    };
    const told = madeTraces(12, 8).map((trace) =>
      scoredLine(trace, { join_segments: trace.ends.map((_, k) => (k % 3) / 3 + trace.reward) }),
    );
    await writeFile(at('told.jsonl'), told.map((row) => `${JSON.stringify(row)}\n`).join(''));
    expect(await said('calibrate told.jsonl -o further.json --features join_segments')).toMatch(/^0 /);
    // another run's values, which stand in its segments
    const join = '--join scored.jsonl --join-on id --join-columns segments';
    const flags = '--estimator calibrated --calibration further.json';
    expect(await said(`score traces.jsonl --overwrite -o further.jsonl ${join} ${flags}`)).toMatch(/^0 /);
    expect((await run('verify further.jsonl')).code).toBe(0);
    const [row] = await readJsonl<ScoredRow & { join_segments: object[] }>(at('further.jsonl'));
    const credit = storedCredit(await configOf('further.jsonl'));
    expect(recomputedFaults(stored(row as object), credit, await configOf('further.jsonl'))).toEqual([]);
    const other = row?.join_segments.map((segment) => ({ ...segment, value: 0 }));
    expect(
      recomputedFaults(
        stored({ ...row, join_segments: other }),
        credit,
        await configOf('further.jsonl'),
      ).join(),
    ).toContain('by the calibration with');
    expect(await said('redistribute further.jsonl -o further.pr.jsonl --estimator pr')).toMatch(/^0 /);
    expect(await said(`redistribute further.pr.jsonl --overwrite -o back.jsonl ${flags}`)).toMatch(/^0 /);
    expect(await text('back.jsonl')).toBe(await text('further.jsonl'));
    // what lacks it
    expect(await said(`redistribute scored.jsonl -o no.jsonl ${flags}`)).toMatch(
      /^2 .*scored\.jsonl: has no column join_segments, which the calibration reads.*--join/s,
    );
    expect(await said('calibrate scored.jsonl -o no.json --features gone')).toMatch(
      /^2 .*scored\.jsonl: has no column gone/,
    );
    expect(await said('calibrate scored.jsonl -o no.json --features segments')).toMatch(
      /^2 .*--features join_segments/s,
    );
    expect(await said(`score traces.jsonl --limit 1 -o no.jsonl ${flags}`)).toMatch(
      /^65 .*the calibration reads it, and its column join_segments is missing: --join/s,
    );
  });

  it('is fitted to run folders, merged ones, Parquet and Arrow alike, with the policy and flags that they name', async () => {
    for (const line of [
      'score traces.jsonl -o out/ --rows-per-chunk 5',
      'merge out/ -o all.parquet',
      'merge out/ -o all/',
      'merge out/ -o all.arrow',
    ])
      expect((await run(line)).code, line).toBe(0);
    const fitted: CalibrationFile[] = [];
    for (const input of ['out/', 'all.parquet', 'all/', 'all.arrow']) {
      const { code, said } = await run(`calibrate ${input} -o of.json`);
      expect(code, said).toBe(0);
      fitted.push(JSON.parse(await readFile(at('of.json'), 'utf8')) as CalibrationFile);
    }
    const [first, ...others] = fitted;
    expect(first).toMatchObject({ traces: 12, groups: 2, stands_back: 'too-few-groups' });
    expect(first?.scored_with).toMatchObject({ segmenter: 'hybrid', maxSegments: 40, bank: 'row' });
    expect(Object.keys(first?.policy ?? {})).toContain('policy.onnx');
    for (const other of others) expect(other).toEqual(first);
    await rm(join(folder, 'out/_SUCCESS'));
    await rm(join(folder, 'out/done'), { recursive: true });
    expect((await run('calibrate out/ -o of.json')).code).toBe(75);
  });

  it('needs its file, and the file needs it', async () => {
    const call = async (flags: string) => {
      const { code, said } = await run(`score traces.jsonl -o x.jsonl ${flags}`);
      return `${code} ${said}`;
    };
    expect(await call('--estimator calibrated')).toMatch(/^2 .*needs a calibration/);
    expect(await call('--calibration calibration.json')).toMatch(/^2 .*no meaning with --estimator pr/);
    expect(await call('--estimator calibrated --calibration gone.json')).toMatch(/^2 .*gone\.json/);
    expect(await call('--estimator calibrated --calibration made.jsonl')).toMatch(/^2 .*is not JSON/);
    const weights = file.weights?.map((weight) => -weight);
    await writeFile(at('edited.json'), JSON.stringify({ ...file, weights }));
    expect(await call('--estimator calibrated --calibration edited.json')).toMatch(
      /^65 .*edited\.json: was changed/,
    );
    await writeFile(at('bad.json'), JSON.stringify({ ...file, mean: [] }));
    expect(await call('--estimator calibrated --calibration bad.json')).toMatch(/^2 .*bad\.json: mean: /);
  });
});
