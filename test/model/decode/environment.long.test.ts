// The process of an environment: its limit of time, and that it runs the bytes that were read.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { Environment, readEnvironment } from '../../../dist/model/decode/environment.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

const ASKED = { messages: [{ role: 'assistant', content: 'go' }], row: {}, seed: 7 };
const folder = await temporaryFolder();

async function opened(name: string, code: string, timeoutMs = 300_000) {
  const path = join(folder, name);
  await writeFile(path, code);
  return Environment.open(await readEnvironment(path), { signal: new AbortController().signal, timeoutMs });
}

it('an answer that takes too long is a reject that names the limit, as often as it comes; the next one is given', async () => {
  const code = `let asked = 0;
    export default ({ row }) => row.hang ? new Promise((f) => setTimeout(f, 1e8)) : { reward: ++asked / 8 };`;
  await using environment = await opened('hangs.mjs', code, 2000);
  expect(await environment.answer(ASKED)).toEqual({ reward: 1 / 8 });
  const hangs = { ...ASKED, row: { hang: true } };
  for (let n = 0; n < 3; n++)
    await expect(environment.answer(hangs)).rejects.toMatchObject({
      ...{ code: 'environment', reason: expect.stringContaining('no answer: not done after 2 s') },
    });
  expect(await environment.answer(ASKED)).toEqual({ reward: 1 / 8 });
});

it('a module that was edited since it was read does not run', async () => {
  const path = join(folder, 'edited.mjs');
  await writeFile(path, 'export default () => null;');
  const file = await readEnvironment(path);
  await writeFile(path, 'export default () => ({ reward: 1 });');
  const signal = new AbortController().signal;
  await expect(Environment.open(file, { signal })).rejects.toMatchObject({
    ...{ exitCode: 2, message: expect.stringContaining('was edited since the run began') },
  });
});

it('null ends an episode without a reward', async () => {
  await using environment = await opened('null.mjs', 'export default () => null;');
  expect(await environment.answer(ASKED)).toEqual({ reward: null });
});
