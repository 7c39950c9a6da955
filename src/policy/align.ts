// Aligns tokens with the characters of the text they spell.

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
