// Estimators that ask a second model, or the policy once more: the same chunks in any number of shards, the same bytes by any number of workers.
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildPolicyFolder, buildPrmFolder } from '../../dist/policy/run/build.js';
import { readExitTemplate } from '../../dist/policy/text/templates.js';
import { rredcotHere } from '../support/in-process.js';
import { FIXTURES, PROVER, ROOT, readJsonl, type ScoredRow, writeFixtures } from '../support/program.js';
import { expectShards, hashes } from '../support/sharded-runs.js';
import { temporaryFolder } from '../support/temporary-folder.js';

const { firstMistake } = await import(join(ROOT, 'bench/fidelity/known-lines.mjs'));

let folder: string;
const at = (name: string) => join(folder, name);
const done = async (line: string) => {
  const { code, stderr } = await rredcotHere(line.split(' '), { cwd: folder });
  expect(code, stderr).toBe(0);
};

beforeAll(async () => {
  folder = await temporaryFolder();
  await buildPolicyFolder(PROVER, at('prover'), await readExitTemplate(PROVER));
  await buildPrmFolder(join(ROOT, 'models/prm'), at('prm'));
  await writeFile(at('hint.json'), '{"text": "hint {answer}\\n"}');
  await writeFixtures(at('traces.jsonl'), 6);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

describe('shards', () => {
  it.each([
    ['progress', '--prover prover'],
    ['prm', '--prm prm'],
    ['posterior', '--hint-template hint.json'],
    ['loo', '--loo masked'],
    ['gradient', '--baseline group'],
  ])('of %s', async (name, flag) => {
    const flags = `score traces.jsonl --estimator ${name} ${flag} --rows-per-chunk 2`;
    await done(`${flags} -o ${name}-whole/`);
    for (const i of [0, 1]) await done(`${flags} --shard ${i}/2 -o ${name}-shards/`);
    await expectShards(at(`${name}-shards`), await hashes(at(`${name}-whole`)), 2);
  });
});

describe('models/hint', () => {
  it('reads the answer behind the prompt: its largest magnitude is at the first wrong line of most traces that have one', async () => {
    const model = join(ROOT, 'models/hint');
    await buildPolicyFolder(model, at('hint'), await readExitTemplate(model));
    const score = `score ${FIXTURES} --limit 96 --segmenter newline --estimator posterior`;
    await done(`${score} --hint-policy hint -o read.jsonl`);
    await done(`${score} --hint-template hint.json -o unread.jsonl`);
    const hits = async (name: string) => {
      const rows = (await readJsonl<ScoredRow>(at(name))).filter(({ reward }) => reward === 0);
      const found = rows.flatMap(({ prompt, completion, segments }) => {
        const wrong = firstMistake(prompt, completion);
        const sizes = segments
          .filter(({ kind }) => kind === 'thought')
          .map(({ delta }) => Math.abs(delta as number));
        return wrong === null ? [] : [sizes.indexOf(Math.max(...sizes)) === wrong];
      });
      expect(found.length).toBeGreaterThan(15);
      return found.filter(Boolean).length / found.length;
    };
    const [read, unread] = [await hits('read.jsonl'), await hits('unread.jsonl')];
    expect(read).toBeGreaterThan(unread + 0.1);
  });
});

describe('workers', () => {
  it.each([
    ['progress', '--prover prover --best-of 2'],
    ['prm', '--prm prm --prm-reference'],
  ])('of %s', async (name, flag) => {
    const flags = `score traces.jsonl --estimator ${name} ${flag} --rows-per-chunk 2`;
    await done(`${flags} -o ${name}-one.jsonl`);
    await done(`${flags} -o ${name}-two.jsonl --workers 2`);
    const [one, two] = await Promise.all(
      ['one', 'two'].map((each) => readFile(at(`${name}-${each}.jsonl`), 'utf8')),
    );
    expect(one?.split('\n').length).toBe(7);
    expect(two).toBe(one);
  });
});
