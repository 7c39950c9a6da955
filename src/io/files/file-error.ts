// What became of a look at the file system: what is there, and whose fault a failure is.
import { constants } from 'node:os';
import { EXIT, RredcotError } from '../../errors.js';
import { type FileFacts, factsOf } from './opened.js';

/** What the user has to fix before the same command can work; everything else the machine did. */
const CALL_ERRORS: Readonly<Record<string, string>> = {
  ENOENT: 'no such file or folder',
  ENOTDIR: 'a part of the path is no folder',
  EISDIR: 'is a folder',
  EACCES: 'no permission',
  EPERM: 'not permitted',
  EROFS: 'read-only file system',
  ENAMETOOLONG: 'the name is too long',
};

const MACHINE_ERRORS: Readonly<Record<string, string>> = {
  ENOSPC: 'no space left on the device',
  EDQUOT: 'disk quota is used up',
  EIO: 'the device reports an I/O error',
  EMFILE: 'too many open files',
  ESTALE: 'the file server no longer knows the file',
};

/**
 * Names the file in an error of the file system: exit 2 where the path is wrong, 75 where the machine failed and the same
 * command may well succeed later. Other errors are handed back as they are.
 */
export function fileError(error: unknown, path: string, action: 'read' | 'written'): unknown {
  const code = systemCode(error);
  if (error instanceof RredcotError || code === undefined) return error;
  const ofCall = CALL_ERRORS[code];
  const isFull = code === 'ENOSPC' || code === 'EDQUOT';
  const again = isFull ? 'free some space and start again' : 'the same command again';
  const other = action === 'written' ? 'choose another place with -o' : 'check the path and its permissions';
  return new RredcotError(`${path}: cannot be ${action}: ${ofCall ?? MACHINE_ERRORS[code] ?? code}`, {
    exitCode: ofCall === undefined ? EXIT.interrupted : EXIT.usage,
    hint: ofCall === undefined ? again : other,
    cause: error,
  });
}

export function failed(path: string, action: 'read' | 'written') {
  return (error: unknown): never => {
    throw fileError(error, path, action);
  };
}

/**
 * What the system calls an error, by its number where Node has no name for it (`Unknown system error -122` for EDQUOT);
 * undefined for what is no error of the system.
 */
function systemCode(error: unknown): string | undefined {
  const { code } = (error ?? {}) as NodeJS.ErrnoException;
  if (typeof code !== 'string' || /^E[A-Z0-9]+$/.test(code)) return code;
  const [, number] = /^Unknown system error -(\d+)$/.exec(code) ?? [];
  if (number === undefined) return undefined;
  const named = Object.entries(constants.errno).find(([, errno]) => errno === Number(number));
  return named?.[0] ?? `error ${number} of the system`;
}

/** null only where nothing is there. @throws RredcotError where nobody can tell */
export async function statIfThere(path: string): Promise<FileFacts | null> {
  try {
    return await factsOf(path);
  } catch (error) {
    if (isAbsent(error)) return null;
    throw fileError(error, path, 'read');
  }
}

/** Whether an error says that there is nothing under a name, rather than that one could not look. */
export function isAbsent(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOENT' || code === 'ENOTDIR';
}
