// Rows to stdout as they come, rejects to a file: for output that is read while it is made.

import { type BadRow, isBad } from '../../rows.js';
import type { OutputRow } from '../../scored.js';
import { type OutputTarget, openOutput } from './output.js';
import { openRejects } from './rejects.js';

/** Where rows and rejects end, in input order. */
export interface Destination {
  add(item: OutputRow | BadRow): Promise<void>;
  /** all is written: makes it durable and visible */
  close(): Promise<void>;
  /** drops what is open; harmless after `close` or a second time */
  abort(): Promise<void>;
}

/** Opens stdout, and the rejects file beside it. */
export async function openStreamDestination(
  target: OutputTarget & { readonly rejects: string },
): Promise<Destination> {
  const rejects = await openRejects(target.rejects);
  const output = await openOutput(target);
  return {
    add: (item) => (isBad(item) ? rejects.add(item) : output.write([item])),
    async close() {
      await output.close();
      await rejects.close();
    },
    async abort() {
      await output.abort();
      await rejects.close();
    },
  };
}
