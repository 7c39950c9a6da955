// `--estimator progress`: values under another policy recomputed in float64, what of them can be made again, and what is refused.
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { recomputedFaults } from '../../dist/commands/scored/recompute.js';
import { storedCredit } from '../../dist/estimators/stored-credit.js';
import { readExitTemplate } from '../../dist/policy/folder.js';
import { buildPolicyFolder } from '../../dist/policy/run/build-policy.js';
import { oracleHierarchical, oracleStd } from '../oracle/hierarchical.js';
import { continuationLogprobs, fork, loadOracleModel, tokenStats } from '../oracle/llama.js';
import { rredcotHere } from '../support/in-process.js';
import {
  FIXTURES,
  type FixtureRow,
  PROVER,
  readJsonl,
  type ScoredRow,
  storedValues,
} from '../support/program.js';
import { temporaryFolder } from '../support/temporary-folder.js';

type HierarchicalRow = ScoredRow & {
  readonly token_advantage: number[];
  readonly token_factor: number[];
  readonly progress: number[];
  readonly group_std: number;
};

const TRACES = 4;
const K = 3;
const PROGRESS = '--estimator progress --prover prover';

let folder: string;
let fixtures: FixtureRow[];
let rows: ScoredRow[];
const at = (name: string) => join(folder, name);
const run = async (line: string) => {
  const { code, stdout, stderr } = await rredcotHere(line.split(' ').filter(Boolean), { cwd: folder });
  return { code, said: `${stdout}${stderr}` };
};
const done = async (line: string) => {
  const { code, said } = await run(line);
  expect(code, said).toBe(0);
  return said;
};

beforeAll(async () => {
  folder = await temporaryFolder();
  await buildPolicyFolder(PROVER, at('prover'), await readExitTemplate(join(PROVER, 'exit_template.json')));
  // of one group, right ones and wrong ones
  fixtures = (await readJsonl<FixtureRow>(FIXTURES)).slice(8, 8 + TRACES);
  await writeFile(at('traces.jsonl'), fixtures.map((row) => `${JSON.stringify(row)}\n`).join(''));
  await done(`score traces.jsonl ${PROGRESS} --best-of ${K} -o progress.jsonl`);
  rows = await readJsonl<ScoredRow>(at('progress.jsonl'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe('progress', () => {
  it("has the prover's values in float64, the best of K, at the policy's own cuts", async () => {
    await done('score traces.jsonl -o pr.jsonl');
    const own = await readJsonl<ScoredRow>(at('pr.jsonl'));
    const model = loadOracleModel(PROVER);
    const text = (x: string) => [...Buffer.from(x)];
    for (const [n, row] of rows.slice(0, 2).entries()) {
      const { prompt_ids: prompt, completion_ids: completion, answer } = fixtures[n] as FixtureRow;
      const before = own[n] as ScoredRow;
      expect(row.entropies).toEqual(before.entropies);
      expect(row.logprobs).toEqual(before.logprobs);
      expect(row.segments.map(({ end }) => end)).toEqual(before.segments.map(({ end }) => end));
      expect(row.baseline).toBe(before.baseline);
      const { state } = tokenStats(model, [...prompt, ...completion]);
      const ends = row.segments.filter(({ kind }) => kind === 'thought').map(({ end }) => end as number);
      const close = [257, ...text('\nanswer: ')];
      for (const [k, exit] of [2, ...ends].entries()) {
        const suffix = [...close, ...text(`${answer}\n`)];
        const lp = continuationLogprobs(model, fork(state, prompt.length + exit), suffix).subarray(
          close.length,
        );
        const v = Math.exp(lp.reduce((a, b) => a + b, 0));
        expect(Math.abs((storedValues(row)[k] as number) - (1 - (1 - v) ** K))).toBeLessThan(1e-4);
      }
    }
    // a weaker policy has other values
    expect(storedValues(rows[0] as ScoredRow)).not.toEqual(storedValues(own[0] as ScoredRow));
  });

  it('is made again from what is stored, for another K and another estimator of the prover, and for no other policy', async () => {
    await done('verify progress.jsonl');
    const text = (name: string) => readFile(at(name), 'utf8');
    const config = async (name: string) => JSON.parse(await text(`${name}.summary.json`)).config;
    const one = '--best-of 1 --sigma rudder';
    await done(`redistribute progress.jsonl ${one} -o one.jsonl`);
    await done(`score traces.jsonl ${PROGRESS} ${one} -o fresh.jsonl`);
    expect(await text('one.jsonl')).toBe(await text('fresh.jsonl'));
    expect(await config('one.jsonl')).toEqual(await config('fresh.jsonl'));
    await done('redistribute progress.jsonl --prover-estimator pr-geo -o geo.jsonl');
    await done('verify geo.jsonl');
    const { code, said } = await run('redistribute progress.jsonl --estimator pr -o no.jsonl');
    expect([code, said]).toEqual([
      2,
      expect.stringContaining('were scored by the prover, not by the policy'),
    ]);
    const back = await run('redistribute pr.jsonl --estimator progress -o no.jsonl');
    expect([back.code, back.said]).toEqual([2, expect.stringContaining('by the policy, not by a prover')]);
    const fitted = await run('calibrate progress.jsonl -o no.json');
    expect([fitted.code, fitted.said]).toEqual([2, expect.stringContaining('--estimator progress')]);
    // a value that is not that of its log-probabilities
    const credit = storedCredit(await config('progress.jsonl'));
    expect(credit?.estimator.config).toEqual({ proverEstimator: 'pr', bestOf: K });
    const faults = (change: object) => {
      const cells = { ...rows[0], ...change } as Record<string, unknown>;
      const row = {
        number: 0,
        has: (name: string) => name in cells,
        cell: (name: string) => cells[name] ?? null,
      };
      return recomputedFaults(row, credit).join('; ');
    };
    expect(faults({})).toBe('');
    expect(faults({ value_start: 0.5 })).toContain('value_start is 0.5, from reference_logprobs it is');
  });

  it('makes hierarchical credit, of the same file and in one go, apart and together', async () => {
    await done('redistribute progress.jsonl --method hierarchical --alpha 2 -o made.jsonl');
    const flags = `--best-of ${K} --method hierarchical --alpha 2`;
    await done(`score traces.jsonl --prover prover ${flags} -o hierarchical.jsonl`);
    expect(await readFile(at('made.jsonl'), 'utf8')).toBe(await readFile(at('hierarchical.jsonl'), 'utf8'));
    // the deviation of a part of a group is not the group's
    await done('filter progress.jsonl --where reward==0 -o part.jsonl');
    const part = await run('redistribute part.jsonl --method hierarchical -o no.jsonl');
    expect([part.code, part.said]).toEqual([65, expect.stringContaining('was filtered')]);
    await done('verify made.jsonl');
    const { config } = JSON.parse(await readFile(at('made.jsonl.summary.json'), 'utf8'));
    expect(config).toEqual(JSON.parse(await readFile(at('hierarchical.jsonl.summary.json'), 'utf8')).config);
    expect(config.returnEquivalent).toBe(false);
    const made = await readJsonl<HierarchicalRow>(at('made.jsonl'));
    const std = oracleStd(made.map(({ reward }) => reward as number));
    expect(std).toBeGreaterThan(0);
    for (const row of made) {
      const { reward, baseline, entropies } = row as {
        reward: number;
        baseline: number;
        entropies: number[];
      };
      const [values, ends] = [storedValues(row), row.segments.map(({ end }) => end as number)];
      const expected = oracleHierarchical({ ends, values, entropies, reward, baseline, std }, 2, 0.5);
      for (const [t, advantage] of row.token_advantage.entries())
        expect(advantage).toBeCloseTo(expected[t] as number, 5);
      expect(row.progress).toEqual(row.segments.map(({ delta }) => delta));
      expect(row.group_std).toBeCloseTo(std, 6);
    }
    const faults = (change: object) => {
      const cells = { ...made[0], ...change } as Record<string, unknown>;
      const row = {
        number: 0,
        has: (name: string) => name in cells,
        cell: (name: string) => cells[name] ?? null,
      };
      return recomputedFaults(row, storedCredit(config)).join('; ');
    };
    expect(faults({})).toBe('');
    expect(faults({ outcome_advantage: 0.1 })).toContain(
      'outcome_advantage is 0.1, from reward, baseline and group_std',
    );
    for (const name of ['token_advantage', 'token_factor', 'progress'] as const)
      expect(faults({ [name]: made[0]?.[name].map(() => 7) })).toContain(`${name}[0] is 7`);
    // back again: nothing of it is left
    await done('redistribute made.jsonl --method sigma -o back.jsonl');
    expect(await readFile(at('back.jsonl'), 'utf8')).toBe(await readFile(at('progress.jsonl'), 'utf8'));
  });

  it('is of one prover: another one in its place is refused, by the file that differs', async () => {
    const first = `score traces.jsonl ${PROGRESS} --rows-per-chunk 1 -o shards/ --shard 0/2`;
    await done(first);
    const path = at('prover/policy.json');
    const text = await readFile(path, 'utf8');
    const tokens = await readFile(at('prover/tokenizer_config.json'));
    await writeFile(at('prover/tokenizer_config.json'), '{}');
    await writeFile(path, text.replace(/("tokenizer_config.json": ")[0-9a-f]{64}/, `$1${HASH_OF_BRACES}`));
    const { code, said } = await run(first);
    expect([code, said]).toEqual([2, expect.stringMatching(/--prover \(tokenizer_config\.json\) is "/)]);
    await writeFile(path, text);
    await writeFile(at('prover/tokenizer_config.json'), tokens);
  });

  it('says what has no meaning together, and that a policy is its own prover', async () => {
    for (const [flags, expected] of [
      ['--estimator progress', '--estimator progress needs a prover'],
      ['--prover prover', '--prover has no meaning with --estimator pr'],
      ['--best-of 2', '--best-of has no meaning with --estimator pr'],
      ['--prover-estimator pr', '--prover-estimator has no meaning with --estimator pr'],
      ['--method hierarchical', '--estimator progress needs a prover'],
      ['--method hierarchical --estimator pr', '--estimator pr has none'],
      ['--alpha 2', '--alpha has no meaning with --method sigma'],
      [`${PROGRESS} --method hierarchical --beta -1`, '--beta -1: expected 0 to 1000000'],
      [`${PROGRESS} --prover-estimator joint`, '--prover-estimator joint: unknown choice'],
      [`${PROGRESS} --prover-estimator pr-geo --best-of 2`, '--prover-estimator pr-geo are no probabilities'],
    ]) {
      const { code, said } = await run(`score traces.jsonl ${flags} -o no.jsonl`);
      expect([code, said]).toEqual([2, expect.stringContaining(expected as string)]);
    }
    const dry = `score traces.jsonl --policy prover ${PROGRESS} --dry-run`;
    const { stdout: told, stderr } = await rredcotHere(dry.split(' '), { cwd: folder });
    expect(stderr).toContain('is the policy itself');
    const exits = rows.reduce((sum, row) => sum + storedValues(row).length, 0);
    expect(told).toMatch(new RegExp(`exits +${exits}, with ${exits} branches`));
    expect(told).toMatch(/time +about .* with the second pass/);
  });
});

/** sha256 of `{}` */
const HASH_OF_BRACES = '44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a';
