// What the tests of README and docs share: their pages and commands, and a folder in which the commands can be run.
import { spawnSync } from 'node:child_process';
import { copyFile, cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { globSync } from 'tinyglobby';
import { EMBEDDED, ROOT, temporaryFolder } from './program.js';

/** A line of an `sh` block. */
export interface DocumentedCommand {
  readonly line: string;
  /** what a test machine lacks, from the comment `# needs …` at the line's end */
  readonly needs: string | undefined;
}

/** All pages of the project, as paths below its root. */
export const PAGES = globSync('**/*.md', { cwd: ROOT, ignore: ['**/node_modules/**', 'dist/**'] }).sort();

/** Pages whose commands are for readers of the documentation. */
export const DOCS = PAGES.filter((page) => page.startsWith('docs/'));

/** Every command there is. */
export const COMMANDS = [
  ...'score requests segment inspect summary report calibrate compare redistribute filter verify doctor'.split(
    ' ',
  ),
  ...['policy build', 'policy info'],
];

export function readPage(page: string): Promise<string> {
  return readFile(join(ROOT, page), 'utf8');
}

/** The blocks of a page in one language. */
export function blocksOf(markdown: string, language: string): string[] {
  return [...markdown.matchAll(/^```(\w*)\n(.*?)^```$/gms)]
    .filter((match) => match[1] === language)
    .map((match) => (match[2] as string).trim());
}

/** The commands of a page, a line each. */
export function commandsOf(markdown: string): DocumentedCommand[] {
  const lines = blocksOf(markdown, 'sh').flatMap((block) => block.split('\n'));
  return lines.map((line) => ({ line, needs: / # needs (.+)$/.exec(line)?.[1] }));
}

/** Runs a command in the folder, with `rredcot` on the path, as a user who has linked it would. */
export function runIn(folder: string, command: string) {
  const env = { ...process.env, PATH: `${join(folder, 'path')}:${process.env.PATH}` };
  const run = spawnSync('bash', ['-euo', 'pipefail', '-c', command], { cwd: folder, encoding: 'utf8', env });
  return { code: run.status, stdout: run.stdout, stderr: run.stderr };
}

/** A folder with the program, the fixtures, a checkpoint, and small files under the names that the pages use. */
export async function readersFolder(): Promise<string> {
  const folder = await temporaryFolder();
  const at = (name: string) => join(folder, name);
  for (const name of ['bin', 'fixtures']) await cp(join(ROOT, name), at(name), { recursive: true });
  for (const name of ['dist', 'models', 'node_modules', 'package.json', 'examples'])
    await symlink(join(ROOT, name), at(name));
  await symlink(EMBEDDED, at('checkpoint'));
  await mkdir(at('path'));
  await symlink(join(ROOT, 'bin/rredcot.js'), at('path/rredcot'));

  const chain = { text: '<think>\na: 3+4=7 top 7\n</think>\nanswer: 7\n', correct: true };
  const question = 'start 3: a+4 top?\n';
  const row = { question, answer: 7, generations: [chain, { ...chain, correct: false }] };
  const plain = { prompt: question, completion: chain.text, answer: '7', reward: 1 };
  const jsonl = (name: string, ...rows: object[]) =>
    writeFile(at(name), rows.map((each) => `${JSON.stringify(each)}\n`).join(''));
  await jsonl('traces.jsonl', { ...row, ...plain });
  const { completion, ...rest } = plain;
  await jsonl('damaged.jsonl', plain, { ...rest, completon: completion });
  await jsonl('chat.jsonl', { ...plain, prompt: [{ role: 'user', content: question.trim() }] });
  await jsonl('gold.jsonl', { question, gold: '7' });
  await writeFile(at('question.txt'), question);
  const dumps = join(ROOT, 'test/io/map/dumps');
  await copyFile(join(dumps, 'verl-rollout.jsonl'), at('rollouts.jsonl'));
  await copyFile(join(dumps, 'verl-parquet.join.jsonl'), at('train.jsonl'));
  return folder;
}
