// A policy's files, which have to be those that policy.json was built with from the first shard of a run to the end of its last.
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { dataError } from '../../errors.js';
import { HASHED_BYTES, MANIFEST, notAsBuilt, type PolicyFolder, sha256 } from './folder.js';

/** A file as it lay there: enough to notice that it was written since. */
interface FileStamp {
  readonly bytes: number;
  readonly mtime_ms: number;
  readonly inode: number;
}

/** Looks at a policy's files. */
export async function watchPolicy(policy: Pick<PolicyFolder, 'path' | 'files'>) {
  const { path, files } = policy;
  const stampsNow = async (): Promise<Readonly<Record<string, FileStamp>>> => {
    const entries = Object.keys(files).map(async (name) => [name, await stampOf(join(path, name))] as const);
    return Object.fromEntries(await Promise.all(entries));
  };
  const isAsBuilt = async (name: string): Promise<boolean> =>
    (await sha256(join(path, name))) === files[name];
  const stamps = await stampsNow();
  return {
    /**
     * Hashes those of the large files that were changed since policy.json was written. (The others are hashed whenever the folder is
     * opened.)
     * @throws RredcotError (exit 2) for one that is not what policy.json was built with
     */
    async assertAsBuilt(): Promise<void> {
      const { mtimeMs: builtMs } = await stat(join(path, MANIFEST));
      for (const [name, stamp] of Object.entries(stamps)) {
        if (stamp.bytes <= HASHED_BYTES || (await stat(join(path, name))).ctimeMs <= builtMs) continue;
        if (!(await isAsBuilt(name))) throw notAsBuilt(join(path, name));
      }
    },
    /** At the end of a run. @throws RredcotError (exit 65) for a file that has become another one meanwhile */
    async assertUnchanged(): Promise<void> {
      for (const [name, now] of Object.entries(await stampsNow())) {
        if (isDeepStrictEqual(stamps[name], now) || (await isAsBuilt(name))) continue;
        throw dataError(
          `${join(path, name)}: changed while the run was at work with it; nothing is published, and its parts are of no known policy`,
          'build the policy again, then the same command with --overwrite',
        );
      }
    },
  };
}

async function stampOf(path: string): Promise<FileStamp> {
  const { size, mtimeMs, ino } = await stat(path);
  return { bytes: size, mtime_ms: mtimeMs, inode: ino };
}
