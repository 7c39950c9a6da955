// Finds where a completion's thought begins and ends, and maps positions of its text to token boundaries.

/** A completion of T tokens beside its text: boundary t (0..T) lies before token t, at units[t] UTF-16 units. */
export interface TokenText {
  readonly text: string;
  /** (T+1) UTF-16 code units before each token boundary */
  readonly units: Int32Array;
  /** first boundary that has the whole text before it; end tokens that the text does not show come after */
  readonly textEnd: number;
}

/** The thought's place in a completion, as token boundaries. */
export interface ThoughtSpan {
  /** exit point 0: 0, or behind a leading `<think>` and the newlines token after it */
  readonly start: number;
  /** the thought's end, exclusive; tokens from here on are the answer segment where `answered` */
  readonly end: number;
  /** whether an answer was found: by `</think>`, or by an answer pattern where there is none */
  readonly answered: boolean;
}

/** What opens an answer in a completion without `</think>` (METHOD §2, and headings as in PRM800K's solutions). */
export const ANSWER_PATTERN = /\\boxed\{|(?<!#)#+ Answer(?= *$)|####|\bA:|\bAnswer:|\bThe answer is/gm;

/** ends the thought of a policy that thinks between tags */
export const THINK_OPEN = '<think>';
export const THINK_CLOSE = '</think>';

/**
 * Splits thought from answer: METHOD §2.
 *
 * Exit 0 lies behind a leading `<think>` and one token of nothing but newlines after it, so that a trace has the same
 * exit 0 whether its chat template put the tag into the prompt or the policy wrote it [ours].
 */
export function findThought(tokens: TokenText, answerPattern: RegExp = ANSWER_PATTERN): ThoughtSpan {
  const { text, units } = tokens;
  const start = thoughtStart(tokens);
  let end = units.length - 1;
  let answered = true;
  const close = text.indexOf(THINK_CLOSE);
  if (close >= 0) end = boundaryBefore(units, close);
  else {
    const last = [...text.matchAll(answerPattern)].at(-1);
    if (last === undefined) answered = false;
    // the whole line that the pattern stands in is the answer
    else end = Math.max(start, boundaryBefore(units, text.lastIndexOf('\n', last.index - 1) + 1));
  }
  return { start: Math.min(start, end), end, answered };
}

function thoughtStart({ text, units }: TokenText): number {
  const tag = /^\s*<think>/.exec(text);
  if (tag === null) return 0;
  const start = boundaryAfter(units, tag[0].length);
  const next = text.slice(units[start], units[start + 1]);
  return /^[\r\n]+$/.test(next) ? start + 1 : start;
}

/** The boundary before the token that holds text position `unit`; T where the position is the text's end. */
export function boundaryBefore(units: Int32Array, unit: number): number {
  // tokens of one unit each, as where there is no policy, need no search
  if (units[unit] === unit && !((units[unit + 1] as number) <= unit)) return unit;
  let [low, high] = [0, units.length - 1];
  while (low < high) {
    // the largest t with units[t] ≤ unit: of tokens without text of their own, the last one
    const middle = (low + high + 1) >> 1;
    if ((units[middle] as number) <= unit) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** The first boundary at or behind text position `unit`. */
export function boundaryAfter(units: Int32Array, unit: number): number {
  if (units[unit] === unit && !((units[unit - 1] as number) >= unit)) return unit;
  let [low, high] = [0, units.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((units[middle] as number) >= unit) high = middle;
    else low = middle + 1;
  }
  return low;
}
