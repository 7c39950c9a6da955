// The README's promises: its commands run, its picture is real output, its tables name what there is.

import { spawnSync } from 'node:child_process';
import { cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { FIELDS } from '../dist/io/map.js';
import { OUR_COLUMNS } from '../dist/io/output.js';
import { JOINS } from '../dist/io/presets/joins.js';
import { PRESET_NAMES } from '../dist/io/presets/presets.js';
import { EMBEDDED, ROOT, readScored, temporaryFolder } from './program.js';

let readme: string;
let blocks: string[];
let folder: string;

/** Runs a README command in the folder, with `rredcot` on the path, as a user who has linked it would. */
function run(command: string) {
  return spawnSync('bash', ['-euo', 'pipefail', '-c', command], {
    cwd: folder,
    encoding: 'utf8',
    env: { ...process.env, PATH: `${join(folder, 'path')}:${process.env.PATH}` },
  });
}

beforeAll(async () => {
  readme = await readFile(join(ROOT, 'README.md'), 'utf8');
  blocks = [...readme.matchAll(/```sh\n(.*?)```/gs)].map((match) => (match[1] as string).trim());
  folder = await temporaryFolder();
  for (const name of ['bin', 'fixtures']) await cp(join(ROOT, name), join(folder, name), { recursive: true });
  for (const name of ['dist', 'models', 'node_modules', 'package.json'])
    await symlink(join(ROOT, name), join(folder, name));
  await mkdir(join(folder, 'path'));
  await symlink(join(ROOT, 'bin/rredcot.js'), join(folder, 'path/rredcot'));
  const chain = { text: '<think>\na: 3+4=7 top 7\n</think>\nanswer: 7\n', correct: true };
  const row = {
    question: 'start 3: a+4 top?\n',
    answer: 7,
    generations: [chain, { ...chain, correct: false }],
  };
  const plain = { prompt: row.question, completion: chain.text, answer: '7', reward: 1 };
  await writeFile(join(folder, 'traces.jsonl'), `${JSON.stringify({ ...row, ...plain })}\n`);
});

describe('README', () => {
  it('has two commands that install and do everything', () => {
    expect(blocks[0]).toBe('npm ci && node bin/rredcot.js score fixtures/chains.jsonl -o scored.parquet');
    // the second one is what .ci/run runs, in a fresh clone
    expect(blocks[1]).toBe('npm ci && npm test');
  });

  it('the first one scores the fixtures, shows progress or nothing, and closes with a summary and a trace', async () => {
    const { status, stdout, stderr } = run((blocks[0] as string).replace('npm ci && ', ''));
    expect(status, stderr).toBe(0);
    expect(stdout).toBe('');
    expect(stderr).toMatch(/512 traces, [\d,]+ tokens in .* tokens\/s\)/);
    expect(stderr).toMatch(/σ uniform by fallback: [\d.]+ %/);
    expect(stderr).toContain('written to scored.parquet');
    expect((await readScored(join(folder, 'scored.parquet'))).length).toBe(512);
    // the picture is that run's
    const picture = /<!-- picture -->\n```\n(.*?)```/s.exec(readme)?.[1] as string;
    expect(stderr).toContain(picture.trimEnd());
  });

  it('its other commands run', async () => {
    const others = blocks.slice(2).flatMap((block) => block.split('\n'));
    expect(others.length).toBe(12);
    await symlink(EMBEDDED, join(folder, 'checkpoint'));
    for (const command of others) {
      const { status, stderr } = run(command);
      expect(status, `${command}: ${stderr}`).toBe(0);
    }
  }, 120_000);

  it('names every column, every field and every preset', () => {
    const presets = [...PRESET_NAMES, ...JOINS.map(({ name }) => name)];
    for (const name of [...OUR_COLUMNS, ...FIELDS, ...presets]) expect(readme).toContain(`\`${name}\``);
  });
});
