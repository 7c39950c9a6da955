// How often a run opens a file of its input: it is looked at, surveyed and read.
import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { rredcotHere } from '../../support/in-process.js';
import { ROOT, temporaryFolder } from '../../support/program.js';

it('score opens a file of JSON lines three times, and once more where values are fitted to all traces', async () => {
  const folder = await temporaryFolder();
  const input = join(folder, 'in.jsonl');
  const chains = await fs.promises.readFile(join(ROOT, 'fixtures/chains.jsonl'), 'utf8');
  await fs.promises.writeFile(input, chains.split('\n').slice(0, 3).join('\n'));
  const { open } = fs.promises;
  const { createReadStream } = fs;
  let opens = 0;
  const counted = <F extends (...args: never[]) => unknown>(from: F): F =>
    ((...args: Parameters<F>) => {
      opens += String(args[0]) === input ? 1 : 0;
      return from(...args);
    }) as F;
  Object.assign(fs, { createReadStream: counted(createReadStream) });
  Object.assign(fs.promises, { open: counted(open) });
  syncBuiltinESMExports();
  try {
    for (const [n, estimator] of ['pr', 'auto'].entries()) {
      opens = 0;
      const flags = ['--estimator', estimator, '-o', join(folder, `${estimator}.parquet`), '--quiet'];
      const run = await rredcotHere(['score', input, ...flags]);
      expect([run.code, opens], run.stderr).toEqual([0, 3 + n]);
    }
  } finally {
    Object.assign(fs, { createReadStream });
    Object.assign(fs.promises, { open });
    syncBuiltinESMExports();
  }
});
