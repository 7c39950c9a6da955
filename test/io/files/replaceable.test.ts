// What could not be replaced by a rename at the end of a run is known before it.
import { chmod, chown, mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, expect, it } from 'vitest';
import { mountPoints, whyUnreplaceable } from '../../../dist/run/target.js';
import { temporaryFolder } from '../../support/temporary-folder.js';

let folder: string;
beforeEach(async () => {
  folder = await temporaryFolder();
});

it('nothing speaks against a file, a name that is free, or a link', async () => {
  await writeFile(join(folder, 'file'), '');
  await symlink('/proc', join(folder, 'link'));
  for (const name of ['file', 'free', 'link'])
    expect(await whyUnreplaceable(join(folder, name))).toBeUndefined();
});

it.skipIf(process.platform !== 'linux')('no file is put where the system has its streams', async () => {
  for (const path of ['/dev/stdout', '/dev/new.parquet', '/dev/fd/1', '/proc/self/fd/1'])
    expect(await whyUnreplaceable(path), path).toMatch(
      /^would be a file in \/(dev|proc)\b.*; stdout is called -$/,
    );
  expect(await whyUnreplaceable('/dev/shm/new.parquet')).toBeUndefined();
});

it('a mount point is not replaced', async () => {
  // one that every Linux has
  expect(await whyUnreplaceable('/proc')).toBe(
    process.platform === 'linux' ? 'is mounted by itself, and cannot be replaced' : undefined,
  );
  const line = '36 35 98:0 /mnt1 /data/a\\040b.parquet rw,noatime master:1 - ext3 /dev/root rw';
  expect(mountPoints(`${line}\n`)).toContain('/data/a b.parquet');
});

it.skipIf(process.getuid?.() !== 0)("another user's file in a sticky folder is not replaced", async () => {
  const shared = join(folder, 'shared');
  await mkdir(shared);
  await chmod(folder, 0o755);
  await chmod(shared, 0o1777);
  const path = join(shared, 'file');
  await writeFile(path, '');
  await chown(path, 12345, 12345);
  expect(await whyUnreplaceable(path)).toBeUndefined();
  const getuid = process.getuid;
  process.getuid = () => 54321;
  try {
    expect(await whyUnreplaceable(path)).toMatch(/^belongs to another user/);
  } finally {
    process.getuid = getuid as () => number;
  }
});
