// Counts a text's code points, the unit of every character offset that is read or written.

export function codePoints(text: string): number {
  let count = 0;
  for (const _ of text) count++;
  return count;
}
