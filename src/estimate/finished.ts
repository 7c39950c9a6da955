// The end token that a dump of texts has lost: which traces get it back, and which one it is.
import { CORRECT } from '../credit/nature.js';
import type { OpenPolicy } from '../model/onnx/open-model.js';
import { endOfText } from '../model/text/stops.js';
import { closeOf, tagsOf } from '../segment/span.js';
import type { Trace } from '../trace.js';
import { type AnswerMarks, ownAnswer, untilEndToken } from './answer-text.js';

/** `auto`: what was finished gets it; `add`: all do; `none`: no completion does. */
export const END_TOKEN = ['auto', 'add', 'none'] as const;
export type EndToken = (typeof END_TOKEN)[number];

/** Who marks answers, and what is done about end tokens. */
export interface Ending {
  readonly marks: AnswerMarks;
  readonly endToken: EndToken;
}

/**
 * @returns what finds the token that ends a trace without ids; null where turns were cut and their template has closed them;
 * undefined where it stays as it is. It is asked of the row's trace and of the prompt as the policy reads it.
 */
export function endings({ policy, tokenizer, prompts }: OpenPolicy, { marks, endToken }: Ending) {
  const { vocab } = policy.architecture;
  const stops = policy.decoding?.stops ?? [];
  let ofText: Promise<number | undefined> | undefined;
  return async (
    trace: Trace,
    prompt: Trace['prompt'],
    reward: number | null,
  ): Promise<number | null | undefined> => {
    if (trace.completionIds !== undefined) return undefined;
    const isOfTurns = trace.turns !== undefined;
    const isFinished =
      endToken === 'auto' ? (finished(trace, reward, marks) ?? isOfTurns) : endToken === 'add';
    if (!isFinished) return isOfTurns ? null : undefined;
    const ofTurn = await prompts.turnEnd(prompt);
    if (ofTurn !== undefined && (stops.length === 0 || stops.includes(ofTurn))) return ofTurn;
    ofText ??= endOfText(policy.path, tokenizer, vocab);
    return (await ofText) ?? stops[0];
  };
}

/** Whether a completion was finished, as far as its row, its reward or its own answer says so; undefined where nothing does. */
export function finished(trace: Trace, reward: number | null, marks: AnswerMarks): boolean | undefined {
  const marked = markOf(trace.source.columns, trace.item ?? 0);
  if (marked !== undefined) return marked;
  if (reward !== null && reward > CORRECT) return true;
  return trace.turns === undefined && closes(trace.completion, marks) ? true : undefined;
}

// ------ the row's own mark

/** What says it, beside the completion or in what stands around it. */
const MARK = /^(?:(?:finish|stop)_reasons?|status|(?:is_)?(?:finished|completed?|truncated|clipped))$/;
const AROUND =
  /^(?:completions?|responses?|outputs?|choices|generations?|samples?|(?:meta|extra)_info|metadata)$/;
const FINISHED = /^(?:stop|eos|end_turn|stop_sequence|tool_calls?|completed?|finished|done|true|1)$/;
const CUT = /^(?:length|max_\w+|truncated.*|incomplete|abort(?:ed)?|false|0)$/;

function markOf(columns: unknown, item: number): boolean | undefined {
  if (typeof columns !== 'object' || columns === null) return undefined;
  if (Array.isArray(columns)) return markOf(columns[columns.length === 1 ? 0 : item], item);
  const said = Object.keys(columns).flatMap((name) => {
    const value = () => (columns as Record<string, unknown>)[name];
    const isTurned = /truncated|clipped/.test(name);
    if (MARK.test(name)) return [isTurned ? not(saidBy(value(), item)) : saidBy(value(), item)];
    return AROUND.test(name) ? [markOf(value(), item)] : [];
  });
  return said.includes(false) ? false : said.includes(true) || undefined;
}

function saidBy(value: unknown, item: number): boolean | undefined {
  if (Array.isArray(value)) return saidBy(value[value.length === 1 ? 0 : item], item);
  // SGLang's {"type": "length", "length": 512}, and enumerations as Python prints them
  const { type = value } = (typeof value === 'object' && value !== null ? value : {}) as { type?: unknown };
  const word = String(type)
    .toLowerCase()
    .replace(/^\w+\./, '');
  return FINISHED.test(word) ? true : CUT.test(word) ? false : undefined;
}

function not(said: boolean | undefined): boolean | undefined {
  return said === undefined ? undefined : !said;
}

// ------ an answer that closes

/** What may stand behind an answer that ends a text: what closes boxes, formulas, emphasis and sentences. */
const CLOSED = /^(?:[\s$*_`.!)\]}]|\\[)\]]|\. I hope it is correct)*$/;
const SENTENCE_END = /[.!?…。！？)\]}>$*`"'”]$|^\S+$/;

/** Whether a text ends with its answer: a box or tag that closes there, or a closed thought with an answer behind it. */
function closes(text: string, marks: AnswerMarks): boolean {
  const whole = text.trimEnd();
  const answer = ownAnswer(whole, marks);
  // what shows an end token, if another policy's, has lost none
  if (!answer || untilEndToken(whole) !== whole) return false;
  const close = closeOf(whole, tagsOf(whole, marks.thoughtTags))?.[1];
  const tail = whole.slice(close ?? 0);
  if (tail.includes('<answer>')) return whole.endsWith('</answer>');
  if (close !== undefined) return answer !== tail.trim() || SENTENCE_END.test(answer);
  return CLOSED.test(tail.slice(tail.lastIndexOf(answer) + answer.length));
}
