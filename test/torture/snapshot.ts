// What a run has left: the hash of every file, so that two runs can be compared byte for byte.
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Every file under a folder, hidden ones too, with the sha256 of its bytes; but for summaries, which hold times. */
export async function snapshot(folder: string): Promise<Record<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const isKept = (entry: { isFile(): boolean; name: string }) =>
    entry.isFile() && !entry.name.endsWith('.summary.json');
  const files = entries.filter(isKept).map((entry) => join(entry.parentPath, entry.name));
  const hashed = files.sort().map(async (path) => {
    const hash = createHash('sha256')
      .update(await readFile(path))
      .digest('hex');
    return [path.slice(folder.length + 1), hash] as const;
  });
  return Object.fromEntries(await Promise.all(hashed));
}
