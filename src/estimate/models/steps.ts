// Makes of a trace's steps the sequence that a process reward model reads, and finds where its labels stand.
import { TraceRejected } from '../../errors.js';
import { isScore } from '../../policy/build/architecture.js';
import type { PrmFolder } from '../../policy/folder.js';
import type { ReadSteps } from '../../policy/run/placed.js';
import type { Segmentation } from '../../segment/segment.js';
import type { TokenText } from '../../segment/span.js';
import { joinIds } from '../references.js';

/** The thought of a trace as texts. */
export interface Steps {
  /** what stands before the first exit, such as `<think>` */
  readonly lead: string;
  /** (K) */
  readonly steps: readonly string[];
}

/** What of a model decides how steps are read. */
export type ReadsSteps = Pick<PrmFolder, 'architecture' | 'head' | 'stepToken'>;

/** @param isBytes whether the text is bytes as Latin-1, since the ids are no sound text */
export function stepsOf(
  { text, units }: TokenText,
  { exits }: Pick<Segmentation, 'exits'>,
  isBytes: boolean,
): Steps {
  const part = (from: number, to: number): string => {
    const cut = text.slice(units[from], units[to]);
    return isBytes ? Buffer.from(cut, 'latin1').toString('utf8') : cut;
  };
  const ends = Array.from(exits);
  return { lead: part(0, ends[0] ?? 0), steps: ends.slice(1).map((end, k) => part(ends[k] as number, end)) };
}

/**
 * The sequence that a model reads in one pass: prompt, lead, and the steps, each encoded apart. With a step token each step is
 * followed by it, which stands in the place of the step's own white space and stays in sight of the later ones; labels stand
 * there. Without one steps are read as they stand, and labels at their last tokens. A head that gives a score is read in front of
 * the first step, too.
 *
 * @param promptIds at least one
 * @returns (K) rows, (K+1) of a score
 * @throws TraceRejected (`prm_tokens`, `prm_too_long`) for what the model cannot read
 */
export async function stepSequence(
  promptIds: Int32Array,
  { lead, steps }: Steps,
  { architecture: { vocab, maxTokens }, head, stepToken }: ReadsSteps,
  encode: (text: string) => Int32Array | Promise<Int32Array>,
): Promise<ReadSteps> {
  const parts = [promptIds, await encode(lead)];
  let length = promptIds.length + (parts[1] as Int32Array).length;
  const rows = isScore(head) ? [length - 1] : [];
  for (const step of steps) {
    const own = await encode(stepToken === undefined ? step : step.trim());
    parts.push(own);
    length += own.length;
    if (stepToken !== undefined) {
      parts.push(Int32Array.of(stepToken.id));
      length++;
    }
    rows.push(length - 1);
  }
  const ids = joinIds(...parts);
  const beyond = ids.find((id) => id < 0 || id >= vocab);
  if (beyond !== undefined)
    throw new TraceRejected(
      'prm_tokens',
      `the reward model's tokenizer gives the id ${beyond}, its vocabulary has ${vocab} tokens: build its folder from a checkpoint whose files belong together`,
    );
  if (length > maxTokens)
    throw new TraceRejected(
      'prm_too_long',
      `prompt and steps have ${length} tokens, the reward model takes ${maxTokens}: --prm <one with a longer context>`,
    );
  return { ids, rows: Int32Array.from(rows) };
}
