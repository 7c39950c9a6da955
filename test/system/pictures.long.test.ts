// The picture of a trace in the documentation is what the program draws.
import { execFileSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { ROOT, temporaryFolder } from '../support/program.js';

it('docs/inspect.svg is that of `npm run pictures`', async () => {
  const folder = await temporaryFolder();
  execFileSync(process.execPath, [join(ROOT, 'bench/pictures.mjs'), folder]);
  const [made, kept] = await Promise.all(
    [folder, join(ROOT, 'docs')].map((place) => readFile(join(place, 'inspect.svg'), 'utf8')),
  );
  expect(made).toBe(kept);
});
