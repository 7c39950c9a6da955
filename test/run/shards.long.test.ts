// One run in several numbers of shards, in three formats: the same chunks, rejects and records, and the same file when they are joined.
import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { rredcotHere } from '../support/in-process.js';
import { FIXTURES, temporaryFolder } from '../support/program.js';
import { expectShards, hashes } from '../support/sharded-runs.js';

describe.each([
  ['parquet', [1, 2, 8]],
  ['arrow', [1, 3]],
  ['jsonl', [1, 3]],
])('%s', (format, numbers) => {
  it.each([
    ['score', ['score', '--max-segments', '4']],
    ['segment', ['segment', '--no-policy']],
  ])('%s has the same bytes in any number of shards', async (_, [command = '', ...flags]) => {
    const work = await temporaryFolder();
    const input = join(work, 'traces.jsonl');
    const lines = (await readFile(FIXTURES, 'utf8')).split('\n').slice(0, 45);
    for (const n of [7, 8, 30]) lines[n] = '{"prompt": broken';
    await writeFile(input, lines.join('\n'));
    const run = async (...args: string[]) => {
      const { code, stderr } = await rredcotHere([...args, '--quiet']);
      expect(code, stderr).toBe(0);
    };
    const joined = async (n: number) => {
      const output = join(work, `${n}.${format}`);
      await run('merge', join(work, `${n}`), '-o', output);
      const files = [output, `${output}.rejects.jsonl`].map((path) => readFile(path));
      return (await Promise.all(files)).map((bytes) => createHash('sha256').update(bytes).digest('hex'));
    };
    const whole: Record<string, string> = {};
    let once: string[] = [];
    for (const n of numbers) {
      const folder = join(work, `${n}`);
      for (let i = n - 1; i >= 0; i--)
        await run(
          ...[command, input, '-o', `${folder}/`, '--format', format, '--shard', `${i}/${n}`],
          ...['--rows-per-chunk', '4', ...flags],
        );
      if (n === 1) {
        Object.assign(whole, await hashes(folder));
        once = await joined(n);
      } else {
        await expectShards(folder, whole, n);
        expect(await joined(n)).toEqual(once);
      }
    }
  });
});
