// Finds where a completion's thought begins and ends, and maps positions of its text to token boundaries.
import { type OwnTokens, turnsIn } from '../trace.js';

/** A completion of T tokens beside its text: boundary t (0..T) lies before token t, at units[t] UTF-16 units. */
export interface TokenText {
  readonly text: string;
  /** (T+1) UTF-16 code units before each token boundary */
  readonly units: Int32Array;
  /** first boundary that has the whole text before it; end tokens that the text does not show come after */
  readonly textEnd: number;
  /** which tokens the policy wrote; absent where it wrote all of them */
  readonly own?: OwnTokens;
}

/** The thought's place in a completion, as token boundaries. */
export interface ThoughtSpan {
  /** exit point 0: 0, or behind a leading opening tag and the newlines token after it */
  readonly start: number;
  /** the thought's end, exclusive; tokens from here on are the answer segment where `answered` */
  readonly end: number;
  /** whether an answer was found: by a closing tag, or by an answer pattern where there is none */
  readonly answered: boolean;
  /** what the thought stands between, where it is opened or closed so */
  readonly tags?: ThoughtTags;
  /** of several turns: where each one's own thought begins and ends */
  readonly turns?: readonly ThinkingTurn[];
}

/** What opens an answer in a completion without a closing tag (METHOD §2, and headings as in PRM800K's solutions), the strongest first. */
const ANSWER_MARKS = [
  /\\(?:boxed|fbox)(?![a-zA-Z])|\bThe final answer is(?=.*\. I hope it is correct)/g,
  /(?<!#)#+ Answer(?= *$)|####|\bAnswer:|\bThe (?:final )?answer is/gm,
  // two characters say little: "Vitamin A: 300"
  /(?:^|[\w|]>)[*_> \t]*A:/gm,
];

/** The last of the strongest marks of an answer in a text. */
export function answerMark(text: string): RegExpExecArray | undefined {
  for (const marks of ANSWER_MARKS) {
    const last = [...text.matchAll(marks)].at(-1);
    if (last !== undefined) return last;
  }
  return undefined;
}

/** What a policy thinks between: that of its chat template, or of its training. */
export type ThoughtTags = readonly [open: string, close: string];

/** The pairs that models are known to write, the commonest first. */
export const THOUGHT_TAGS: readonly ThoughtTags[] = [
  ['<think>', '</think>'],
  ['<reasoning>', '</reasoning>'],
  ['<thinking>', '</thinking>'],
  ['<thought>', '</thought>'],
  ['<|begin_of_thought|>', '<|end_of_thought|>'],
];
export const THINK_CLOSE = '</think>';

/** The pair with which a text is opened, else the first one that closes in it. @param named by the user, before the known ones */
export function tagsOf(text: string, named?: ThoughtTags): ThoughtTags | undefined {
  const pairs = named === undefined ? THOUGHT_TAGS : [named, ...THOUGHT_TAGS];
  const lead = text.slice(text.search(/\S|$/));
  return pairs.find(([open]) => lead.startsWith(open)) ?? pairs.find(([, close]) => text.includes(close));
}

/** Where the thought closes: before its closing tag, and behind it; undefined where it is not closed by one. */
export function closeOf(
  text: string,
  tags: ThoughtTags | undefined,
): readonly [from: number, to: number] | undefined {
  const close = tags?.[1] ?? '';
  const from = tags === undefined ? -1 : text.indexOf(close);
  return from < 0 ? undefined : [from, from + close.length];
}

/**
 * What a status says of the thought's tags: which pair was found, where it is not `<think>`, and that the prompt had opened it already.
 * @param before the prompt's end
 */
export function tagStatus(text: string, tags: ThoughtTags | undefined, before: string): readonly string[] {
  if (tags === undefined) return [];
  const [open] = tags;
  const name = THOUGHT_TAGS.includes(tags) ? /\w+/.exec(open)?.[0]?.replaceAll('_', '-') : 'named';
  const isTwice = before.trimEnd().endsWith(open) && text.trimStart().startsWith(open);
  return [...(name === 'think' ? [] : [`thought:${name}`]), ...(isTwice ? ['thought:reopened'] : [])];
}

/**
 * Splits thought from answer: METHOD §2.
 *
 * Exit 0 lies behind a leading opening tag and one token of nothing but newlines after it, so that a trace has the same
 * exit 0 whether its chat template put the tag into the prompt or the policy wrote it [ours].
 */
export function findThought(tokens: TokenText, named?: ThoughtTags): ThoughtSpan {
  const turns = tokens.own === undefined ? [] : turnTexts(tokens);
  const spans = turns.map(({ turn }) => thoughtOfTurn(turn, named));
  const [first, last, closed] = [turns[0], turns.at(-1), spans.at(-1)];
  if (first === undefined || last === undefined || closed === undefined) return thoughtOfTurn(tokens, named);
  // all turns but the last are thought: that one alone may close with an answer
  const answered = closed.answered && last.from + closed.end < last.to;
  const end = answered ? last.from + closed.end : tokens.units.length - 1;
  const tags = spans.find((span) => span.tags !== undefined)?.tags;
  const own = turns.map((turn, n): ThinkingTurn => {
    const { start, end: close, tags } = spans[n] as ThoughtSpan;
    const isClosed = turn !== last && closeOf(turn.turn.text, tags) !== undefined;
    return {
      ...turn,
      start: turn.from + start,
      close: isClosed ? turn.from + close : Math.min(turn.to, end),
    };
  });
  return { start: (own[0] as ThinkingTurn).start, end, answered, ...(tags && { tags }), turns: own };
}

/** The text of a completion's thought, its last line break included, as it was sampled. */
export function thoughtText(text: string, named: ThoughtTags | undefined): string {
  const units = Int32Array.from({ length: text.length + 1 }, (_, unit) => unit);
  const { start, end } = findThought({ text, units, textEnd: text.length }, named);
  return text.slice(start, end).replace(start === 0 ? '' : /^[\r\n]+/, '');
}

/** A turn, and the state in which its thought begins, behind its opening tag. */
export interface ThinkingTurn extends SpannedTurn {
  readonly start: number;
  /** before the closing tag of a turn that is not the last; else where the turn, or its thought, ends */
  readonly close: number;
}

/** A turn of the policy as a text of its own. */
export interface SpannedTurn {
  readonly turn: TokenText;
  /** token boundaries in the completion, end exclusive */
  readonly from: number;
  readonly to: number;
}

/** The policy's turns, each as the text that it wrote there; a completion that is all its own is one. */
export function turnTexts(tokens: TokenText): SpannedTurn[] {
  const { text, units, textEnd, own } = tokens;
  if (own === undefined) return [{ turn: tokens, from: 0, to: units.length - 1 }];
  return turnsIn(own).map(([from, to]) => {
    const [begin, end] = [units[from] as number, units[to] as number];
    return {
      turn: {
        text: text.slice(begin, end),
        units: units.subarray(from, to + 1).map((unit) => unit - begin),
        textEnd: Math.min(Math.max(0, textEnd - from), to - from),
      },
      ...{ from, to },
    };
  });
}

function thoughtOfTurn(tokens: TokenText, named?: ThoughtTags): ThoughtSpan {
  const { text, units } = tokens;
  const tags = tagsOf(text, named);
  const start = tags === undefined ? 0 : thoughtStart(tokens, tags);
  let end = units.length - 1;
  let answered = true;
  const close = closeOf(text, tags);
  if (close !== undefined) end = boundaryBefore(units, close[0]);
  else {
    const last = answerMark(text);
    if (last === undefined) answered = false;
    // the whole line that the pattern stands in is the answer
    else end = Math.max(start, boundaryBefore(units, text.lastIndexOf('\n', last.index - 1) + 1));
  }
  return { start: Math.min(start, end), end, answered, ...(tags && { tags }) };
}

function thoughtStart({ text, units }: TokenText, [open]: ThoughtTags): number {
  const from = text.search(/\S|$/);
  if (!text.startsWith(open, from)) return 0;
  const start = boundaryAfter(units, from + open.length);
  const next = text.slice(units[start], units[start + 1]);
  return /^[\r\n]+$/.test(next) ? start + 1 : start;
}

/** The boundary before the token that holds text position `unit`; T where the position is the text's end. */
export function boundaryBefore(units: Int32Array, unit: number): number {
  // the largest t with units[t] ≤ unit: of tokens without text of their own, the last one
  return firstFrom(units, unit + 1) - 1;
}

/** The first boundary at or behind text position `unit`. */
export function boundaryAfter(units: Int32Array, unit: number): number {
  return Math.min(firstFrom(units, unit), units.length - 1);
}

/** The first of rising numbers that is `least` or more; how many they are where none is. */
function firstFrom(units: Int32Array, least: number): number {
  // tokens of one unit each, as where there is no policy, need no search
  if (units[least] === least && !((units[least - 1] as number) >= least)) return least;
  let [low, high] = [0, units.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((units[middle] as number) >= least) high = middle;
    else low = middle + 1;
  }
  return low;
}
