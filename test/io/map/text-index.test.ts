// The index behind --join: what it finds is what a search through all keys finds.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { textIndex } from '../../../dist/io/map/join.js';

const TAIL = 512;

/** The longest key that stands in the text, up to a tail behind it. */
function search(keys: readonly string[], text: string): string | undefined {
  const fits = (key: string) => {
    for (let end = text.length; end >= text.length - TAIL && end >= key.length; end--) {
      const start = end - key.length;
      if (text.slice(start, end) !== key) continue;
      const isInsideAWord = start > 0 && /^[\p{L}\p{N}]{2}$/u.test(text.slice(start - 1, start + 1));
      if (!isInsideAWord) return true;
    }
    return false;
  };
  const longest = keys.filter(fits).sort((a, b) => b.length - a.length)[0];
  return longest !== undefined && (longest.length >= 8 || longest === text.trim()) ? longest : undefined;
}

function indexOf(keys: readonly string[]) {
  const index = textIndex<string>();
  for (const key of keys) index.add(key, key);
  return index;
}

// few letters and shared ends, so that keys are often parts of each other
const word = fc.string({ unit: fc.constantFrom('a', 'b', ' ', '?', 'é', '😀'), minLength: 1, maxLength: 12 });
const key = fc
  .tuple(word, fc.constantFrom('', ' and so on', ' Put the answer, a number, behind four hash signs.'))
  .map((parts) => parts.join('').trim())
  .filter((text) => text !== '');

it('textIndex: finds what a search finds', () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(key, { minLength: 1, maxLength: 12 }),
      word,
      fc.oneof(word, fc.constant('\nassistant\n'), fc.constant('.'.repeat(600))),
      fc.nat(),
      (keys, before, behind, n) => {
        const text = before + keys[n % keys.length] + behind;
        expect(indexOf(keys).within(text)).toBe(search(keys, text));
      },
    ),
    { numRuns: 500 },
  );
});
