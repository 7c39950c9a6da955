// Notes enough of the input files to notice that one is another.
import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { z } from 'zod';
import { fileError } from '../files/file-error.js';
import type { Input } from '../read/inputs.js';

/** How `run.json` holds it. */
export const InputPrintSchema = z.object({
  path: z.string(),
  bytes: z.int().nonnegative().nullable(),
  mtime_ms: z.number().nullable(),
  /** sha256 of its first and of its last MiB */
  head: z.string().nullable(),
  tail: z.string().nullable(),
});

/** Size, time and edges of an input file; what can be read only once has none of these. */
export type InputPrint = Readonly<z.infer<typeof InputPrintSchema>>;

const EDGE_BYTES = 2 ** 20;

/** The prints of all inputs, in their order. @throws RredcotError naming the file that cannot be read */
export async function fingerprint(inputs: readonly Input[]): Promise<InputPrint[]> {
  const prints: InputPrint[] = [];
  for (const { path, size } of inputs) {
    if (size === null) {
      prints.push({ path, bytes: null, mtime_ms: null, head: null, tail: null });
      continue;
    }
    prints.push(
      await fileFingerprint(path).catch((error: unknown) => {
        throw fileError(error, path, 'read');
      }),
    );
  }
  return prints;
}

/** The same of one file. @throws Error of the file system */
export async function fileFingerprint(path: string): Promise<InputPrint> {
  await using file = await open(path, 'r');
  const { size: bytes, mtimeMs } = await file.stat();
  const edge = async (from: number): Promise<string> => {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(EDGE_BYTES), 0, EDGE_BYTES, from);
    return createHash('sha256').update(buffer.subarray(0, bytesRead)).digest('hex');
  };
  const [head, tail] = [await edge(0), await edge(Math.max(0, bytes - EDGE_BYTES))];
  return { path, bytes, mtime_ms: Math.floor(mtimeMs), head, tail };
}
