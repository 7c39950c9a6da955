// Finds the words that open a new step at the start of a line or sentence.
import { boundaryBefore, type TokenText } from './span.js';

/** Words that open a new step at the start of a sentence (METHOD §2). */
export const TRANSITIONS: readonly string[] = [
  'Wait',
  'Alternatively',
  'Hmm',
  'But',
  'However',
  'So',
  'Therefore',
  'Thus',
  'Now',
  'First',
  'Next',
  'Then',
  'Finally',
  'Let me',
  "Let's",
  'Actually',
  'Maybe',
];

/** How a list of words is looked for. */
interface Patterns {
  /** a line's or sentence's start, where a word may begin: found without the words, four times as fast */
  readonly start: RegExp;
  readonly word: RegExp;
}

/** Chinese, Japanese and Thai write words without spaces: there a word may be followed by a letter. */
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]$/u;

function patternsOf(words: readonly string[]): Patterns {
  const initials = [...new Set(words.map((word) => [...word][0] as string))].map(escaped).join('|');
  const spelled = words.map((word) => `${escaped(word)}${UNSPACED.test(word) ? '' : '(?![\\p{L}\\p{N}_])'}`);
  return {
    start: new RegExp(`(?:\\n|[.!?]\\s+|[。！？]\\s*)(?=${initials})`, 'gu'),
    word: new RegExp(spelled.join('|'), 'uy'),
  };
}

function escaped(text: string): string {
  return text.replace(/[$()*+./?[\\\]^{|}-]/g, '\\$&');
}

const made = new WeakMap<readonly string[], Patterns>();

/**
 * Boundaries before the tokens that open a line or sentence with one of the words. A sentence begins after [.!?] and white
 * space, or after 。！？. What opens the whole text needs no boundary.
 */
export function keywordCuts({ text, units }: TokenText, words: readonly string[] = TRANSITIONS): number[] {
  const { start, word } = made.get(words) ?? patternsOf(words);
  made.set(words, { start, word });
  const cuts: number[] = [];
  start.lastIndex = 0;
  while (start.test(text)) {
    word.lastIndex = start.lastIndex;
    if (word.test(text)) cuts.push(boundaryBefore(units, start.lastIndex));
  }
  return cuts;
}
