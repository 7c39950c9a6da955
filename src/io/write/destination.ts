// Where rows and rejects go: the rejects file, and beside it stdout for output that is read while it is made.

import { usageError } from '../../errors.js';
import { type BadRow, isBad } from '../../rows.js';
import type { OutputRow } from '../../scored.js';
import { stringifyJson } from '../arrow/json.js';
import { AtomicFile, removeFile } from '../files/atomic-file.js';
import { statIfThere } from '../files/file-error.js';
import { type OutputTarget, openOutput } from './output.js';

/** The rejects of a run. */
export type Rejects = Awaited<ReturnType<typeof openRejects>>;

/**
 * Opens the rejects file of a run. The file is made at the first reject; one that an earlier run left
 * is replaced, or removed, when this one ends: no file means no reject.
 * @param folder where it lies until it is whole; by default beside itself
 * @throws RredcotError (exit 2) where something else than a file has its name
 */
export async function openRejects(path: string, folder?: string) {
  let file: AtomicFile | null = null;
  const present = await statIfThere(path);
  if (present !== null && !present.isFile())
    throw usageError(
      `${path}: is no file, but the rejects would be written there`,
      'name another output with -o',
    );
  // several traces are at work at a time: their rejects are written one after the other
  let queue: Promise<void> = Promise.resolve();
  async function write({
    file: from,
    row,
    byteOffset,
    id,
    raw,
    rejection: { code, reason },
  }: BadRow): Promise<void> {
    file ??= await AtomicFile.open(path, folder);
    const line = { file: from, row, byte_offset: byteOffset, id, code, reason, raw };
    await file.write(Buffer.from(`${stringifyJson(line)}\n`));
  }
  return {
    add(bad: BadRow): Promise<void> {
      queue = queue.then(() => write(bad));
      return queue;
    },
    /** makes the file visible, if there was a reject */
    async close(): Promise<void> {
      await queue;
      if (file !== null) await file.commit();
      else await removeFile(path);
    },
    async abort(): Promise<void> {
      await file?.abort();
    },
  };
}

/** Where rows and rejects end, in input order. */
export type Destination = Awaited<ReturnType<typeof openStreamDestination>>;

/** Opens stdout, and the rejects file beside it. */
export async function openStreamDestination(target: OutputTarget & { readonly rejects: string }) {
  const rejects = await openRejects(target.rejects);
  const output = await openOutput(target);
  return {
    add: (item: OutputRow | BadRow): Promise<void> =>
      isBad(item) ? rejects.add(item) : output.write([item]),
    /** all is written: makes it durable and visible */
    async close(): Promise<void> {
      await output.close();
      await rejects.close();
    },
    /** drops what is open; harmless after `close` or a second time */
    async abort(): Promise<void> {
      await output.abort();
      await rejects.close();
    },
  };
}
