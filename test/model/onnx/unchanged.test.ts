// A policy's large files are hashed again where they lie there anew, and what they are not is told.
import { open, truncate, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { HASHED_BYTES, type PolicyFolder, watchPolicy } from '../../../dist/model/onnx/folder.js';
import { sha256 } from '../../../dist/model/text/untrusted-files.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

let policy: PolicyFolder;
let weights: string;
beforeEach(async () => {
  const path = await temporaryFolder();
  weights = join(path, 'model.safetensors');
  await writeFile(weights, 'weights');
  await truncate(weights, HASHED_BYTES + 1);
  await writeFile(join(path, 'policy.json'), '{}');
  policy = { path, files: { 'model.safetensors': await sha256(weights) } } as unknown as PolicyFolder;
});

/** As somebody writes into a file that is open elsewhere: the same inode, the same size. */
async function changeInPlace(): Promise<void> {
  await using file = await open(weights, 'r+');
  await file.write(Buffer.from('x'), 0, 1, HASHED_BYTES / 2);
}

const touch = () => utimes(weights, 1e9, 1e9);

describe('at a start', () => {
  it('files that are as they were, or were only touched, are taken', async () => {
    await (await watchPolicy(policy)).assertAsBuilt();
    await touch();
    await (await watchPolicy(policy)).assertAsBuilt();
  });

  it('weights that were changed in place are found', async () => {
    await changeInPlace();
    await expect((await watchPolicy(policy)).assertAsBuilt()).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringContaining(`${weights}: is not the file that policy.json was built with`),
    });
  });
});

describe('at the end', () => {
  it('files that are as they were, or were only touched, are taken', async () => {
    const watched = await watchPolicy(policy);
    await watched.assertUnchanged();
    await touch();
    await watched.assertUnchanged();
  });

  it('weights that were changed meanwhile are found', async () => {
    const watched = await watchPolicy(policy);
    await changeInPlace();
    await expect(watched.assertUnchanged()).rejects.toMatchObject({
      exitCode: 65,
      message: expect.stringContaining(`${weights}: changed while the run was at work with it`),
    });
  });
});
