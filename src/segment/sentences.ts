// Finds the sentences of a thought by Unicode's rules (Intl.Segmenter), so that languages without spaces are cut too.
import { boundaryBefore, type ThoughtSpan, type TokenText } from './span.js';

/**
 * One locale for all texts: the rules differ in few (Greek ends a question with a semicolon), and a run knows none. Made at the
 * first text: it takes a fifth of a bare start.
 */
let segmenter: Intl.Segmenter | undefined;

/** Shortened words, whose dot ends no sentence; Unicode's rules know none. */
const SHORTENED =
  /(?<![\p{L}\p{N}.])(?:e\.g|i\.e|cf|vs|resp|approx|et al|[Mm]rs?|[Mm]s|[Dd]r|[Pp]rof)\.\s*$/u;
/** and those that stand before a number, as in `Fig. 3` */
const COUNTED = /(?<![\p{L}\p{N}.])(?:figs?|eqs?|eqns?|nos?|sec|thm|lem|prop|ch|pp?)\.\s*$/iu;
const NUMBER_NEXT = /^[([\\$]*\p{N}/u;
const LONGEST_SHORTENED = 16;

/** a list's number alone, `2. ` or `(a) `: it belongs to what it counts */
const LIST_NUMBER = /^\s*[([]?(?:\p{N}{1,3}|\p{L})[.)\]]+\s*$/u;
const LONGEST_NUMBER = 16;

/** neither a letter nor a number: quotes, brackets, an arrow */
const MARKS_ALONE = /^[^\p{L}\p{N}]*$/u;

/**
 * Boundaries before the tokens that begin a sentence: a line's end ends one, and so do . ! ? and their like in all scripts.
 * No cut stands inside a formula in LaTeX, after a shortened word or a list's number, or before marks without a word [ours].
 */
export function sentenceCuts({ text, units }: TokenText, thought: ThoughtSpan): number[] {
  const begin = units[thought.start] as number;
  const thoughtText = text.slice(begin, units[thought.end]);
  const formulas = formulasOf(thoughtText);
  const cuts: number[] = [];
  let start = 0; // of the sentence that is being put together
  let f = 0;
  for (const { index: found, segment } of sentencesOf(thoughtText)) {
    const index = OPENING.test(thoughtText[found - 1] ?? '') ? found - 1 : found;
    while (f < formulas.length && (formulas[f]?.[1] as number) <= index) f++;
    const isInFormula = f < formulas.length && (formulas[f]?.[0] as number) < index;
    if (index <= start || isInFormula || goesOn(thoughtText, start, index, segment)) continue;
    cuts.push(boundaryBefore(units, begin + index));
    start = index;
  }
  return cuts;
}

/** V8 takes time with the square of a text's length: it sees so much at once, and more only of a longer sentence. */
const BLOCK = 1024;
/** a quote or bracket that opens what comes next; Unicode's rules leave it with the sentence before */
const OPENING = /[\p{Ps}\p{Pi}]$/u;

/** The sentences of a text as Unicode's rules have them, line by line, since a line's end ends one in any case. */
function* sentencesOf(text: string): Generator<{ index: number; segment: string }> {
  segmenter ??= new Intl.Segmenter('en', { granularity: 'sentence' });
  for (let from = 0; from < text.length; ) {
    const newline = text.indexOf('\n', from);
    const lineEnd = newline < 0 ? text.length : newline + 1;
    for (let size = BLOCK; from < lineEnd; ) {
      const to = Math.min(lineEnd, from + size);
      const found = [...segmenter.segment(text.slice(from, to))];
      // the last one of a block may go on behind it
      const sure = to === lineEnd ? found : found.slice(0, -1);
      for (const { index, segment } of sure) yield { index: from + index, segment };
      const last = found.at(-1);
      if (sure.length > 0) {
        from = to === lineEnd ? lineEnd : from + (last?.index ?? 0);
        size = BLOCK;
      } else size *= 2;
    }
  }
}

/** Whether what Unicode's rules would cut at `index` is no sentence's end. */
function goesOn(text: string, start: number, index: number, next: string): boolean {
  if (text[index - 1] === '\n') return false;
  if (MARKS_ALONE.test(next)) return true;
  if (index - start <= LONGEST_NUMBER && LIST_NUMBER.test(text.slice(start, index))) return true;
  const tail = text.slice(Math.max(start, index - LONGEST_SHORTENED), index);
  return SHORTENED.test(tail) || (COUNTED.test(tail) && NUMBER_NEXT.test(next));
}

/** What opens a formula, and what closes it. */
const FORMULAS: Readonly<Record<string, string>> = { '\\(': '\\)', '\\[': '\\]', $$: '$$', $: '$' };
const FORMULA_OPEN = /\\[([]|\$\$?/g;
/** what is not closed within so many characters is no formula, and costs no search through the rest of the text */
const LONGEST_FORMULA = 2000;

/** Places of formulas, [start, end) in the text, in order. A $ opens one on its own line alone, and is no price (`$5 or $6`). */
function formulasOf(text: string): (readonly [number, number])[] {
  const found: (readonly [number, number])[] = [];
  FORMULA_OPEN.lastIndex = 0;
  for (let open = FORMULA_OPEN.exec(text); open !== null; open = FORMULA_OPEN.exec(text)) {
    const from = FORMULA_OPEN.lastIndex;
    const close = FORMULAS[open[0]] as string;
    const inside = text.slice(from, from + LONGEST_FORMULA);
    const length = open[0] === '$' ? inlineLength(inside) : inside.indexOf(close);
    if (length < 0) continue;
    const end = from + length + close.length;
    found.push([open.index, end]);
    FORMULA_OPEN.lastIndex = end;
  }
  return found;
}

/** Length of a formula between single dollars: none begins or ends with a space, goes over a line, or stands before a number. */
function inlineLength(inside: string): number {
  const length = /[$\n]/.exec(inside)?.index ?? -1;
  if (length <= 0 || inside[length] === '\n') return -1;
  const isTight = /^\S/.test(inside) && /\S/.test(inside[length - 1] as string);
  return isTight && !/\p{N}/u.test(inside[length + 1] ?? '') ? length : -1;
}
