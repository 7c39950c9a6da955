// Judges a completion that was sampled by the row's references.
import { type AnswerMarks, compareAnswer, ownAnswer, type Reward } from '../../estimate/reward.js';
import type { Reference } from '../../trace.js';

/** By the documented comparison (docs/answers.md), or letter by letter. */
export const JUDGES = ['compare', 'exact'] as const;
export type Judge = (typeof JUDGES)[number];

/**
 * ζ of a sampled text. `exact` takes an answer for right where it is a reference, spaces around it left out, and everything
 * else for wrong; `compare` leaves open what it cannot tell.
 * @param text of the completion, whole
 * @param prompt as {@link compareAnswer} takes it
 */
export function judged(
  text: string,
  references: readonly Reference[],
  marks: AnswerMarks,
  judge: Judge,
  prompt = '',
): Reward {
  if (judge === 'compare') return compareAnswer(text, references, marks, prompt);
  const own = ownAnswer(text, marks);
  const equal = references.filter(({ answer }) => answer.trim() === own);
  return { reward: Math.max(0, ...equal.map(({ utility }) => utility)), status: ['reward:compared'] };
}
