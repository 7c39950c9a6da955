// The first row of the inputs, looked at without taking it from those that read on.

import type { BadRow, InputRow, ReadOptions } from '../../rows.js';
import { type Input, readRows } from './inputs.js';

/** Reads the inputs from their first row on; where they are streams, once. */
export type ReadRows = (opts: ReadOptions) => AsyncGenerator<InputRow | BadRow>;

/**
 * Files are opened again for it; of a stream the rows read so far are kept, and handed on first.
 * @returns the first row that can be read, undefined where there is none, and what reads from there on
 */
export async function peekRows(
  inputs: readonly Input[],
  maxLineBytes: number | undefined,
): Promise<{ readonly first: InputRow | undefined; readonly read: ReadRows }> {
  if (inputs.every(({ size }) => size !== null)) {
    const read: ReadRows = (opts) => readRows(inputs, opts);
    for await (const row of read({ maxLineBytes })) if (row.kind === 'row') return { first: row, read };
    return { first: undefined, read };
  }
  let later: ReadOptions = {};
  const rows = readRows(inputs, {
    maxLineBytes,
    onBytes: (count) => later.onBytes?.(count),
    wanted: (ordinal) => later.wanted?.(ordinal) ?? true,
  });
  const seen: (InputRow | BadRow)[] = [];
  let first: InputRow | undefined;
  while (first === undefined) {
    const next = await rows.next();
    if (next.done) break;
    seen.push(next.value);
    if (next.value.kind === 'row') first = next.value;
  }
  return {
    first,
    async *read(opts) {
      later = opts;
      try {
        for (const row of seen.splice(0)) if (opts.wanted?.(row.ordinal) ?? true) yield row;
        yield* rows;
      } finally {
        await rows.return(undefined);
      }
    },
  };
}
