// Aligns tokens with the characters of the text they spell.
import { codePoints } from '../../scored.js';

/** Positions of the T+1 token boundaries in a text. Boundary t lies before token t. */
export interface Alignment {
  /** (T+1) code points before each boundary; a character split over tokens belongs to the token with its first byte */
  readonly chars: Int32Array;
  /** (T+1) UTF-16 code units before each boundary, for slicing JavaScript strings */
  readonly units: Int32Array;
  /** first boundary that has the whole text before it: tokens from here on lie beyond the text */
  readonly textEnd: number;
}

/**
 * Aligns token byte lengths (T) with a text.
 *
 * Trailing tokens may lie beyond the text (an end token that the text does not show): their spans are empty.
 * @returns undefined where the tokens' bytes are not the text's: they spell something else
 */
export function alignTokens(tokens: readonly Uint8Array[], text: string): Alignment | undefined {
  const bytes = Buffer.from(text, 'utf8');
  const chars = new Int32Array(tokens.length + 1);
  const units = new Int32Array(tokens.length + 1);
  let [byte, char, unit, textEnd] = [0, 0, 0, 0];
  for (let t = 0; t < tokens.length; t++) {
    const token = tokens[t] as Uint8Array;
    if (byte < bytes.length) {
      const end = byte + token.length;
      if (end > bytes.length || bytes.compare(token, 0, token.length, byte, end) !== 0) return undefined;
      for (; byte < end; byte++) {
        const lead = bytes[byte] as number;
        if ((lead & 0xc0) === 0x80) continue; // continuation byte: its character is already counted
        char += 1;
        unit += lead >= 0xf0 ? 2 : 1; // four-byte characters are surrogate pairs in UTF-16
      }
      textEnd = t + 1;
    }
    chars[t + 1] = char;
    units[t + 1] = unit;
  }
  return byte === bytes.length ? { chars, units, textEnd } : undefined;
}

/**
 * Aligns tokens with a text that was normalised before it was tokenised, and maps the boundaries back to the text as it is.
 *
 * What normalising changes in a cluster (`e` and a combining accent) is one character here: it belongs to the token with
 * the first byte of what it became.
 * @returns undefined where the tokens' bytes are not the normalised text's
 */
export function alignNormalized(
  tokens: readonly Uint8Array[],
  text: string,
  form: 'NFC' | 'NFD' | 'NFKC' | 'NFKD',
): Alignment | undefined {
  const clusters = text.match(CLUSTER) ?? [];
  const normalized = clusters.map((cluster) => cluster.normalize(form));
  const whole = normalized.join('');
  // clusters that normalise one by one as they do together: else a boundary could not be mapped back
  if (whole !== text.normalize(form)) return undefined;
  const found = alignTokens(tokens, whole);
  if (found === undefined) return undefined;

  const chars = new Int32Array(found.units.length);
  const units = new Int32Array(found.units.length);
  let t = 0;
  let [char, unit, scored] = [0, 0, 0]; // before the cluster: in the text, and in what was scored
  for (const [n, cluster] of clusters.entries()) {
    const became = normalized[n] as string;
    const kept = commonPrefix(cluster, became);
    const end = scored + became.length;
    for (; t < found.units.length && (found.units[t] as number) < end; t++) {
      const within = (found.units[t] as number) - scored;
      const taken = within <= kept ? cluster.slice(0, within) : cluster;
      chars[t] = char + codePoints(taken);
      units[t] = unit + taken.length;
    }
    char += codePoints(cluster);
    unit += cluster.length;
    scored = end;
  }
  chars.fill(char, t);
  units.fill(unit, t);
  return { chars, units, textEnd: found.textEnd };
}

/** A starter with the marks, and the Hangul vowels and finals, that may be composed with it. */
const CLUSTER = /[\s\S](?:[\p{M}\u1160-\u11ff])*/gu;

/** UTF-16 units that two texts begin with alike; never half a character. */
function commonPrefix(a: string, b: string): number {
  let length = 0;
  for (const character of a) {
    if (!b.startsWith(character, length)) break;
    length += character.length;
  }
  return length;
}
