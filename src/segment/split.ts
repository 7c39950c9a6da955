// Splits a thought into pieces at token boundaries: by lines, keywords, sentences, a column, every N tokens, or what the policy said of them; and merges them.
import TinyQueue from 'tinyqueue';
import { boundaryAfter, boundaryBefore, type ThoughtSpan, type TokenText } from './span.js';

/** A piece longer than this (tokens) is split at sentence ends. */
const LONG_PIECE = 256;

const SENTENCE_END = /[.!?]\s+/g;

/**
 * The pieces of the hybrid segmenter before merging: a boundary after every token with a newline and before every
 * token that opens a sentence with a keyword; pieces of over `longPiece` tokens are split at sentence ends. Blank
 * lines belong to the piece on their left, those before the first to it.
 * @param keywords absent: METHOD's transition words
 * @returns piece ends: token boundaries, rising, the last one the thought's end; none for an empty thought
 */
export function splitHybrid(
  tokens: TokenText,
  thought: ThoughtSpan,
  longPiece = LONG_PIECE,
  keywords?: readonly string[],
): Int32Array {
  const cuts = newlineCuts(tokens);
  for (const cut of keywordCuts(tokens, keywords)) cuts.push(cut);
  const pieces = splitAt(cuts, tokens, thought);
  const { units } = tokens;
  const ends: number[] = [];
  let from = thought.start;
  for (const end of pieces) {
    // no spread: a piece can have more sentences than a call can have arguments
    if (end - from > longPiece)
      for (const cut of matchCuts(tokens, SENTENCE_END, units[from] as number, units[end] as number))
        ends.push(cut);
    ends.push(end);
    from = end;
  }
  return ends.length === pieces.length ? pieces : pieceEnds(ends, thought);
}

/** Pieces between the cuts (token boundaries, in any order), blank ones joined. @returns piece ends as {@link splitHybrid} */
export function splitAt(cuts: readonly number[], tokens: TokenText, thought: ThoughtSpan): Int32Array {
  return withoutBlanks(pieceEnds(cuts, thought), tokens, thought);
}

/** Pieces of `length` tokens, the last one shorter. @returns piece ends as {@link splitHybrid} */
export function splitFixed(length: number, thought: ThoughtSpan): Int32Array {
  const cuts: number[] = [];
  for (let end = thought.start + length; end < thought.end; end += length) cuts.push(end);
  return pieceEnds(cuts, thought);
}

/**
 * Pieces that end where a column says (token boundaries). White space between the last of them and the thought's end is no
 * piece: it belongs to the last one.
 * @returns piece ends as {@link splitHybrid}
 */
export function splitGiven(ends: Int32Array, tokens: TokenText, thought: ThoughtSpan): Int32Array {
  const pieces = pieceEnds(Array.from(ends), thought);
  const last = pieces.at(-2);
  if (last === undefined || !isBlank(tokens, last, thought.end)) return pieces;
  return Int32Array.from([...pieces.subarray(0, -2), thought.end]);
}

/** Boundaries after every token that contains a newline. */
export function newlineCuts({ text, units }: TokenText): number[] {
  const cuts: number[] = [];
  for (let at = text.indexOf('\n'); at >= 0; at = text.indexOf('\n', at + 1))
    cuts.push(boundaryAfter(units, at + 1));
  return cuts;
}

/** Boundaries before the tokens that follow a pattern's matches in text positions from..to. */
function matchCuts({ text, units }: TokenText, pattern: RegExp, from: number, to: number): number[] {
  const cuts: number[] = [];
  for (const match of text.slice(from, to).matchAll(pattern))
    cuts.push(boundaryBefore(units, from + match.index + match[0].length));
  return cuts;
}

/** Sorts cuts, keeps those inside the thought, and closes with its end. A leading tag joins the first piece. */
function pieceEnds(cuts: readonly number[], { start, end }: ThoughtSpan): Int32Array {
  if (end === 0) return new Int32Array(0);
  const sorted = new Int32Array(cuts).sort();
  const ends = new Int32Array(sorted.length + 1);
  let count = 0;
  let last = start;
  for (const cut of sorted) {
    if (cut <= last || cut >= end) continue;
    ends[count++] = cut;
    last = cut;
  }
  ends[count++] = end;
  return ends.subarray(0, count);
}

/** ASCII alone: where the text is not known, each byte of it stands for a character. */
const BLANK = /^[ \t\r\n\v\f]*$/;

/** Joins pieces of nothing but white space to the piece on their left; what leads the thought has none, and joins the first. */
function withoutBlanks(ends: Int32Array, tokens: TokenText, { start }: ThoughtSpan): Int32Array {
  const kept: number[] = [];
  let from = start;
  for (const end of ends) {
    // the piece before ends here instead
    if (isBlank(tokens, from, end) && kept.length > 0) kept.pop();
    kept.push(end);
    from = end;
  }
  if (kept.length > 1 && isBlank(tokens, start, kept[0] as number)) kept.shift();
  return kept.length === ends.length ? ends : Int32Array.from(kept);
}

/** Whether there is nothing but white space between two token boundaries. */
function isBlank({ text, units }: TokenText, from: number, to: number): boolean {
  return BLANK.test(text.slice(units[from], units[to]));
}

/** What the policy said of a completion's tokens. */
export interface TokenFigures {
  /** (T) nats */
  readonly entropies: Float32Array;
  /** (T) nats */
  readonly logprobs: Float32Array;
}

/** Tokens before which a cut can stand: all of the thought's but its first, and no end token that the text does not show. */
function cuttable({ textEnd }: TokenText, { start, end }: ThoughtSpan): { from: number; to: number } {
  return { from: start + 1, to: Math.min(end, textEnd) };
}

/**
 * Boundaries before the tokens of at least `threshold` nats; or before the `share` of the thought's tokens with most
 * entropy (rounded down), the earlier one of equals.
 */
export function entropyCuts(
  tokens: TokenText,
  thought: ThoughtSpan,
  { entropies }: TokenFigures,
  cut: { readonly threshold: number } | { readonly share: number },
): number[] {
  const { from, to } = cuttable(tokens, thought);
  const inside = Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i);
  if ('threshold' in cut) return inside.filter((t) => (entropies[t] as number) >= cut.threshold);
  const ranked = inside.sort((a, b) => (entropies[b] as number) - (entropies[a] as number) || a - b);
  return ranked.slice(0, Math.floor(cut.share * ranked.length)).sort((a, b) => a - b);
}

/** Boundaries before every `every`-th of the thought's cutpoints: tokens to which the policy gave less than `probability` (SPO, arXiv 2505.23564). */
export function cutpointCuts(
  tokens: TokenText,
  thought: ThoughtSpan,
  { logprobs }: TokenFigures,
  { probability, every }: { readonly probability: number; readonly every: number },
): number[] {
  const { to } = cuttable(tokens, thought);
  const limit = Math.log(probability);
  const cuts: number[] = [];
  let cutpoints = 0;
  for (let t = thought.start; t < to; t++)
    if ((logprobs[t] as number) < limit && ++cutpoints % every === 0) cuts.push(t);
  return cuts;
}

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

/** What a letter behind it makes another word: a letter, but for those of Chinese, Japanese and Thai, who write without spaces. */
const SPACED = /[\p{L}\p{N}_](?<![\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}])$/u;

function patternsOf(words: readonly string[]): Patterns {
  const initials = [...new Set(words.map((word) => [...word][0] as string))].map(escaped).join('|');
  const spelled = words.map((word) => `${escaped(word)}${SPACED.test(word) ? '(?![\\p{L}\\p{N}_])' : ''}`);
  return {
    start: new RegExp(`(?:\\n|[.!?]\\s+|[。！？]\\s*)(?=${initials})`, 'gu'),
    word: new RegExp(spelled.join('|'), 'uy'),
  };
}

function escaped(text: string): string {
  return text.replace(/[$()*+./?[\\\]^{|}]/g, '\\$&');
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

// ------ merging until few enough are left, or none are poor enough: always the two neighbors with the lowest total entropy (METHOD §2)

/**
 * Greedy merge by a queue over a linked list: O(P log P), equal to the naive loop on every input, ties leftmost.
 * @param ends (P) piece ends as token boundaries, rising
 * @param weights (P) total entropy of each piece (or its length, where there is no policy)
 * @param max pieces that may be left
 * @param borders ends over which nothing is merged, though more pieces than `max` are left
 * @param limit pairs of no larger sum are merged also where no more than `max` pieces are left; absent: none are
 * @returns the ends that survive, at most `max` of them
 */
export function mergePieces(
  ends: Int32Array,
  weights: Float64Array,
  max: number,
  limit = Number.NEGATIVE_INFINITY,
  borders?: ReadonlySet<number>,
): Int32Array {
  const P = ends.length;
  if (P < 2 || (P <= max && limit === Number.NEGATIVE_INFINITY)) return ends;
  const weight = Float64Array.from(weights);
  const next = new Int32Array(P); // P: none
  const previous = new Int32Array(P);
  const sums = new Float64Array(P); // of the pair (i, next[i]); NaN where there is none
  const pairs = new TinyQueue<Pair>([], (a, b) => a.sum - b.sum || a.left - b.left);
  const put = (i: number): void => {
    const j = next[i] as number;
    const isApart = j === P || borders?.has(ends[j - 1] as number);
    const sum = isApart ? Number.NaN : (weight[i] as number) + (weight[j] as number);
    sums[i] = sum;
    if (!isApart) pairs.push({ left: i, sum });
  };
  for (let i = 0; i < P; i++) {
    next[i] = i + 1;
    previous[i] = i - 1;
    put(i);
  }

  let count = P;
  for (let pair = pairs.pop(); pair !== undefined; pair = pairs.pop()) {
    const { left: i, sum } = pair;
    if (sum !== sums[i]) continue; // one of the two is part of another piece by now
    if (count <= max && sum > limit) break;
    const j = next[i] as number;
    const after = next[j] as number;
    weight[i] = sum;
    next[i] = after;
    if (after < P) previous[after] = i;
    sums[j] = Number.NaN;
    put(i);
    const before = previous[i] as number;
    if (before >= 0) put(before);
    count--;
  }

  const kept = new Int32Array(count);
  for (let i = 0, k = 0; i < P; i = next[i] as number, k++) kept[k] = ends[(next[i] as number) - 1] as number;
  return kept;
}

/** Two neighbours, called by the left one: smallest sum first, leftmost on ties. */
interface Pair {
  readonly left: number;
  readonly sum: number;
}
