// What looks at a scored file says what is in it: `summary`, `report` and `inspect`.
import { readFile } from 'node:fs/promises';
import { gunzipSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import { shownTrace } from '../../dist/commands/shown.js';
import { resolveMapping } from '../../dist/io/map/mapping.js';
import { resolveInputs } from '../../dist/io/read/inputs.js';
import type { PageRecord } from '../../dist/report/page/scored-page.js';
import { inputRow } from '../support/io-helpers.js';
import { FIXTURES, type ScoredRow, storedValues } from '../support/program.js';
import { openScene } from '../support/scene.js';

const { at, done, fails, rows: rowsOf, run, text, write } = await openScene();
let rows: ScoredRow[];

beforeAll(async () => {
  await done(`score ${FIXTURES} -o scored.parquet --limit 16 --sigma share,rudder --quiet`);
  rows = await rowsOf('scored.parquet');
});

describe('summary', () => {
  it('--json has the numbers of the rows', async () => {
    const found = JSON.parse((await done('summary scored.parquet --json')).stdout);
    const right = rows.filter(({ reward }) => reward === 1);
    const ranges = rows.map((row) => Math.max(...storedValues(row)) - Math.min(...storedValues(row)));
    expect(found).toMatchObject({
      ...{ format: 1, traces: 16, right: right.length, wrong: 16 - right.length, unknown: 0, unreadable: {} },
      tokens: rows.reduce((sum, { sigma }) => sum + sigma.length, 0),
      config: { estimator: 'pr', rule: ['share', 'rudder'] },
      distributions: {
        value_range: { n: 16 },
        tokens: { max: Math.max(...rows.map(({ sigma }) => sigma.length)) },
      },
      values: { right: { end: { n: right.length } } },
      calibration: { value_end: { n: 16 } },
    });
    expect(found.distributions.value_range.max).toBeCloseTo(Math.max(...ranges), 6);
    expect(found.status.ok).toBe(rows.filter(({ status }) => status === 'ok').length);
    expect(Object.keys(found.policy).length).toBeGreaterThan(5);
    expect(found.sha256).toMatch(/^[0-9a-f]{64}$/);
  });

  it('says the same in lines', async () => {
    const { stdout } = await done('summary scored.parquet');
    expect(stdout).not.toContain('σ in the rows');
    expect(stdout).toMatch(/^scored\.parquet: 16 traces \(\d+ right, \d+ wrong, 0 unknown\)/);
    expect(stdout).toMatch(/\nrange of v̂ +\d\.\d{3} +\d\.\d{3}/);
    expect(stdout).not.toContain('NaN');
  });

  it('of a file that nobody has scored, or that was changed, is refused', async () => {
    await write('plain.jsonl', '{"id":"a"}\n');
    for (const command of ['summary', 'report', 'inspect --worst'])
      await fails(
        `${command} plain.jsonl`,
        2,
        /plain\.jsonl: nothing says .*rredcot score plain\.jsonl -o scored\.parquet/s,
      );
    const bytes = await readFile(at('scored.parquet'));
    bytes[200] = (bytes[200] as number) ^ 1;
    await write('edited.parquet', bytes);
    expect(await run('summary edited.parquet')).toMatchObject({ code: 65, stdout: '' });
  });
});

describe('report', () => {
  const recordsOf = async (name: string): Promise<PageRecord[]> => {
    const data = /id="data">(.*?)<\/script>/s.exec(await text(name))?.[1] as string;
    return (JSON.parse(data) as { traces: string[] }).traces.map((packed) =>
      JSON.parse(gunzipSync(Buffer.from(packed, 'base64')).toString()),
    );
  };

  it('holds the traces of a file, each with its texts, values and both credits', async () => {
    const { stderr } = await done('report scored.parquet -o all.html');
    expect(stderr).toContain('16 traces, 16 with a page of their own');
    const records = await recordsOf('all.html');
    expect(records.map(({ id }) => id)).toEqual(rows.map(({ id }) => id));
    for (const [n, record] of records.entries()) {
      const row = rows[n] as ScoredRow;
      const { group, prompt } = row;
      expect(record).toMatchObject({ row: n, group, prompt, credits: ['share', 'rudder'] });
      expect(record.segments.map(({ text }) => text).join('')).toBe(row.completion);
      for (const [k, { value, sigma, answer }] of record.segments.entries()) {
        // to the last digit, so that it is rounded as inspect rounds it
        expect(Math.fround(sigma[0] as number)).toBe(row.segments[k]?.sigma);
        if (!answer) expect(Math.fround(value as number)).toBe(row.segments[k]?.value);
      }
      // uniform σ is 1 a token, whatever the length
      const mean = record.line.weights[0]?.reduce((sum, w) => sum + w, 0) as number;
      expect(mean / row.sigma.length).toBeCloseTo(1, 1);
      expect(record.references.length).toBe(1);
      expect(row.completion.trimEnd().endsWith(record.answer)).toBe(true);
      expect(record.answer).toMatch(/^answer: /);
    }
  });

  it('holds those that fit, at most as many as were asked for, and none of them twice', async () => {
    await done("report scored.parquet -o some.html --where 'reward == 0' --traces 2");
    const records = await recordsOf('some.html');
    expect(records.map(({ reward }) => reward)).toEqual([0, 0]);
    expect(new Set(records.map(({ id }) => id)).size).toBe(2);
    expect(await text('some.html')).toContain('<dt>traces</dt><dd>16</dd>');
    expect((await run('report scored.parquet -o scored.parquet')).code).toBe(2);
    await fails("report scored.parquet --where 'rewrad == 0'", 2, /no figure is called "rewrad"/);
  });
});

describe('inspect', () => {
  const falls = (row: ScoredRow) => Math.max(...row.segments.map(({ delta }) => -delta));

  it('--worst finds the trace, and says why it is that one', async () => {
    const [row] = rows.filter(({ reward }) => reward === 0).toSorted((a, b) => falls(b) - falls(a));
    const { stdout } = await done('inspect scored.parquet --worst');
    expect(stdout.startsWith(`${row?.id}: reward 0.000`)).toBe(true);
    expect(stdout).toContain('the wrong trace whose value fell the most in one segment');
    expect(stdout).toMatch(/\n +v̂ +Δ +σ +segment\n/);
    expect(stdout).toMatch(/\nlowered it +segment \d+ +−\d\.\d{3}/);
    // no colors in a pipe
    expect(stdout).not.toContain('\u001b');
    const { scored } = JSON.parse((await done('inspect scored.parquet --worst --json')).stdout);
    expect(scored.harmful[0].change).toBeCloseTo(-falls(row as ScoredRow), 6);
    expect(scored.values).toEqual(storedValues(row as ScoredRow));
    expect(scored.sigma).toEqual(row?.sigma);
  });

  it('shows the rows of a file that was only cut, of which none is the worst', async () => {
    await done(`segment ${FIXTURES} --no-policy --limit 9 -o cuts.jsonl --quiet`);
    const { stdout } = await done('inspect cuts.jsonl --row 8');
    expect(stdout).toMatch(/\[1\] <think>[\s\S]*\[2\] /);
    expect(stdout).not.toContain('NaN');
    await fails('inspect cuts.jsonl --worst', 2, 'was made by rredcot segment');
  });

  it('warns of one trace that another policy wrote, whichever way it was named', async () => {
    const row = (logprob: number) => inputRow({ ...rows[0], logprobs: rows[0]?.sigma.map(() => logprob) });
    const { map } = await resolveMapping(await resolveInputs([at('scored.parquet')]), {
      preset: 'auto',
    } as never);
    const warnings = (logprob: number, vocab: number | undefined) => {
      const file = { places: { map, named: {} }, vocab, credits: [] };
      return shownTrace(row(logprob), file as never, undefined)?.warnings;
    };
    expect(warnings(-2.9, 64)).toEqual([expect.stringContaining('mean log p is −2.90')]);
    expect(warnings(-2.9, undefined)).toEqual([]);
    expect(warnings(-0.1, 64)).toEqual([]);
  });

  it('--where finds the first that fits, and goes with no --row', async () => {
    const zero = rows.findIndex(({ reward }) => reward === 0);
    const { stdout } = await done("inspect scored.parquet --where 'reward == 0'");
    expect(stdout).toMatch(new RegExp(`\\nrow +${zero} of scored.parquet: the first that fits`));
    expect((await run("inspect scored.parquet --where 'reward == 9'")).code).toBe(65);
    expect((await run('inspect scored.parquet --worst --row 1')).code).toBe(2);
  });
});
