// `--estimator posterior`: the ratio of a hint in float64 by a policy that reads it, what is stored of it, and what is refused.
import { cp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { recomputedFaults } from '../../dist/commands/scored/recompute.js';
import { storedCredit } from '../../dist/estimators/stored-credit.js';
import { readExitTemplate } from '../../dist/policy/folder.js';
import { buildPolicyFolder } from '../../dist/policy/run/build-policy.js';
import { loadOracleModel, tokenStats } from '../oracle/llama.js';
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

const POSTERIOR = '--estimator posterior --hint-policy hinted';

let folder: string;
let fixtures: FixtureRow[];
let rows: (ScoredRow & { readonly hint_logprobs: number[] })[];
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
  // another policy of the same task, with a template beside its weights: `policy build` takes it along
  await cp(PROVER, at('checkpoint'), { recursive: true });
  await writeFile(at('checkpoint/hint_template.json'), '{"text": "hint {answer}\\n"}');
  await buildPolicyFolder(
    at('checkpoint'),
    at('hinted'),
    await readExitTemplate(join(PROVER, 'exit_template.json')),
  );
  fixtures = (await readJsonl<FixtureRow>(FIXTURES)).slice(8, 12);
  await writeFile(at('traces.jsonl'), fixtures.map((row) => `${JSON.stringify(row)}\n`).join(''));
  await done(`score traces.jsonl ${POSTERIOR} -o posterior.jsonl`);
  rows = await readJsonl(at('posterior.jsonl'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe('posterior', () => {
  it('is the ratio in float64, of the prompt with the hint and of the one without', () => {
    const model = loadOracleModel(PROVER);
    for (const [n, row] of rows.slice(0, 2).entries()) {
      const { prompt_ids: prompt, completion_ids: own, answer } = fixtures[n] as FixtureRow;
      const before = [...prompt, ...Buffer.from(`hint ${answer}\n`)];
      const { logprobs } = tokenStats(model, [...before, ...own]);
      const hinted = logprobs.subarray(before.length);
      for (const [t, lp] of hinted.entries())
        expect(Math.abs((row.hint_logprobs[t] as number) - lp)).toBeLessThan(1e-3);
      const ends = row.segments.filter(({ kind }) => kind === 'thought').map(({ end }) => end as number);
      for (const [k, exit] of [2, ...ends].entries()) {
        const sum = hinted
          .slice(2, exit)
          .reduce((total, lp, t) => total + lp - (row.logprobs[t + 2] as number), 0);
        expect(Math.abs((storedValues(row)[k] as number) - 1 / (1 + Math.exp(-sum)))).toBeLessThan(1e-3);
      }
    }
  });

  it('is read by the policy itself where no other is named, and scores no reference', async () => {
    await writeFile(at('template.json'), '{"text": "hint {answer}\\n"}');
    await done('score traces.jsonl --estimator posterior --hint-template template.json -o own.jsonl');
    const own = await readJsonl<(typeof rows)[number]>(at('own.jsonl'));
    expect(own[0]?.logprobs).toEqual(rows[0]?.logprobs);
    expect(own[0]?.hint_logprobs).not.toEqual(rows[0]?.hint_logprobs);
    expect(own[0]).toMatchObject({ reference_utilities: [], baseline: rows[0]?.baseline });
  });

  it('is looked at by verify, keeps its column with another rule, and is made of nothing else', async () => {
    await done('verify posterior.jsonl');
    await done('redistribute posterior.jsonl --sigma rudder -o rudder.jsonl');
    await done(`score traces.jsonl ${POSTERIOR} --sigma rudder -o fresh.jsonl`);
    const text = (name: string) => readFile(at(name), 'utf8');
    expect(await text('rudder.jsonl')).toBe(await text('fresh.jsonl'));
    const { config } = JSON.parse(await text('posterior.jsonl.summary.json'));
    expect(config).toMatchObject({ hintTemplate: { text: 'hint {answer}\n', before: '' } });
    expect(Object.keys(config.hintPolicy.files)).toContain('hint_template.json');
    const faults = (change: object) => {
      const cells = { ...rows[0], ...change } as Record<string, unknown>;
      const row = {
        number: 0,
        has: (name: string) => name in cells,
        cell: (name: string) => cells[name] ?? null,
      };
      return recomputedFaults(row, storedCredit(config)).join('; ');
    };
    expect(faults({})).toBe('');
    const hint_logprobs = rows[0]?.hint_logprobs.map((lp) => lp - 1);
    expect(faults({ hint_logprobs })).toContain('which logprobs and hint_logprobs do not give');
    const { code, said } = await run('redistribute posterior.jsonl --estimator pr -o no.jsonl');
    expect([code, said]).toEqual([2, expect.stringContaining('posterior has scored nothing')]);
  });

  it('needs a template and a reference, and says what has no meaning together', async () => {
    await writeFile(at('none.json'), '{"text": "no place"}');
    await writeFile(at('chat.json'), '{"text": "{answer}", "before": "<|assistant|>"}');
    for (const [flags, expected] of [
      ['--estimator posterior', '--estimator posterior needs a hint template'],
      ['--estimator posterior --hint-template none.json', 'none.json: '],
      ['--estimator posterior --hint-template missing.json', 'missing.json'],
      ['--hint-policy hinted', '--hint-policy has no meaning with --estimator pr'],
      [`${POSTERIOR} --sigma signed`, 'no values of a state'],
    ]) {
      const { code, said } = await run(`score traces.jsonl ${flags} -o no.jsonl`);
      expect([code, said]).toEqual([expect.any(Number), expect.stringContaining(expected as string)]);
      expect(code).not.toBe(0);
    }
    expect((await run(`score traces.jsonl ${POSTERIOR} --hint-template chat.json -o no.jsonl`)).code).toBe(
      65,
    );
    expect(await readFile(at('no.jsonl.rejects.jsonl'), 'utf8')).toContain('the prompt has no tokens of');
    expect(await done(`score traces.jsonl ${POSTERIOR} --dry-run`)).toContain('with the second pass');
  });
});
