// Tokens as texts, for tests of what is cut.
import type { TokenText } from '../../dist/segment/span.js';

/** Tokens given as strings, of which trailing empty ones stand for end tokens that the text does not show. */
export function spell(tokens: readonly string[]): TokenText {
  const units = new Int32Array(tokens.length + 1);
  for (const [t, token] of tokens.entries()) units[t + 1] = (units[t] as number) + token.length;
  return { text: tokens.join(''), units, textEnd: tokens.findLastIndex((token) => token !== '') + 1 };
}

/** Tokens of one letter each. */
export const letters = (text: string): TokenText => spell(text.split(''));
