// One SHA-256 for any number of workers: the chunks, and so the file, do not depend on who made them.
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { rredcotHere } from '../support/in-process.js';
import { FIXTURES, temporaryFolder } from '../support/program.js';

let work: string;
let input: string;

beforeAll(async () => {
  work = await temporaryFolder();
  input = join(work, 'traces.jsonl');
  // four chunks of 16 rows, the last one short, two rows of each of two chunks rejected
  const lines = (await readFile(FIXTURES, 'utf8')).trimEnd().split('\n').slice(0, 50);
  for (const n of [3, 15, 33, 34]) lines[n] = '{"prompt": broken';
  await writeFile(input, `${lines.join('\n')}\n`);
});

async function hashes(output: string, ...flags: string[]): Promise<string[]> {
  const { code, stderr } = await rredcotHere([...flags, '--rows-per-chunk', '16', '-o', output, '--quiet']);
  expect(code, stderr).toBe(0);
  const files = [output, `${output}.rejects.jsonl`];
  const bytes = await Promise.all(files.map((file) => readFile(file)));
  return bytes.map((each) => createHash('sha256').update(each).digest('hex'));
}

describe.each([
  ['parquet', [1, 3]],
  ['arrow', [2]],
  ['jsonl', [2]],
  ['jsonl.gz', [4]],
])('a file of .%s', (extension, numbers) => {
  it.each([
    ['score', ['score', '--max-segments', '8']],
    ['segment', ['segment', '--no-policy']],
  ])('of %s is the same with any number of workers', async (name, [command = '', ...flags]) => {
    const made = (n: number) =>
      hashes(
        join(work, `${name}-${n}.${extension}`),
        ...[command, input, ...flags],
        ...(n === 0 ? [] : ['--workers', `${n}`]),
      );
    const one = await made(0);
    for (const n of numbers) expect(await made(n)).toEqual(one);
  });
});
