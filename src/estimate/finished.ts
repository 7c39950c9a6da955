// The end token that a dump of texts has lost: which traces get it back, and which one it is.
import { CORRECT } from '../credit/nature.js';
import type { OpenPolicy } from '../model/onnx/open-model.js';
import { endOfText } from '../model/text/edge-tokens.js';
import { closeOf, tagsOf } from '../segment/span.js';
import type { Trace } from '../trace.js';
import { type AnswerMarks, ownAnswer, untilEndToken } from './answer-text.js';

/** `auto`: what was finished gets it; `add`: all do; `none`: no completion does. */
export const END_TOKEN = ['auto', 'add', 'none'] as const;
export type EndToken = (typeof END_TOKEN)[number];

/**
 * @returns what finds the token that ends a trace of text, by its row and the prompt that the policy reads; null where turns were cut
 * and their template has closed them; undefined where the trace stays as it is
 */
export function endings({ policy, tokenizer, prompts }: OpenPolicy, marks: AnswerMarks, asked: EndToken) {
  const stops = policy.stops;
  let ofText: Promise<number | undefined> | undefined;
  return async (trace: Trace, prompt: Trace['prompt'], reward: number | null) => {
    if (trace.completionIds !== undefined) return undefined;
    const isOfTurns = trace.turns !== undefined;
    const isFinished = asked === 'auto' ? (finished(trace, reward, marks) ?? isOfTurns) : asked === 'add';
    if (!isFinished) return isOfTurns ? null : undefined;
    const ofTurn = await prompts.turnEnd(prompt);
    if (ofTurn !== undefined && (stops.length === 0 || stops.includes(ofTurn))) return ofTurn;
    ofText ??= endOfText(policy.path, tokenizer, policy.architecture.vocab);
    return (await ofText) ?? stops[0];
  };
}

/** Whether a completion was finished, as far as its row, its reward or its own answer says so; undefined where nothing does. */
export function finished(trace: Trace, reward: number | null, marks: AnswerMarks): boolean | undefined {
  const whole = trace.completion.trimEnd();
  // what shows an end token, if another policy's, has lost none
  if (untilEndToken(whole) !== whole) return undefined;
  const marked = saidBy(trace.source.columns, trace.item ?? 0);
  if (marked !== undefined) return marked;
  // a compared answer says nothing of what stands behind it
  const isRight = trace.reward !== null && reward !== null && reward > CORRECT;
  if (isRight || trace.turns === undefined) return isRight || closes(whole, marks) || undefined;
  // a last turn that has not left its thought was cut
  const last = trace.turns.at(-1)?.content ?? '';
  const tags = tagsOf(last, marks.thoughtTags);
  return tags !== undefined && closeOf(last, tags) === undefined ? false : undefined;
}

/** What says it in a row, beside the completion or in what stands around it. */
const MARK = /^(?:(?:finish|stop)_reasons?|status|(?:is_)?(?:finished|completed?|truncated|clipped))$/;
const AROUND =
  /^(?:completions?|responses?|outputs?|choices|generations?|samples?|(?:meta|extra)_info|metadata)$/;
const FINISHED = /^(?:stop|eos|end_turn|stop_sequence|tool_calls?|completed?|finished|done|true|1)$/i;
const CUT = /^(?:length|max_\w+|truncated.*|incomplete|abort(?:ed)?|false|0)$/i;

export function saidBy(value: unknown, item: number, name = ''): boolean | undefined {
  if (Array.isArray(value)) return saidBy(value[value.length === 1 ? 0 : item], item, name);
  if (typeof value === 'object' && value !== null) {
    const said = Object.keys(value).flatMap((key) => {
      const named = key === 'type' ? name : key; // SGLang: {"type": "length", "length": 512}
      return MARK.test(named) || AROUND.test(named) ? [saidBy(value[key as never], item, named)] : [];
    });
    return said.includes(false) ? false : said.includes(true) || undefined;
  }
  if (!MARK.test(name)) return undefined;
  const word = String(value).replace(/^\w+\./, ''); // FinishReason.LENGTH
  const saysCut = /truncated|clipped/.test(name);
  return FINISHED.test(word) ? !saysCut : CUT.test(word) ? saysCut : undefined;
}

/** What may stand behind an answer that ends a text: what closes boxes, formulas, emphasis and sentences. */
const CLOSED = /^(?:[\s$*_`.!)\]}]|\\[)\]]|\. I hope it is correct)*$/;
const SENTENCE_END = /[.!?…。！？)\]}>$*`"'”]$|^\S+$/;

/** Whether a text ends with its answer: a box or tag that closes there, or a closed thought with an answer behind it. */
function closes(whole: string, marks: AnswerMarks): boolean {
  const answer = ownAnswer(whole, marks);
  if (!answer) return false;
  const close = closeOf(whole, tagsOf(whole, marks.thoughtTags))?.[1];
  const tail = whole.slice(close ?? 0);
  if (tail.includes('<answer>')) return whole.endsWith('</answer>');
  if (close !== undefined) return answer !== tail.trim() || SENTENCE_END.test(answer);
  return CLOSED.test(tail.slice(tail.lastIndexOf(answer) + answer.length));
}
