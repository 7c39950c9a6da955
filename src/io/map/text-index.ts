// An index of texts that finds which of them another text ends with, whatever stands before and shortly behind it.
import { createHash } from 'node:crypto';

/** A key is looked up by its last characters, so many of them. */
const ANCHOR_UNITS = 32;
/** What may follow the key: what a chat template adds behind a question, and instructions. */
const MAX_TAIL_UNITS = 512;
/** A shorter key has to be the whole text: `7` ends many. */
const MIN_WITHIN_UNITS = 8;

/** Texts with a value each. */
export interface TextIndex<T> {
  add(key: string, value: T): void;
  /** The value of exactly this key. */
  get(key: string): T | undefined;
  /**
   * The value of the longest key that `text` ends with, up to a tail of {@link MAX_TAIL_UNITS}. Where the key begins with
   * a letter or a digit, none stands before it.
   */
  within(text: string): T | undefined;
}

/** Two characters between which a key cannot begin. */
const INSIDE_A_WORD = /^[\p{L}\p{N}]{2}$/u;

interface IndexedText<T> {
  readonly digest: string;
  readonly value: T;
}

/** Opens an index; the texts themselves are not kept, white space around them does not count. */
export function textIndex<T>(): TextIndex<T> {
  // a key's last characters → its length → its rolling hash: instructions that end every key alike cost a look at
  // each length, not at each key
  const anchors = new Map<string, Map<number, Map<number, IndexedText<T>[]>>>();
  const anchorLengths = new Set<number>();

  function find(hashes: Hashes, end: number): { length: number; value: T } | undefined {
    let best: { length: number; value: T } | undefined;
    for (const size of anchorLengths) {
      if (size > end) continue;
      for (const [length, byHash] of anchors.get(hashes.text.slice(end - size, end)) ?? []) {
        if (length > end || length <= (best?.length ?? 0)) continue;
        if (INSIDE_A_WORD.test(hashes.text.slice(Math.max(0, end - length - 1), end - length + 1))) continue;
        const entries = byHash.get(hashes.of(end - length, end));
        if (entries === undefined) continue;
        const digest = digestOf(hashes.text.slice(end - length, end));
        const entry = entries.find((each) => each.digest === digest);
        if (entry !== undefined) best = { length, value: entry.value };
      }
    }
    return best;
  }

  return {
    add(key, value) {
      const text = key.trim();
      const anchor = text.slice(-ANCHOR_UNITS);
      anchorLengths.add(anchor.length);
      const byLength = getOr(anchors, anchor, () => new Map<number, Map<number, IndexedText<T>[]>>());
      const byHash = getOr(byLength, text.length, () => new Map<number, IndexedText<T>[]>());
      getOr(byHash, rollingHashes(text).of(0, text.length), () => [] as IndexedText<T>[]).push({
        digest: digestOf(text),
        value,
      });
    },
    get(key) {
      const text = key.trim();
      const found = find(rollingHashes(text), text.length);
      return found?.length === text.length ? found.value : undefined;
    },
    within(text) {
      const hashes = rollingHashes(text);
      let best: { length: number; value: T } | undefined;
      for (let end = text.length; end > 0 && end >= text.length - MAX_TAIL_UNITS; end--) {
        const found = find(hashes, end);
        if (found !== undefined && found.length > (best?.length ?? 0)) best = found;
      }
      const isWhole = best?.length === text.trim().length;
      return isWhole || (best?.length ?? 0) >= MIN_WITHIN_UNITS ? best?.value : undefined;
    },
  };
}

interface Hashes {
  readonly text: string;
  /** the hash of text[from..to] */
  of(from: number, to: number): number;
}

const BASE = 0x01000193; // odd, so that no character drops out of the low bits

/** Polynomial hashes modulo 2^32 of any part of a text, each in constant time once the first was asked for. */
function rollingHashes(text: string): Hashes {
  let prefixes: Int32Array | undefined; // (length+1) hashes of text[0..i]
  return {
    text,
    of(from, to) {
      prefixes ??= prefixHashes(text);
      return ((prefixes[to] as number) - Math.imul(prefixes[from] as number, power(to - from))) | 0;
    },
  };
}

function prefixHashes(text: string): Int32Array {
  const hashes = new Int32Array(text.length + 1);
  for (let i = 0; i < text.length; i++)
    hashes[i + 1] = Math.imul(hashes[i] as number, BASE) + text.charCodeAt(i) + 1;
  return hashes;
}

function power(exponent: number): number {
  let [result, square] = [1, BASE];
  for (let left = exponent; left > 0; left >>>= 1) {
    if (left & 1) result = Math.imul(result, square);
    square = Math.imul(square, square);
  }
  return result;
}

function digestOf(text: string): string {
  return createHash('sha256').update(text).digest('base64').slice(0, 22);
}

function getOr<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const found = map.get(key);
  if (found !== undefined) return found;
  const made = make();
  map.set(key, made);
  return made;
}
