// Finds a trace's reward ζ: from its row, or by comparing its own answer with the references where the row has none.
import { TraceRejected } from '../errors.js';
import type { ExitTemplate } from '../policy/folder.js';
import { ANSWER_PATTERN } from '../segment/span.js';
import type { Reference, Trace } from '../trace.js';

/** ζ in [0, 1], or null where nobody knows; `status` says where it came from when that is not the row. */
export interface Reward {
  readonly reward: number | null;
  readonly status: readonly string[];
}

/**
 * The reward of a trace whose row has none. No answer in the text: ζ = 0, `truncated` (METHOD §2). An answer that equals
 * a reference earns its utility, a number that equals none earns 0, both `reward:compared`; anything else is left open
 * (`reward:unknown`): it never guesses.
 */
export function compareAnswer(
  text: string,
  references: readonly Reference[],
  template: ExitTemplate,
): Reward {
  const own = ownAnswer(text, template);
  if (own === undefined) return { reward: 0, status: ['truncated'] };
  const answer = normalise(own);
  const equal = references.filter((reference) => normalise(reference.answer) === answer);
  if (equal.length > 0)
    return { reward: Math.max(...equal.map((reference) => reference.utility)), status: ['reward:compared'] };
  const numbers = [answer, ...references.map((reference) => normalise(reference.answer))].every(isNumber);
  return numbers ? { reward: 0, status: ['reward:compared'] } : { reward: null, status: ['reward:unknown'] };
}

/**
 * ζ of a trace: the row's reward, mapped by `--reward-range`, else {@link compareAnswer}.
 * @param text of the completion; called only where it is needed
 * @throws TraceRejected (`reward`) for a reward outside the range
 */
export function resolveReward(
  trace: Trace,
  range: readonly [low: number, high: number],
  text: () => string,
  template: ExitTemplate,
): Reward {
  if (trace.reward === null) return compareAnswer(text(), trace.references, template);
  const [low, high] = range;
  if (trace.reward < low || trace.reward > high)
    throw new TraceRejected(
      'reward',
      `the reward is ${trace.reward}, expected ${low} to ${high}: --reward-range low,high maps other scales`,
    );
  return { reward: (trace.reward - low) / (high - low), status: [] };
}

/** The trace's final answer: between the exit template's open and closer after the thought, in a box, or on its line. */
function ownAnswer(text: string, { open, closer }: ExitTemplate): string | undefined {
  const close = text.indexOf('</think>');
  const tail = close < 0 ? text : text.slice(close + '</think>'.length);
  const from = open === '' ? -1 : tail.lastIndexOf(open);
  if (close >= 0 && from >= 0) {
    const start = from + open.length;
    const end = closer === '' ? -1 : tail.indexOf(closer, start);
    return tail.slice(start, end < 0 ? undefined : end);
  }
  const last = [...tail.matchAll(ANSWER_PATTERN)].at(-1);
  if (last === undefined) return close < 0 ? undefined : tail;
  const start = last.index + last[0].length;
  return last[0] === '\\boxed{' ? insideBraces(tail, start) : tail.slice(start).split('\n', 1)[0];
}

/** The text from `start` up to the brace that closes the one before it. */
function insideBraces(text: string, start: number): string {
  let depth = 1;
  for (let i = start; i < text.length; i++) {
    if (text[i] === '{') depth++;
    else if (text[i] === '}' && --depth === 0) return text.slice(start, i);
  }
  return text.slice(start);
}

/**
 * White space around an answer, dollar signs, a full stop at the end and thousands commas carry no meaning; neither do a
 * number's plus sign and its zeros at either end. Digits are compared as text: no number is too long for it.
 */
function normalise(answer: string): string {
  const bare = answer.replaceAll('$', '').trim().replace(/\.$/, '').replaceAll(/\s+/g, ' ');
  const digits = /^[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?$/.test(bare) ? bare.replaceAll(',', '') : bare;
  const [, sign, whole, fraction] = /^([+-]?)(\d*)(?:\.(\d*))?$/.exec(digits) ?? [];
  if (!whole && !fraction) return bare;
  const [left, right] = [(whole ?? '').replace(/^0+/, ''), (fraction ?? '').replace(/0+$/, '')];
  if (left === '' && right === '') return '0';
  return `${sign === '-' ? '-' : ''}${left || '0'}${right === '' ? '' : `.${right}`}`;
}

function isNumber(normalised: string): boolean {
  return /^-?\d+(?:\.\d+)?$/.test(normalised);
}
