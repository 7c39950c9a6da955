// What is said of a failing call of the file system: by the code or the number that the system gives, and whose fault it is.
import { constants } from 'node:os';
import { describe, expect, it } from 'vitest';
import { usageError } from '../../../dist/errors.js';
import { fileError } from '../../../dist/io/files/files.js';

/** As Node makes it of a call that failed. */
const named = (code: string) => Object.assign(new Error(`${code}: failed`), { code });
/** And of one for which libuv has no name. */
const numbered = (errno: number) => named(`Unknown system error -${errno}`);
const of = (error: unknown, action: 'read' | 'written' = 'written') => fileError(error, 'a.parquet', action);

describe('a call that failed', () => {
  it.each([
    [named('ENOENT'), 2, 'no such file or folder', 'choose another place with -o'],
    [named('EACCES'), 2, 'no permission', 'choose another place with -o'],
    [named('EEXIST'), 2, 'is a file, expected a folder', 'choose another place with -o'],
    [named('EROFS'), 2, 'read-only file system', 'choose another place with -o'],
    [named('ENOSPC'), 75, 'no space left on the device', 'free some space and start again'],
    [named('EDQUOT'), 75, 'disk quota is used up', 'free some space and start again'],
    [numbered(constants.errno.EDQUOT), 75, 'disk quota is used up', 'free some space and start again'],
    [numbered(constants.errno.ESTALE), 75, 'no longer knows the file', 'the same command again'],
    [named('EIO'), 75, 'I/O error', 'the same command again'],
    [named('EXDEV'), 75, 'EXDEV', 'the same command again'],
    [numbered(9999), 75, 'error 9999 of the system', 'the same command again'],
  ])('%s', (error, exitCode, message, hint) => {
    const found = of(error);
    expect(found).toMatchObject({ exitCode, hint });
    expect((found as Error).message).toContain(`a.parquet: cannot be written: `);
    expect((found as Error).message).toContain(message);
  });

  it.each([usageError('said already', 'this'), new Error('no code'), undefined])(
    'leaves what is none of the system as it is: %s',
    (error) => expect(of(error)).toBe(error),
  );
});
