// Finds the answer in a text that ends with one, and takes off it what a column or a sentence has put around it.
import { lastBoxed } from '../boxed.js';
import type { ExitTemplate } from '../model/text/templates.js';
import { answerMark, closeOf, type ThoughtTags, tagsOf } from '../segment/span.js';
import type { Reference } from '../trace.js';

/** By what a policy marks its answer: what it leaves its thought by, and the exit template around the answer. */
export interface AnswerMarks extends ExitTemplate {
  /** where the known pairs have it not */
  readonly thoughtTags?: ThoughtTags | undefined;
  /** how a prompt ends, or those of messages, where that opens a thought */
  readonly opening?: string;
}

/** Tokens that end a turn or a text, of whatever policy: a dump may spell them. */
const END_TOKEN = /<[|｜]\w*(?:end|eo[mst]|return)[\w▁]*[|｜]>|<\/s>|<eos>|<end_of_turn>|\[EOS\]/i;

/** A text up to its first end token. */
export function untilEndToken(text: string): string {
  return text.split(END_TOKEN, 1)[0] as string;
}

/**
 * The trace's final answer: between the exit template's open and closer after the thought, in its last box, or on its line.
 * @returns undefined where there is none, null where the text was cut inside it
 */
export function ownAnswer(text: string, marks: AnswerMarks): string | null | undefined {
  const found = answerIn(text, marks);
  return found && untilEndToken(found).trim();
}

function answerIn(text: string, { open, closer, thoughtTags }: AnswerMarks): string | null | undefined {
  const close = closeOf(text, tagsOf(text, thoughtTags))?.[1] ?? -1;
  const behindThought = close < 0 ? text : text.slice(close);
  // R1-Zero and its like answer between tags
  const tagged = behindThought.lastIndexOf('<answer>');
  const [tail = ''] = behindThought.slice(tagged < 0 ? 0 : tagged + '<answer>'.length).split('</answer>', 1);
  const from = open === '' ? -1 : tail.lastIndexOf(open);
  // a template that ends in an opened box is read as the box that it is: braces may nest
  if (close >= 0 && from >= 0 && !/\\(?:boxed|fbox)\{$/.test(open)) {
    const start = from + open.length;
    const end = closer === '' ? -1 : tail.indexOf(closer, start);
    return tail.slice(start, end < 0 ? undefined : end);
  }
  const mark = answerMark(tail);
  if (mark === undefined) return close < 0 && tagged < 0 ? undefined : tail;
  const [said] = mark;
  if (said.startsWith('\\')) return lastBoxed(tail);
  const behind = tail.slice(mark.index + said.length);
  // what a heading names is below it; The answer is: 6, and **Answer:** 6
  const rest = said.endsWith('# Answer') ? behind.trimStart() : behind.replace(/^(?::|\*\*(?=\s))/, '');
  const line = rest.split('\n', 1)[0] as string;
  // as Minerva closes
  return line.replace(/^\s*\$?(.*?)\$?\s*\. I hope it is correct\b.*/, '$1');
}

// ------ references

/** What stands around an answer and is no part of it: emphasis, formulas, a number's quotes; a point, where no other goes before. */
const WRAPPINGS = [
  /^(\*\*|`|\$\$?)(?<inner>(?:(?!\1).)+)\1$/s,
  /^\\[([](?<inner>(?:(?!\\[([]).)+)\\[)\]]$/s,
  /^(["'])(?<inner>-?[\d.,/]+)\1$/,
  /^(?<inner>.*[^.\s])(?<!\.\w)\.$/s,
];

/** A list of texts as JSON or Python writes it, such as a column that holds several right answers in one text. */
const LIST = /^(?:array\()?\[((?:(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')[,\s]*)+)\](?:, dtype=object\))?$/;

/**
 * References as the policy would write them: what a list in a text holds, each answer without its sentence, box, dollars, white space
 * and final point. Spellings that say something else stay.
 */
export function plainReferences(references: readonly Reference[]): readonly Reference[] {
  return references.flatMap((one) => plainAnswers(one.answer).map((answer) => ({ ...one, answer })));
}

function plainAnswers(text: string): readonly string[] {
  const items = LIST.exec(text.trim())?.[1]?.match(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g);
  if (!items) return [plainAnswer(text)];
  // a list that somebody glued together does not escape its TeX
  const isEscaped = items.every((item) => /^(?:[^\\]|\\[\\"'])*$/.test(item));
  const inner = items.map((item) => item.slice(1, -1));
  return inner.flatMap((item) => plainAnswers(isEscaped ? item.replaceAll(/\\([\\"'])/g, '$1') : item));
}

/** One that is nothing but wrapping stays what it is. */
export function plainAnswer(text: string): string {
  // of a choice the letter counts: A: 300
  const marked = /^\s*A:/.test(text) ? undefined : ownAnswer(text, { close: '', open: '', closer: '' });
  let answer = (marked || untilEndToken(text)).trim();
  for (let before = ''; before !== answer; ) {
    before = answer;
    for (const wrapping of WRAPPINGS) answer = answer.replace(wrapping, '$<inner>').trim();
  }
  return answer || text;
}
