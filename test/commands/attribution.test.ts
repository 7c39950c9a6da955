// Attributions on the embedded policy: computed again from what is stored, redistributed, verified, compared, refused.
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { recomputedFaults } from '../../dist/commands/scored/recompute.js';
import { storedCredit } from '../../dist/estimators/stored-credit.js';
import { rredcotHere } from '../support/in-process.js';
import { FIXTURES, type FixtureRow, readJsonl, type ScoredRow, storedValues } from '../support/program.js';
import { temporaryFolder } from '../support/temporary-folder.js';

const TRACES = 8;

let folder: string;
let fixtures: FixtureRow[];
const at = (name: string) => join(folder, name);
const run = async (line: string) => {
  const { code, stdout, stderr } = await rredcotHere(line.split(' ').filter(Boolean), { cwd: folder });
  return { code, said: `${stdout}${stderr}`, stdout };
};
const done = async (line: string) => {
  const { code, said } = await run(line);
  expect(code, said).toBe(0);
};
const configOf = async (name: string) =>
  JSON.parse(await readFile(at(`${name}.summary.json`), 'utf8')).config as Record<string, unknown>;

beforeAll(async () => {
  folder = await temporaryFolder();
  fixtures = (await readJsonl<FixtureRow>(FIXTURES)).slice(0, TRACES);
  await writeFile(at('traces.jsonl'), fixtures.map((row) => `${JSON.stringify(row)}\n`).join(''));
  await done('score traces.jsonl --estimator surprise -o surprise.jsonl');
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe('surprise', () => {
  it('is what the stored log-probabilities say, without a reference, and verify says so', async () => {
    const rows = await readJsonl<ScoredRow>(at('surprise.jsonl'));
    for (const row of rows) {
      const values = storedValues(row);
      expect(values[0]).toBe(0);
      for (const [k, { start, end, kind, delta }] of row.segments.entries()) {
        if (kind !== 'thought') continue;
        const least = Math.min(...row.logprobs.slice(start ?? 0, end ?? 0));
        expect(delta).toBeCloseTo(-least, 4);
        expect((values[k + 1] as number) - (values[k] as number)).toBeCloseTo(-least, 4);
      }
      expect(row.reference_logprobs.every((exit) => exit.length === 0)).toBe(true);
    }
    await done('verify surprise.jsonl');
    const [row] = rows as [ScoredRow];
    const credit = storedCredit(await configOf('surprise.jsonl'));
    const faults = (change: object) => {
      const cells = { ...row, ...change } as Record<string, unknown>;
      const stored = { number: 0, has: (name: string) => name in cells, cell: (name: string) => cells[name] };
      return recomputedFaults(stored, credit).join('\n');
    };
    expect(faults({})).toBe('');
    const surer = row.logprobs.map((logprob) => logprob / 2);
    expect(faults({ logprobs: surer })).toMatch(/segments\[0\].value is .*, from logprobs it is/);
  });

  it('needs no references in the row', async () => {
    const bare = fixtures.slice(0, 2).map(({ id, prompt_ids, completion_ids, reward, group }) => ({
      ...{ id, prompt_ids, completion_ids, reward, group },
    }));
    await writeFile(at('bare.jsonl'), bare.map((row) => `${JSON.stringify(row)}\n`).join(''));
    await done('score bare.jsonl --estimator surprise -o bare.out.jsonl');
    expect(await readJsonl(at('bare.out.jsonl'))).toHaveLength(2);
  });

  it('follows from a file of any other estimator: the columns and the configuration that score has', async () => {
    await done('score traces.jsonl --bank group -o pr.jsonl');
    await done('redistribute pr.jsonl --estimator surprise --sigma rudder,abs -o again.jsonl');
    await done('score traces.jsonl --estimator surprise --sigma rudder,abs -o fresh.jsonl');
    await done('verify again.jsonl');
    expect(await configOf('again.jsonl')).toEqual(await configOf('fresh.jsonl'));
    const [again, fresh] = await Promise.all(
      ['again.jsonl', 'fresh.jsonl'].map((name) => readJsonl<ScoredRow>(at(name))),
    );
    // branches share the run of pr: the last bits of what the policy says differ
    const near = (value: unknown): unknown =>
      typeof value === 'number' ? Number(value.toFixed(3)) : Array.isArray(value) ? value.map(near) : value;
    for (const [n, row] of (fresh as ScoredRow[]).entries()) {
      const made = again?.[n] as ScoredRow;
      expect(Object.keys(made)).toEqual(Object.keys(row));
      for (const name of ['status', 'reference_logprobs', 'reference_utilities', 'reference_tokens'] as const)
        expect(made[name as keyof ScoredRow]).toEqual(row[name as keyof ScoredRow]);
      for (const [t, sigma] of row.sigma.entries()) expect(made.sigma[t]).toBeCloseTo(sigma, 4);
      expect(near(storedValues(made))).toEqual(near(storedValues(row)));
    }
  });

  it('is compared with the sign of the outcome: what surprised on a wrong trace is blamed', async () => {
    const { code, stdout } = await run('compare surprise.jsonl --json');
    expect(code).toBe(0);
    const figures = JSON.parse(stdout).figures as Record<string, unknown>[];
    const ranks = figures.find(
      ({ measure, of, credit, traces, last }) =>
        [measure, of, credit, traces, last].join() === 'pooled_spearman,sigma_share,surprise,all,1' ||
        [measure, of, credit, traces, last].join() === 'pooled_spearman,surprise,sigma_share,all,1',
    );
    // σ times R* and a_k with the sign of R* rank alike: share keeps the order of magnitudes
    expect(ranks?.value).toBeGreaterThan(0.6);
  });
});

describe('loo', () => {
  it('is written beside what pr stores, verified, and made pr again', async () => {
    await done('score traces.jsonl --estimator loo -o loo.jsonl --sigma rudder,share');
    await done('verify loo.jsonl');
    expect(await configOf('loo.jsonl')).toMatchObject({ estimator: 'loo', loo: 'deleted' });
    await done('redistribute loo.jsonl --estimator pr -o loo-pr.jsonl');
    await done('score traces.jsonl --sigma rudder,share -o fresh-pr.jsonl');
    expect(await configOf('loo-pr.jsonl')).toEqual(await configOf('fresh-pr.jsonl'));
    const texts = await Promise.all(
      ['loo-pr.jsonl', 'fresh-pr.jsonl'].map((name) => readFile(at(name), 'utf8')),
    );
    expect(texts[0] === texts[1]).toBe(true);
    const rows = await readJsonl<ScoredRow>(at('loo.jsonl'));
    const deltas = rows.flatMap(({ segments }) => segments.map(({ delta }) => delta as number));
    expect(Math.max(...deltas.map(Math.abs))).toBeGreaterThan(0.01);
    expect(deltas.some((delta) => delta < 0)).toBe(true);
  });

  it('tells what it costs', async () => {
    const { code, said } = await run('score traces.jsonl --estimator loo --dry-run');
    expect(code).toBe(0);
    expect(said).toMatch(/again +\d+ sequences, [\d,]+ tokens to be read besides: about/);
  });
});

describe.each(['attention', 'gradient'] as const)('%s', (estimator) => {
  it('is a magnitude beside what pr stores, verified', async () => {
    await done(`score traces.jsonl --estimator ${estimator} -o ${estimator}.jsonl --sigma rudder,share`);
    await done(`verify ${estimator}.jsonl`);
    const rows = await readJsonl<ScoredRow>(at(`${estimator}.jsonl`));
    for (const row of rows) {
      const deltas = row.segments.map(({ delta }) => delta as number);
      expect(Math.min(...deltas)).toBe(0); // the answer's own
      expect(deltas.slice(0, -1).every((delta) => delta > 0)).toBe(true);
      const sum = deltas.reduce((a, b) => a + b, 0);
      if (estimator === 'attention') expect(sum).toBeLessThanOrEqual(1);
      expect(sum).toBeCloseTo(storedValues(row).at(-1) as number, 4);
      expect(row.reference_logprobs.every((exit) => exit.length === 1)).toBe(true);
    }
  });
});

describe('what has no meaning', () => {
  it.each([
    ['score traces.jsonl --estimator surprise --bank group', 'nothing is scored'],
    ['score traces.jsonl --estimator surprise --baseline value', 'sums of attributions'],
    ['score traces.jsonl --estimator surprise --sigma signed', 'sums of attributions'],
    ['score traces.jsonl --estimator surprise --steps scaled', 'sums of attributions'],
    ['score traces.jsonl --estimator surprise --method segment', 'no expected rewards'],
    ['score traces.jsonl --estimator gradient --sigma rudder --export prm', 'has none'],
    ['score traces.jsonl --loo masked', '--loo has no meaning with --estimator pr'],
    ['score traces.jsonl --estimator loo --loo hidden', '--loo hidden'],
    ['redistribute surprise.jsonl --estimator loo', 'do not follow from what is stored'],
    ['redistribute surprise.jsonl --estimator pr', 'surprise has scored nothing'],
  ])('%s', async (line, reason) => {
    const { code, said } = await run(`${line} -o refused.jsonl`);
    expect(code).toBe(2);
    expect(said).toContain(reason);
  });
});
