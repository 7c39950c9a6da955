// Ends a run without one trace: its rejects go beside the output, the rest goes, so that it stands in nobody's way.
import { rmdir } from 'node:fs/promises';
import { removeHidden } from './hidden.js';
import { publishRejects } from './publish.js';
import { dropRun } from './remove.js';

/**
 * Puts the reasons beside the output and removes the run.
 * @param kind a `folder` is the user's: it stays where it holds something else
 * @param reasons path of the rejects file
 * @param onProgress as of `publishRejects`
 */
export async function endEmptyRun(
  kind: 'file' | 'folder',
  folder: string,
  reasons: string,
  onProgress: () => void,
): Promise<void> {
  await publishRejects(folder, reasons, onProgress);
  if (kind === 'file') return removeHidden(folder);
  await dropRun(folder);
  await rmdir(folder).catch(() => {});
}
