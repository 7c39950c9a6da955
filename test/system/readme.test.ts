// The front page's promises: its commands run, its picture is real output, it stays a front page.
import { spawnSync } from 'node:child_process';
import { copyFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { blocksOf, commandsOf, readersFolder, readPage, runIn } from '../support/documentation.js';
import { runLine } from '../support/documentation-pages.js';
import { FIXTURES, ROOT, readScored } from '../support/program.js';

let readme: string;
let blocks: string[];
let folder: string;

beforeAll(async () => {
  readme = await readPage('README.md');
  blocks = blocksOf(readme, 'sh');
  folder = await readersFolder();
  await copyFile(FIXTURES, join(folder, 'fixtures/chains.jsonl'));
});

const NUMBER = /[+−]?\b\d\.\d{3}\b/g;
const numbersIn = (line: string) => (line.match(NUMBER) ?? []).map((text) => Number(text.replace('−', '-')));
const withoutNumbers = (line: string) =>
  line
    .replaceAll(NUMBER, '')
    .replaceAll(/[█-▏■]/g, '')
    .replaceAll(/\s+/g, ' ');

describe('README', () => {
  it('has two commands that install and do everything', () => {
    expect(blocks[0]).toBe('npm ci && node bin/rredcot.js score fixtures/chains.jsonl -o scored.parquet');
    // .ci/run runs both, one after the other in a fresh clone
    expect(blocks[1]).toBe('npm test');
  });

  it('the first one scores the fixtures, shows progress or nothing, and closes with a summary; the picture is one of its traces', async () => {
    const { code, stdout, stderr } = runIn(folder, (blocks[0] as string).replace('npm ci && ', ''));
    expect(code, stderr).toBe(0);
    expect(stdout).toBe('');
    expect(stderr).toMatch(
      /--estimator auto takes probe\n[\s\S]*512 traces, [\d,]+ tokens in .* tokens\/s\)/,
    );
    expect(stderr).toMatch(/σ uniform by fallback: [\d.]+ %/);
    expect(stderr).toMatch(/\nwritten to scored\.parquet\n$/);
    expect((await readScored(join(folder, 'scored.parquet'))).length).toBe(512);
    // in a clone all that it leaves is ignored
    const left = (await readdir(folder)).filter((name) => name.startsWith('scored.'));
    expect(left.length).toBeGreaterThan(1);
    const ignored = spawnSync('git', ['check-ignore', ...left], { cwd: ROOT, encoding: 'utf8' }).stdout;
    expect(ignored.trim().split('\n')).toEqual(left);
    const picture = /<!-- picture -->\n```\n(.*?)```/s.exec(readme)?.[1] as string;
    const inspected = runIn(folder, 'rredcot inspect scored.parquet --row top-0003/2').stdout.split('\n');
    for (const line of picture.trimEnd().split('\n')) {
      // another processor rounds otherwise, and the fit with it
      const made = inspected.find((each) => withoutNumbers(each) === withoutNumbers(line));
      expect(made, line).toBeDefined();
      for (const [n, number] of numbersIn(line).entries())
        expect(Math.abs(number - (numbersIn(made as string)[n] as number)), line).toBeLessThan(0.005);
    }
  });

  it('its other commands run', async () => {
    const others = commandsOf(readme)
      .slice(2)
      .filter(({ needs }) => needs === undefined);
    expect(others.length).toBe(3);
    for (const { line } of others) await runLine(folder, line);
  });

  it('is read in a few minutes', () => {
    const prose = readme.replaceAll(/^```.*?^```$/gms, '');
    expect(prose.split(/\s+/).length).toBeLessThan(900);
  });
});
