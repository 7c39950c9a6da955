// What a trace itself answers: its text behind the thought.
import type { OutputRow } from '../scored.js';

/** Empty where the trace has no answer segment, or the file no text of it. @param characters of the completion */
export function ownAnswer({ segments }: Pick<OutputRow, 'segments'>, characters: readonly string[]): string {
  const answer = segments.find(({ kind }) => kind === 'answer');
  if (answer === undefined || answer.charStart === null || answer.charEnd === null) return '';
  const text = characters.slice(answer.charStart, answer.charEnd).join('');
  // behind the tag that closes the thought, whichever the policy writes
  return text.replace(/^<[/|][^>]*>/, '').trim();
}
