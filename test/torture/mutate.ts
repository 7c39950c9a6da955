// Seeded damage: to the bytes of a file, and to the values of a JSON row.

type Random = () => number;
const below = (random: Random, n: number) => Math.floor(random() * n);
const pick = <T>(random: Random, items: readonly T[]) => items[below(random, items.length)] as T;

/** What parsers and terminals stumble over. */
const TOKENS = [
  ...'" \\ { } [ ] , : NaN -Infinity 1e999 -0 null \\ud800 \\u0000 ../../x [[[[[[[[[['.split(' '),
  ...['\u0000', '\ufeff', '\u2028', '\u202e', '\u001b[2J', '\r', '\t', 'é', '𝒳', '9'.repeat(40)],
  ...['"__proto__":{"x":1},', '"constructor":null,'],
];

/** A copy with one to four places changed, removed, doubled or overwritten. */
export function mutateBytes(bytes: Buffer, random: Random): Buffer {
  let out = Buffer.from(bytes);
  for (let n = 1 + below(random, 4); n > 0 && out.length > 0; n--) {
    const at = below(random, out.length);
    const end = Math.min(out.length, at + 1 + below(random, random() < 0.8 ? 8 : out.length));
    switch (below(random, 5)) {
      case 0:
        out[at] = (out[at] as number) ^ (1 << below(random, 8));
        break;
      case 1:
        out[at] = below(random, 256);
        break;
      case 2:
        out = Buffer.concat([out.subarray(0, at), out.subarray(end)]);
        break;
      case 3:
        out = Buffer.concat([out.subarray(0, end), out.subarray(at, end), out.subarray(end)]);
        break;
      default:
        out = Buffer.concat([out.subarray(0, at), Buffer.from(pick(random, TOKENS)), out.subarray(at)]);
    }
  }
  return out;
}

const VALUES: readonly (readonly unknown[])[] = [
  [null, true, false, 0, -1, 1.5, 1e300, 2 ** 31, '', 'x', '\u0000', '\ud800'],
  [[], {}, [null], [[1], [2, 3]], { text: 'a' }, [{ text: 'a\nb' }, { text: 7 }], [-1, 2.5]],
  ['\n'.repeat(50), 'a. '.repeat(300), '</think>', '\\boxed{', '\u202e\u001b[31m', '🙂'.repeat(40)],
];

/** The row with one or two of its fields of another value, gone, or under another name. */
export function mutateRow(row: Readonly<Record<string, unknown>>, random: Random): Record<string, unknown> {
  const entries = Object.entries(row);
  for (let n = 1 + below(random, 2); n > 0 && entries.length > 0; n--) {
    const at = below(random, entries.length);
    const [key, value] = entries[at] as [string, unknown];
    const what = random();
    if (what < 0.15) entries.splice(at, 1);
    else if (what < 0.3) entries[at] = [pick(random, ['__proto__', 'id', 'raw', '', '\u0000', key]), value];
    else entries[at] = [key, pick(random, pick(random, VALUES))];
  }
  const mutated: Record<string, unknown> = {};
  for (const [key, value] of entries)
    Object.defineProperty(mutated, key, { value, enumerable: true, configurable: true, writable: true });
  return mutated;
}
