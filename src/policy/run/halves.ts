// What is run together, and does not fit into memory, is run in halves.
import { OutOfMemoryError } from '../../errors.js';

/**
 * Runs items, at least one. Where memory runs out, the two halves are tried by themselves.
 * @param alone what comes of an item that does not fit by itself
 * @returns a result an item, in order
 */
export async function inHalves<T, R>(
  items: readonly T[],
  run: (items: readonly T[]) => Promise<readonly R[]>,
  alone: (item: T, error: OutOfMemoryError) => Promise<R> | R,
): Promise<readonly R[]> {
  try {
    return await run(items);
  } catch (error) {
    if (!(error instanceof OutOfMemoryError)) throw error;
    if (items.length < 2) return [await alone(items[0] as T, error)];
    const half = Math.ceil(items.length / 2);
    const first = await inHalves(items.slice(0, half), run, alone);
    return [...first, ...(await inHalves(items.slice(half), run, alone))];
  }
}
