// `--estimator prm`: judgements of steps recomputed in float64, with a step token and without, with the reference and without; what is refused.
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildPrmFolder } from '../../dist/policy/run/build-prm.js';
import { loadFamily } from '../oracle/families.js';
import { rewardShares } from '../oracle/prm.js';
import { LLAMA, writeCheckpoint } from '../support/checkpoints.js';
import { rredcotHere } from '../support/in-process.js';
import {
  FIXTURES,
  type FixtureRow,
  ROOT,
  readJsonl,
  type ScoredRow,
  storedValues,
  writeFixtures,
} from '../support/program.js';
import { temporaryFolder } from '../support/temporary-folder.js';

// JavaScript without types: bench is run as it is
const { firstMistake } = await import(join(ROOT, 'bench/fidelity/known-lines.mjs'));

const TRACES = 3;
const PRM = '--estimator prm --prm ends';
const config = { ...LLAMA, vocab_size: 259, max_position_embeddings: 300 };

let folder: string;
let fixtures: FixtureRow[];
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
const ids = (text: string) => {
  const parts = text.split(/(<think>|<\/think>)/);
  return parts.flatMap((part) =>
    part === '<think>' ? [256] : part === '</think>' ? [257] : [...Buffer.from(part)],
  );
};

beforeAll(async () => {
  folder = await temporaryFolder();
  writeCheckpoint(at('plain'), { ...config, architectures: ['LlamaForTokenClassification'] });
  writeCheckpoint(at('qwen'), { ...config, architectures: ['Qwen2ForProcessRewardModel'] }, { seed: 3 });
  await writeFile(at('plain/prm_template.json'), JSON.stringify({ with_reference: '{prompt}={reference};' }));
  await buildPrmFolder(at('plain'), at('ends'));
  await buildPrmFolder(at('qwen'), at('marked'), { stepToken: '</think>', correctLabel: '0' });
  await writeFixtures(at('traces.jsonl'), TRACES);
  fixtures = (await readJsonl<FixtureRow>(FIXTURES)).slice(0, TRACES);
  await done(`score traces.jsonl ${PRM} --sigma rudder -o prm.jsonl`);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** P of a label where `read` ends, by the float64 pass, of steps as the row has them. */
function shares(model: string, label: number, prompt: string, row: ScoredRow, mark: string): number[] {
  const steps = row.segments
    .filter(({ kind }) => kind === 'thought')
    .map(({ char_end }, k, all) =>
      row.completion.slice(k === 0 ? 8 : (all[k - 1]?.char_end as number), char_end as number),
    );
  let sequence = `${prompt}<think>\n`;
  const rows = steps.map((step) => {
    sequence += mark === '' ? step : `${step.trim()}${mark}`;
    return ids(sequence).length - 1;
  });
  const all = rewardShares(loadFamily(at(model)), ids(sequence), label);
  return rows.map((row) => all[row] as number);
}

function expectShares(row: ScoredRow, expected: readonly number[]): void {
  const [start, ...values] = storedValues(row);
  expect(start).toBe(1);
  expect(values).toHaveLength(expected.length);
  for (const [k, value] of values.entries())
    expect(Math.abs(value - (expected[k] as number))).toBeLessThan(1e-5);
}

describe('prm', () => {
  it("has P(right) at the segments' ends in float64; the policy has cut the trace", async () => {
    const rows = await readJsonl<ScoredRow>(at('prm.jsonl'));
    await done('score traces.jsonl -o pr.jsonl');
    const [own] = await readJsonl<ScoredRow>(at('pr.jsonl'));
    expect(rows[0]?.entropies).toEqual(own?.entropies);
    expect(rows[0]?.segments.map(({ end }) => end)).toEqual(own?.segments.map(({ end }) => end));
    expect(rows[0]?.reference_utilities).toEqual([]);
    for (const [n, row] of rows.entries())
      expectShares(row, shares('plain', 1, (fixtures[n] as FixtureRow).prompt, row, ''));
    // the baseline is the group's mean: these are no expected rewards
    expect(new Set(rows.map(({ baseline }) => baseline)).size).toBe(1);
    await done('verify prm.jsonl');
  });

  it('at the step token behind every segment, of the label that was said to be right', async () => {
    await done('score traces.jsonl --estimator prm --prm marked -o marked.jsonl');
    for (const [n, row] of (await readJsonl<ScoredRow>(at('marked.jsonl'))).entries())
      expectShares(row, shares('qwen', 0, (fixtures[n] as FixtureRow).prompt, row, '</think>'));
  });

  it('with the reference in the prompt, by the template; messages by the chat template of the model', async () => {
    // of several references the one that earns most, and the first of these
    const several = fixtures.map(({ answer, ...row }) => {
      const [half, other] = [`${answer}5`, `${answer}6`];
      return { ...row, references: [{ answer: half, utility: 0.5 }, { answer }, { answer: other }] };
    });
    await writeFile(at('several.jsonl'), several.map((row) => `${JSON.stringify(row)}\n`).join(''));
    await done(`score several.jsonl ${PRM} --prm-reference -o told.jsonl`);
    for (const [n, row] of (await readJsonl<ScoredRow>(at('told.jsonl'))).entries()) {
      const { prompt, answer } = fixtures[n] as FixtureRow;
      expectShares(row, shares('plain', 1, `${prompt}=${answer};`, row, ''));
    }
    const [first] = fixtures as [FixtureRow];
    const chat = {
      ...first,
      prompt: [{ role: 'user', content: first.prompt.trim() }],
      prompt_ids: undefined,
    };
    const untold = { ...first, answer: undefined };
    await writeFile(at('odd.jsonl'), [chat, untold].map((row) => `${JSON.stringify(row)}\n`).join(''));
    const { code, said } = await run(`score odd.jsonl ${PRM} --prm-reference -o odd.out.jsonl`);
    expect([code, said]).toEqual([65, expect.stringMatching(/prm_prompt/)]);
  });

  it('keeps its values under another rule, and gives none to another estimator', async () => {
    await done('redistribute prm.jsonl --sigma share -o share.jsonl');
    await done('verify share.jsonl');
    const values = async (name: string) => (await readJsonl<ScoredRow>(at(name))).map(storedValues);
    expect(await values('share.jsonl')).toEqual(await values('prm.jsonl'));
    const { code, said } = await run('redistribute pr.jsonl --estimator prm -o no.jsonl');
    expect([code, said]).toEqual([
      2,
      expect.stringContaining('its values do not follow from what is stored'),
    ]);
  });

  it('is of one model: another one in its place is refused', async () => {
    const first = `score traces.jsonl ${PRM} --rows-per-chunk 1 --shard 0/2 -o shards/`;
    await done(first);
    await buildPrmFolder(at('plain'), at('ends'), { correctLabel: '0' });
    const { code, said } = await run(first);
    expect([code, said]).toEqual([2, expect.stringMatching(/--prm \(/)]);
    await buildPrmFolder(at('plain'), at('ends'));
  });

  it('models/prm finds the first wrong line of most traces that have one', async () => {
    await buildPrmFolder(join(ROOT, 'models/prm'), at('lines'));
    await writeFixtures(at('chains.jsonl'), 64);
    await done('score chains.jsonl --segmenter newline --estimator prm --prm lines -o lines.jsonl');
    const all = (await readJsonl<FixtureRow>(FIXTURES)).slice(0, 64);
    const hits = (await readJsonl<ScoredRow>(at('lines.jsonl'))).flatMap(({ segments }, n) => {
      const wrong = firstMistake(all[n]?.prompt, all[n]?.completion) as number | null;
      const deltas = segments.filter(({ kind }) => kind === 'thought').map(({ delta }) => delta);
      return wrong === null ? [] : [deltas.indexOf(Math.min(...deltas)) === wrong];
    });
    expect(hits.length).toBeGreaterThan(15);
    // .77 of all such traces, by chance .16
    expect(hits.filter(Boolean).length / hits.length).toBeGreaterThan(0.55);
  });

  it('says what has no meaning together, and refuses folders of the other kind', async () => {
    for (const [flags, expected] of [
      ['--estimator prm', '--estimator prm needs a process reward model'],
      ['--prm ends', '--prm has no meaning with --estimator pr'],
      ['--prm-reference', '--prm-reference has no meaning with --estimator pr'],
      [`${PRM} --baseline value`, "are a reward model's judgements of steps, so v̂(s_0) is no baseline"],
      [`${PRM} --method segment`, 'are no expected rewards'],
      [`${PRM} --bank group`, '--bank group has no meaning'],
      ['--policy ends', 'a process reward model, which judges steps, and no policy'],
    ]) {
      const { code, said } = await run(`score traces.jsonl ${flags} -o no.jsonl`);
      expect([code, said]).toEqual([2, expect.stringContaining(expected as string)]);
    }
    const dry = `score traces.jsonl ${PRM} --dry-run`;
    expect(await done(dry)).toMatch(/time +about .* with the second pass, by/);
  });
});
