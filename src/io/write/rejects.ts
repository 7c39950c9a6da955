// The rejects of a part or of a file: one line for each row, or trace of a row, that was rejected.
import { dirname } from 'node:path';
import type { BadRow } from '../../rows.js';
import { stringifyJson } from '../arrow/json.js';
import { AtomicFile, assertFilePlace, makeFolder, removeFile } from '../files/atomic-file.js';
import { isStored, sha256OfFile } from '../files/files.js';

export type Rejects = Awaited<ReturnType<typeof openRejects>>;

/**
 * Opens the file, which is made at the first reject; one that an earlier run left is replaced, or removed, when this one is
 * published: no file means no reject.
 * @param folder where it lies until it is whole; by default beside itself
 * @throws RredcotError (exit 2) where something else than a file has its name
 */
export async function openRejects(path: string, folder?: string) {
  await assertFilePlace(path);
  let file: AtomicFile | undefined;
  return {
    async add({ file: from, row, byteOffset, id, raw, rejection: { code, reason } }: BadRow): Promise<void> {
      if (file === undefined && folder !== undefined && !isStored(path)) await makeFolder(dirname(path));
      file ??= await AtomicFile.open(path, isStored(path) ? undefined : folder);
      const line = { file: from, row, byte_offset: byteOffset, id, code, reason, raw };
      await file.write(Buffer.from(`${stringifyJson(line)}\n`));
    },
    /** Lines of another such file. */
    async append(lines: AsyncIterable<Uint8Array>): Promise<void> {
      file ??= await AtomicFile.open(path, folder);
      for await (const bytes of lines) await file.write(bytes);
    },
    /** makes them durable. @returns the SHA-256 of the file, null where there is none */
    async finish(): Promise<string | null> {
      if (file === undefined) return null;
      await file.finish();
      return sha256OfFile(file.temporaryPath);
    },
    /** makes the file visible, if there was a reject */
    publish: (): Promise<void> => (file === undefined ? removeFile(path) : file.publish()),
    abort: async (): Promise<void> => file?.abort(),
  };
}
