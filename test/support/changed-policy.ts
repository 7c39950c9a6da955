// Policy folders of which a file is another, as their authors would publish them.
import { createHash } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { editJson } from './scene.js';

type Hashes = { readonly files: Record<string, string>; readonly canary: { file: string; sha256: string } };

/** Changes a file of a policy folder, and its hash in policy.json. */
export async function changePolicy(
  folder: string,
  file: string,
  change: (bytes: Buffer) => Buffer | string,
): Promise<void> {
  const path = join(folder, file);
  const bytes = change(readFileSync(path));
  rmSync(path); // it may be a link to the checkpoint's
  writeFileSync(path, bytes);
  if (file === 'policy.json') return;
  const sha256 = createHash('sha256').update(bytes).digest('hex');
  await editJson(join(folder, 'policy.json'), (manifest) => {
    const { files, canary } = manifest as unknown as Hashes;
    if (file === canary.file) canary.sha256 = sha256;
    else files[file] = sha256;
  });
}
