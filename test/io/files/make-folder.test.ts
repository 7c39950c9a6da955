// A folder is there in the end, with those above it, or somebody is told why not.
import { stat, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { makeFolder } from '../../../dist/io/files/atomic-file.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

it('is made with those above it, and left as it is where it is there', async () => {
  const path = join(await temporaryFolder(), 'a/b/c');
  await makeFolder(path);
  const { ino } = await stat(path);
  await makeFolder(path);
  expect((await stat(path)).ino).toBe(ino);
});

it('is not made behind a link that leads nowhere', async () => {
  const folder = await temporaryFolder();
  await symlink(join(folder, 'none'), join(folder, 'link'));
  await expect(makeFolder(join(folder, 'link'))).rejects.toThrow(/link to a folder that is not there/);
});

it.runIf(process.platform === 'linux')(
  'is an error where nobody can make one, and no wait without end',
  async () => {
    await expect(makeFolder('/proc/none/below')).rejects.toMatchObject({ code: 'ENOENT' });
  },
);
