// An index of texts that finds which of them another text ends with, whatever stands before and shortly behind it.
import { createHash } from 'node:crypto';

/** A key is looked up by its first and its last characters, so many of them, before it is compared as a whole. */
const ANCHOR_UNITS = 32;
/** What may follow the key: what a chat template adds behind a question, and instructions. */
const MAX_TAIL_UNITS = 512;
/** A shorter key has to be the whole text: `7` ends many. */
const MIN_WITHIN_UNITS = 8;

/** Two characters between which a key cannot begin. */
const INSIDE_A_WORD = /^[\p{L}\p{N}]{2}$/u;

/** Opens an index; the texts themselves are not kept, white space around them does not count. */
export function textIndex<T>() {
  const values = new Map<string, T>(); // by the keys' hashes
  // a key's last characters → its length → its first ones: instructions that end every key alike cost a look at each
  // length, not at each key
  const ends = new Map<string, Map<number, Set<string>>>();
  const endLengths = new Set<number>();

  /** The longest key between `least` characters and `end` that ends there. */
  function longest(text: string, end: number, least: number): { length: number; value: T } | undefined {
    let best: { length: number; value: T } | undefined;
    for (const size of endLengths) {
      if (size > end) continue;
      for (const [length, starts] of ends.get(text.slice(end - size, end)) ?? []) {
        const start = end - length;
        if (start < 0 || length <= (best?.length ?? least)) continue;
        if (!starts.has(text.slice(start, Math.min(end, start + ANCHOR_UNITS)))) continue;
        if (INSIDE_A_WORD.test(text.slice(Math.max(0, start - 1), start + 1))) continue;
        const value = values.get(digestOf(text.slice(start, end)));
        if (value !== undefined) best = { length, value };
      }
    }
    return best;
  }

  return {
    add(key: string, value: T): void {
      const text = key.trim();
      values.set(digestOf(text), value);
      const end = text.slice(-ANCHOR_UNITS);
      endLengths.add(end.length);
      const lengths = ends.get(end) ?? new Map<number, Set<string>>();
      ends.set(end, lengths);
      lengths.set(text.length, (lengths.get(text.length) ?? new Set()).add(text.slice(0, ANCHOR_UNITS)));
    },
    /** The value of exactly this key. */
    get: (key: string): T | undefined => values.get(digestOf(key.trim())),
    /**
     * The value of the longest key that `text` ends with, up to a tail of {@link MAX_TAIL_UNITS}. Where the key begins with
     * a letter or a digit, none stands before it.
     */
    within(text: string): T | undefined {
      let best: { length: number; value: T } | undefined;
      for (let end = text.length; end > 0 && end >= text.length - MAX_TAIL_UNITS; end--)
        best = longest(text, end, best?.length ?? 0) ?? best;
      const isWhole = best?.length === text.trim().length;
      return isWhole || (best?.length ?? 0) >= MIN_WITHIN_UNITS ? best?.value : undefined;
    },
  };
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('base64').slice(0, 22);
}
