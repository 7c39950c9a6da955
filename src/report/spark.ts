// Draws numbers as a line of blocks.

const BLOCKS = '▁▂▃▄▅▆▇█';

/** Numbers as blocks from `low` to `high`; what is beyond is at the edge. */
export function spark(list: readonly number[], low: number, high: number): string {
  const height = high > low ? high - low : 1;
  return list
    .map((x) => BLOCKS[Math.max(0, Math.min(7, Math.floor((8 * (x - low)) / height)))] as string)
    .join('');
}

/** So many of a list as there is room for, evenly spread, its first and last among them. */
export function thinned(list: readonly number[], most: number): number[] {
  if (list.length <= most) return [...list];
  return Array.from(
    { length: most },
    (_, k) => list[Math.round((k * (list.length - 1)) / (most - 1))] as number,
  );
}
