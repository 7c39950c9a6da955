// Bytes of an open file, all of them: a system may read or write fewer at a time than it is asked to.
import type { FileHandle } from 'node:fs/promises';

/** Fills `bytes` from a place in the file. @throws Error where the file ends before */
export async function readWhole<T extends Uint8Array>(
  file: FileHandle,
  bytes: T,
  position: number,
  name = 'the file',
): Promise<T> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesRead } = await file.read(bytes, done, bytes.length - done, position + done);
    if (bytesRead === 0) throw new Error(`${name} has become shorter`);
    done += bytesRead;
  }
  return bytes;
}

/** Writes at a place in the file; null: where the last write ended. */
export async function writeWhole(
  file: FileHandle,
  bytes: Uint8Array,
  position: number | null = null,
): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const at = position === null ? null : position + done;
    done += (await file.write(bytes.subarray(done), 0, undefined, at)).bytesWritten;
  }
}
