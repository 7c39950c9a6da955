// A file appears whole or not at all, also after the power has failed: its bytes are durable before it has its name. A folder is there in
// the end, with those above it, or somebody is told why not.
import { readFile, stat, symlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { fsReport, installFsHook, planFs, recordFs } from '../../torture/fs-hook.mjs';

// the hook has to be there before anything takes `open` and `rename` from node:fs
let { makeFolder, openAtomicFile } = {} as typeof import('../../../dist/io/files/atomic-file.js');
let path: string;
beforeAll(async () => {
  await installFsHook();
  ({ makeFolder, openAtomicFile } = await import('../../../dist/io/files/atomic-file.js'));
  path = join(await temporaryFolder(), 'out.bin');
});

describe('a file', () => {
  it('is written, made durable, named, and its name made durable, in this order', async () => {
    const calls = recordFs();
    const file = await openAtomicFile(path);
    await file.write(Buffer.from('ab'));
    await file.write(Buffer.from('cd'));
    await file.finish();
    await file.publish();
    const seen = calls.filter(([op]) => ['write', 'sync', 'rename'].includes(op));
    expect(seen).toEqual([
      ['write', file.temporaryPath],
      ['write', file.temporaryPath],
      ['sync', file.temporaryPath],
      ['rename', path],
      ['sync', dirname(path)],
    ]);
    expect(await readFile(path, 'utf8')).toBe('abcd');
  });

  it.each([
    ['fails where the disk does', 'EIO', false],
    ['is taken as it is by a file system that can sync no folder', 'EINVAL', true],
  ])('whose name is not made durable %s', async (_, code, isWritten) => {
    const folder = dirname(path);
    const file = await openAtomicFile(path);
    await file.write(Buffer.from('ef'));
    planFs({ under: folder, op: 'sync', path: `${basename(folder)}$`, nth: 0, code });
    await file.finish();
    const said = await file.publish().catch((error: Error) => error.message);
    const { fired } = fsReport();
    planFs(null);
    const why = isWritten ? undefined : expect.stringContaining(`${folder}: cannot be written`);
    expect([fired, said]).toEqual([true, why]);
  });
});

it('a folder is made with those above it, and left as it is where it is there', async () => {
  const path = join(await temporaryFolder(), 'a/b/c');
  await makeFolder(path);
  const { ino } = await stat(path);
  await makeFolder(path);
  expect((await stat(path)).ino).toBe(ino);
});

it('a folder is not made behind a link that leads nowhere', async () => {
  const folder = await temporaryFolder();
  await symlink(join(folder, 'none'), join(folder, 'link'));
  await expect(makeFolder(join(folder, 'link'))).rejects.toMatchObject({ exitCode: 2 });
});
