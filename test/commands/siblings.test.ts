// `--estimator siblings`: values recomputed in float64, mates found wherever they lie, and what stands in their place.
import { copyFile, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { recomputedFaults } from '../../dist/commands/scored/recompute.js';
import { align, pieceBags } from '../../dist/estimate/siblings/alignment.js';
import { farMates } from '../../dist/estimate/siblings/apart.js';
import { storedCredit } from '../../dist/estimators/stored-credit.js';
import type { Log } from '../../dist/report/log.js';
import { continuationLogprobs, fork, loadOracleModel, tokenStats } from '../oracle/llama.js';
import { oracleSibling } from '../oracle/siblings.js';
import { rredcotHere } from '../support/in-process.js';
import {
  EMBEDDED,
  FIXTURES,
  type FixtureRow,
  readJsonl,
  type ScoredRow,
  storedValues,
} from '../support/program.js';
import { madeTraces, scoredLine } from '../support/scored-traces.js';
import { temporaryFolder } from '../support/temporary-folder.js';

type Row = ScoredRow & { readonly value_prior: number[]; readonly value_ess: number[] };

const TRACES = 16; // two groups of eight
const SIBLINGS = '--estimator siblings --calibration calibration.json';

let folder: string;
let fixtures: FixtureRow[];
let rows: Row[];
const at = (name: string) => join(folder, name);
const run = async (line: string) => {
  const { code, stdout, stderr } = await rredcotHere(line.split(' ').filter(Boolean), { cwd: folder });
  return { code, said: `${stdout}${stderr}` };
};
const score = async (line: string) => {
  const { code, said } = await run(`score ${line}`);
  expect(code, said).toBe(0);
};
const write = (name: string, all: readonly object[]) =>
  writeFile(at(name), all.map((row) => `${JSON.stringify(row)}\n`).join(''));

beforeAll(async () => {
  folder = await temporaryFolder();
  fixtures = (await readJsonl<FixtureRow>(FIXTURES)).slice(0, TRACES);
  await write('traces.jsonl', fixtures);
  await write(
    'made.jsonl',
    madeTraces(12, 8).map((trace) => scoredLine(trace, {})),
  );
  await run('calibrate made.jsonl -o calibration.json');
  await score(`traces.jsonl ${SIBLINGS} -o siblings.jsonl`);
  rows = await readJsonl<Row>(at('siblings.jsonl'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

const thoughtEnds = (row: Row) =>
  Int32Array.from(
    row.segments.filter(({ kind }) => kind === 'thought'),
    ({ end }) => end as number,
  );

describe('siblings', () => {
  it('gives the value that its formula gives in float64, of the three mates most like the trace', () => {
    const model = loadOracleModel(EMBEDDED);
    const ids = new Map(fixtures.map((row) => [row.id, row]));
    const trace = (row: Row) => ids.get(row.id) as FixtureRow;
    const sum = (x: Float64Array) => x.reduce((a, b) => a + b, 0);
    const bags = (row: Row) =>
      // "<think>" and its newline come before the thought
      pieceBags(Int32Array.from(trace(row).completion_ids), 2, thoughtEnds(row));
    // the third one's completion was drawn four times
    for (const row of [rows[0], rows[2]] as Row[]) {
      const { prompt_ids: prompt, completion_ids: own } = trace(row);
      const { state } = tokenStats(model, [...prompt, ...own]);
      const text = (mate: Row) => trace(mate).completion;
      const drawn = (mate: Row) =>
        rows.filter((each) => each.group === mate.group && text(each) === text(mate)).length;
      const chosen = rows
        // of one completion the first one behind the trace
        .filter(
          (mate, n) => mate.group === row.group && rows.findIndex((each) => text(each) === text(mate)) === n,
        )
        .filter((mate) => text(mate) !== text(row))
        .map((mate) => ({ mate, ...align(bags(row), bags(mate)) }))
        .sort((a, b) => b.similarity - a.similarity);
      const scored = chosen.slice(0, 3).map(({ mate, states }) => {
        const theirs = trace(mate).completion_ids;
        const { logprobs } = tokenStats(model, [...prompt, ...theirs]);
        return { mate, states, theirs, logprobs: logprobs.subarray(prompt.length) };
      });
      const exits = [2, ...thoughtEnds(row)];
      for (const [k, value] of storedValues(row).entries()) {
        const mates = scored.map(({ mate, states, theirs, logprobs }) => {
          const from = [2, ...thoughtEnds(mate)][states[k] as number] as number;
          const before = fork(state, prompt.length + (exits[k] as number));
          return {
            here: sum(continuationLogprobs(model, before, theirs.slice(from, from + 40))),
            own: sum(logprobs.subarray(from, from + 40)),
            reward: mate.reward as number,
            draws: drawn(mate),
          };
        });
        const begunAlike = chosen
          .slice(3)
          .filter(
            ({ mate }) =>
              own.slice(0, exits[k]).join() === trace(mate).completion_ids.slice(0, exits[k]).join(),
          )
          .map(({ mate }) => mate.reward as number);
        expect(value).toBeCloseTo(
          oracleSibling(row.reward as number, row.value_prior[k] as number, mates, begunAlike, drawn(row)),
          4,
        );
      }
      expect(row.baseline).toBe(row.value_prior[0]);
      expect(row.value_ess).toHaveLength(exits.length);
      expect(Math.max(...row.value_ess)).toBeGreaterThan(1.5);
    }
  });

  it('finds mates wherever they lie: other windows, chunks, shards; a trace has the same values', async () => {
    // no group in one window: every other row is of the same one
    const order = fixtures.map((_, n) => fixtures[(n % 2) * 8 + Math.floor(n / 2)] as FixtureRow);
    await write('mixed.jsonl', order);
    await score(`mixed.jsonl ${SIBLINGS} --rows-per-chunk 4 -o mixed.out.jsonl`);
    const mixed = await readJsonl<Row>(at('mixed.out.jsonl'));
    expect(mixed.map(({ id }) => id)).toEqual(order.map(({ id }) => id));
    const byId = new Map(mixed.map((row) => [row.id, row]));
    for (const row of rows) {
      const other = byId.get(row.id) as Row;
      expect(other.status).toBe(row.status);
      for (const [k, value] of storedValues(row).entries())
        expect(storedValues(other)[k]).toBeCloseTo(value, 5);
    }
    for (const shard of [0, 1])
      await score(`mixed.jsonl ${SIBLINGS} --rows-per-chunk 4 --shard ${shard}/2 --format jsonl -o parts/`);
    const said = await run('merge parts/ -o merged.jsonl');
    expect(said.code, said.said).toBe(0);
    const [merged, whole] = await Promise.all(
      ['merged.jsonl', 'mixed.out.jsonl'].map((name) => readFile(at(name), 'utf8')),
    );
    expect(merged === whole).toBe(true);
  });

  it('gives a trace nearly the same values where all are there under a second id, and says so', async () => {
    const again = fixtures.map((row) => ({ ...row, id: `${row.id} again` }));
    await write('twice.jsonl', [...fixtures, ...again]);
    const { code, said } = await run(`score twice.jsonl ${SIBLINGS} -o twice.out.jsonl --log-json`);
    expect(code, said).toBe(0);
    expect(said).toContain('"same_completion"');
    // what is drawn twice counts twice, beside a prior that does not; what nobody draws twice counts once
    for (const [n, row] of (await readJsonl<Row>(at('twice.out.jsonl'))).slice(0, TRACES).entries())
      for (const [k, value] of storedValues(rows[n] as Row).entries())
        expect(Math.abs((storedValues(row)[k] as number) - value)).toBeLessThan(0.1);
    const verified = await run('verify twice.out.jsonl --log-json');
    expect([verified.code, verified.said]).toEqual([0, expect.stringContaining('"same_completion"')]);
    expect((await run(`score twice.jsonl -o pr.twice.jsonl --log-json`)).said).not.toContain(
      'same_completion',
    );
  });

  it('gives the traces before a limit the mates behind it', async () => {
    await score(`traces.jsonl ${SIBLINGS} --limit 11 -o limited.jsonl`);
    const limited = await readJsonl<Row>(at('limited.jsonl'));
    expect(limited).toHaveLength(11);
    for (const [n, row] of limited.entries())
      for (const [k, value] of storedValues(rows[n] as Row).entries())
        expect(storedValues(row)[k]).toBeCloseTo(value, 5);
  });

  it('says where there is no mate: the values are the calibrated ones', async () => {
    await write(
      'alone.jsonl',
      fixtures.slice(0, 3).map(({ group: _, ...row }) => row),
    );
    await score(`alone.jsonl ${SIBLINGS} -o alone.out.jsonl`);
    const found = await readJsonl<Row>(at('alone.out.jsonl'));
    for (const row of found) {
      expect(row.status).toBe('siblings:no-mate');
      expect(storedValues(row)).toEqual(row.value_prior);
      expect(row.value_ess.every((ess) => ess === 0)).toBe(true);
    }
    await score('alone.jsonl --estimator calibrated --calibration calibration.json -o calibrated.jsonl');
    for (const [n, row] of (await readJsonl<Row>(at('calibrated.jsonl'))).entries())
      expect(storedValues(row)).toEqual(storedValues(found[n] as Row));
  });

  it('asks the policy for no more room than its traces and tails take: a short context', async () => {
    const policy = await temporaryFolder();
    const config = JSON.parse(await readFile(join(EMBEDDED, 'policy.json'), 'utf8'));
    for (const name of [...Object.keys(config.files), 'canary.json'])
      await copyFile(join(EMBEDDED, name), join(policy, name));
    const architecture = { ...config.architecture, maxTokens: 170 };
    await writeFile(join(policy, 'policy.json'), JSON.stringify({ ...config, architecture }));
    const rejected = async (args: string): Promise<string[]> => {
      await rm(at('short.jsonl.rejects.jsonl'), { force: true });
      await score(`${args} --policy ${policy} --overwrite -o short.jsonl`);
      const found = await readFile(at('short.jsonl.rejects.jsonl'), 'utf8').catch(() => '');
      const rejects = found
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line));
      return rejects.map(({ id, code, reason }) => `${id} ${code} ${reason}`);
    };
    const byAnswers = await rejected('traces.jsonl');
    expect(byAnswers.length).toBeGreaterThan(0);
    expect(byAnswers.length).toBeLessThan(TRACES);
    expect(await rejected(`traces.jsonl ${SIBLINGS} --mate-tokens 100`)).toEqual(byAnswers);

    // behind the many lines of the one the long ending of the other has no room: the policy takes so much less of it
    const line = (name: string) => `${name}: 4*2=8 top 8\n`;
    const row = (id: string, thought: string, ending: string) => {
      const { prompt_ids: _, completion_ids: __, ...rest } = { ...(fixtures[0] as FixtureRow), id };
      return { ...rest, completion: `<think>\n${thought}</think>\nanswer: 8\n${ending}` };
    };
    await write('pair.jsonl', [
      row('long thought', [...'abcde'].map(line).join(''), ''),
      row('long ending', line('a'), 'so far so good.\n'.repeat(4)),
    ]);
    const pair = (tokens: number) => rejected(`pair.jsonl ${SIBLINGS} --mate-tokens ${tokens}`);
    const [reason, ...others] = await pair(60);
    expect(others).toEqual([]);
    const [, lacking, fits] =
      /^long thought too_long .*takes 170 tokens, (\d+) too few: --mate-tokens (\d+), or --policy/.exec(
        reason as string,
      ) ?? [];
    expect(Number(lacking) + Number(fits)).toBe(60);
    expect(await pair(Number(fits) + 1)).toHaveLength(1);
    expect(await pair(Number(fits))).toEqual([]);
  });

  it("takes the group's mean as b where the calibration stands back, as pr does", async () => {
    await write(
      'alike.jsonl',
      madeTraces(12, 8).map((trace) => scoredLine({ ...trace, reward: 1 }, {})),
    );
    await run('calibrate alike.jsonl -o none.json');
    await score('traces.jsonl --limit 8 --estimator siblings --calibration none.json -o back.jsonl');
    const group = fixtures.slice(0, 8);
    const mean = Math.fround(group.reduce((sum, { reward }) => sum + reward, 0) / group.length);
    for (const row of await readJsonl<Row>(at('back.jsonl'))) {
      expect(row.status).toBe('value:uncalibrated');
      expect(row.baseline).toBe(mean);
      expect(row.value_prior).toEqual(
        row.reference_logprobs.map(([lp]) => expect.closeTo(Math.exp(lp as number), 5)),
      );
    }
    expect((await run('verify back.jsonl')).code).toBe(0);
    await run('redistribute back.jsonl --sigma rudder -o again-back.jsonl');
    for (const row of await readJsonl<Row>(at('again-back.jsonl'))) expect(row.baseline).toBe(mean);
  });

  it('is made again by redistribute with another rule, byte for byte, and left for another estimator', async () => {
    const text = (name: string) => readFile(at(name), 'utf8');
    const config = async (name: string) => JSON.parse(await text(`${name}.summary.json`)).config;
    const redistribute = async (line: string) => {
      const { code, said } = await run(`redistribute ${line}`);
      expect(code, said).toBe(0);
    };
    await redistribute('siblings.jsonl --sigma signed -o again.jsonl');
    await score(`traces.jsonl ${SIBLINGS} --sigma signed -o fresh.jsonl`);
    expect((await text('again.jsonl')) === (await text('fresh.jsonl'))).toBe(true);
    expect(await config('again.jsonl')).toEqual(await config('fresh.jsonl'));

    // other branches share the runs of another estimator: the last bits of what the policy says differ
    await redistribute('siblings.jsonl --estimator pr -o again-pr.jsonl');
    await score('traces.jsonl -o pr.jsonl');
    expect(await config('again-pr.jsonl')).toEqual(await config('pr.jsonl'));
    const [again, fresh] = await Promise.all(
      ['again-pr.jsonl', 'pr.jsonl'].map((name) => readJsonl<ScoredRow>(at(name))),
    );
    for (const [n, row] of (fresh as ScoredRow[]).entries()) {
      const made = again?.[n] as ScoredRow;
      expect(Object.keys(made)).toEqual(Object.keys(row));
      expect(made.status).toBe(row.status);
      const worst = row.sigma.map((value, t) => Math.abs(value - (made.sigma[t] as number)));
      expect(Math.max(...worst)).toBeLessThan(1e-5);
    }
    await write(
      'edited.jsonl',
      rows.map(({ value_prior: _, ...row }) => row),
    );
    await writeFile(at('edited.jsonl.summary.json'), await text('siblings.jsonl.summary.json'));
    for (const [line, reason] of [
      ['edited.jsonl', 'has no value_prior'],
      ['pr.jsonl --estimator siblings', 'do not follow from what is stored'],
      ['siblings.jsonl --reward-range 0,2', 'the values of siblings have rewards in them'],
    ] as const) {
      const { code, said } = await run(`redistribute ${line} -o none.jsonl`);
      expect(code).toBe(2);
      expect(said).toContain(reason);
    }
  });

  it('is looked at by verify: its prior, its baseline, and values without a mate', async () => {
    expect((await run('verify siblings.jsonl')).code).toBe(0);
    const { config } = JSON.parse(await readFile(at('siblings.jsonl.summary.json'), 'utf8'));
    expect(config).toMatchObject({
      mates: 3,
      mateTokens: 40,
      mateWeights: [-30, 3],
      matePrior: 0.5,
      matePriorShare: 0.25,
      mateDrawnTwice: 1e-4,
    });
    const credit = storedCredit(config);
    const faults = (change: object) => {
      const cells = { ...rows[0], ...change } as Record<string, unknown>;
      const row = {
        number: 0,
        has: (name: string) => name in cells,
        cell: (name: string) => cells[name] ?? null,
      };
      return recomputedFaults(row, credit, config).join('\n');
    };
    const [row] = rows as [Row];
    expect(faults({})).toBe('');
    expect(faults({ value_prior: [0.25, ...row.value_prior.slice(1)] })).toMatch(/by the calibration with/);
    expect(faults({ value_prior: row.value_prior.slice(1) })).toMatch(
      /value_prior has \d+ entries, expected/,
    );
    expect(faults({ baseline: row.value_start })).toMatch(/baseline is .*expected V\(s_0\)/);
    expect(faults({ status: 'siblings:no-fit' })).toMatch(/the value of exit \d+ is/);
    expect(faults({ status: 'siblings:no-fit' })).toMatch(/value_ess\[0\] is .*, expected 0 with the status/);
    expect(faults({ value_ess: row.value_prior.map(() => 0.5) })).toMatch(
      /value_ess\[0\] is 0\.5, expected 1 or/,
    );
    expect(faults({ value_ess: [] })).toMatch(/value_ess has 0 entries, expected/);
  });

  it.each([
    [1, []],
    [0, ['1 of 2 groups lie apart']],
  ])('tells where many groups lie apart (second group from row %i on)', async (first, told) => {
    const warnings: string[] = [];
    const log = { warn: (_: string, text: string) => void warnings.push(text) } as unknown as Log;
    const survey = {
      groupRewards: new Map(
        [
          [0, 0],
          [first, 1],
        ].map((span, n) => [`${n}`, { sum: 0, count: 2, span }]),
      ),
      ...{ traces: 2, rejects: 0, rows: 2, lastRow: undefined },
    };
    const run = { survey, folder, rowsPerChunk: 1, wanted: () => true };
    const prepare = () => Promise.reject(new Error('asked'));
    const whole = { async *again() {}, prepare, run } as never;
    const far = await farMates(whole, (row) => row, log, new AbortController().signal);
    await far?.[Symbol.asyncDispose]();
    expect(warnings.map((text) => text.split(',')[0])).toEqual(told);
  });

  it('refuses a pipe, in which mates that are still to come cannot be looked for', async () => {
    const whole = { run: { survey: undefined } } as never;
    const asked = farMates(whole, () => 0, {} as never, new AbortController().signal);
    await expect(asked).rejects.toThrow('which a pipe gives once');
  });

  it.each([
    ['- --estimator siblings --calibration calibration.json', 'which stdin gives once'],
    [`traces.jsonl ${SIBLINGS} --segmenter entropy`, 'aligns pieces of text'],
    ['traces.jsonl --estimator siblings', 'needs a calibration'],
    ['traces.jsonl --mates 4', '--mates has no meaning with --estimator pr'],
    [`traces.jsonl ${SIBLINGS} --mates 0`, '--mates 0'],
    [`traces.jsonl ${SIBLINGS} --method segment`, "have the trace's own outcome in them"],
  ])('refuses score %s', async (line, reason) => {
    const { code, said } = await run(`score ${line} -o refused.jsonl`);
    expect(code).toBe(2);
    expect(said).toContain(reason);
  });
});
