// What a run has left: the hash of every file, so that two runs can be compared byte for byte.
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Files that hold times or paths: compared by name only. */
const VARIES = /(^|\/)run\.json$|(^|\/)done\/[^/]*\.json$/;

/** Every file under a folder, hidden ones too, with the sha256 of its bytes. */
export async function snapshot(folder: string): Promise<Record<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  // a summary holds times, and is not made again for an output that is there
  const isKept = (entry: { isFile(): boolean; name: string }) =>
    entry.isFile() && !entry.name.endsWith('.summary.json');
  const files = entries.filter(isKept).map((entry) => join(entry.parentPath, entry.name));
  const hashed = files.sort().map(async (path) => {
    const name = path.slice(folder.length + 1);
    const whole = VARIES.test(name) ? '' : await readFile(path, 'latin1');
    // its second line is the hash of the summary
    const bytes = name.endsWith('.sha256') ? (whole.split('\n')[0] as string) : steady(name, whole);
    return [name, createHash('sha256').update(bytes, 'latin1').digest('hex')] as const;
  });
  return Object.fromEntries(await Promise.all(hashed));
}

/** A chunk's record without what its session's canary has read: a machine that is busy leaves its long trace out. */
function steady(name: string, text: string): string {
  if (!/(^|\/)done\/[^/]+\/\d+\.json$/.test(name)) return text;
  const { canary: _, ...record } = JSON.parse(text) as Record<string, unknown>;
  return JSON.stringify(record);
}
