// The rejects files of chunks that lie side by side in, their lines in input order out.
import { open } from 'node:fs/promises';
import type { AtomicFile } from './atomic-file.js';
import { readRejects } from './stored-rejects.js';

/** Appends the lines of several rejects files, each in input order, in the order of the inputs. */
export async function mergeRejects(
  target: AtomicFile,
  paths: readonly string[],
  inputs: readonly { readonly path: string }[],
): Promise<void> {
  const numbers = new Map(inputs.map(({ path }, n) => [path, n]));
  const lines: { path: string; offset: number; length: number; input: number; row: number }[] = [];
  for (const path of paths)
    for await (const { file, row, offset, length } of readRejects(path)) {
      // a rejects file that was an input names the files of its rows
      const input = numbers.get(file) ?? numbers.size;
      numbers.set(file, input);
      lines.push({ path, offset, length, input, row });
    }
  // several traces of a row are lines of one file, and stay in their order
  lines.sort((a, b) => a.input - b.input || a.row - b.row);
  for (const { path, offset, length } of lines) {
    await using file = await open(path, 'r');
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, offset);
    await target.write(buffer.subarray(0, bytesRead));
  }
}
