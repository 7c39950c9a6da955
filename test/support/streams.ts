// Streams of tests: items in, all of them out, and where a made-up trace comes from.
import type { Trace } from '../../dist/trace.js';

export async function* streamOf<T>(items: readonly T[]): AsyncGenerator<T> {
  yield* items;
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

/** A trace of a row of its own, without text; with other fields where `more` has them. */
export const traceAt = (row: number, more: Partial<Trace> = {}): Trace => ({
  ...{ id: `${row}`, prompt: '', completion: '', references: [], reward: 1 },
  source: { file: 'in', row, ordinal: row, byteOffset: 0, columns: {}, raw: '' },
  ...more,
});
