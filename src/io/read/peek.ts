// The first row of the inputs, looked at without taking it from those that read on.

import type { BadRow, InputRow, ReadOptions } from '../../rows.js';
import { type Input, readRows } from './inputs.js';
import { NEWLINE } from './jsonl.js';

/** Reads the inputs from their first row on; where they are streams, once. */
export type ReadRows = (opts: ReadOptions) => AsyncGenerator<InputRow | BadRow>;

/** The rows in those bytes of the first input that were read when it was looked at: of JSON, a mebibyte. */
export async function* headRows(
  [input]: readonly Input[],
  maxLineBytes?: number,
): AsyncGenerator<InputRow | BadRow> {
  const { head, layout, size } = input ?? {};
  if (input === undefined || head === undefined || layout !== 'json') return;
  // whole lines
  const lines = head.length === size ? head : head.subarray(0, head.lastIndexOf(NEWLINE) + 1);
  async function* bytes() {
    yield lines;
  }
  yield* readRows([{ ...input, stream: { head: async () => head, bytes } }], { maxLineBytes });
}

/**
 * Files are opened again for it where they have to be; of a stream the rows read so far are kept, and handed on first.
 * @returns the first row that can be read, undefined where there is none, and what reads from there on
 */
export async function peekRows(
  inputs: readonly Input[],
  maxLineBytes: number | undefined,
): Promise<{ readonly first: InputRow | undefined; readonly read: ReadRows }> {
  if (inputs.every(({ size }) => size !== null)) {
    const read: ReadRows = (opts) => readRows(inputs, opts);
    for (const rows of [headRows(inputs, maxLineBytes), read({ maxLineBytes })])
      for await (const row of rows) if (row.kind === 'row') return { first: row, read };
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
