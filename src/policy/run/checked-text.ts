// The text that `policy check` reads where none is given, and that a folder's canary is made of.
import type { ExitTemplate } from '../text/exit-template.js';
import type { OpenTokenizer } from '../text/open-tokenizer.js';

export const CHECKED_TEXT = `Let me work through this. A train leaves at 9:40 and travels 126 km at 84 km/h, so it needs 126 / 84 = 1.5 hours.

Wait, the question asks for the arrival time: 9:40 plus 1 h 30 min is 11:10. Let me check: 84 × 1.5 = 126. ✓

\`\`\`python
def arrival(minutes, distance, speed):
    return minutes + 60 * distance / speed
\`\`\`

Hence the train arrives at 11:10, naïve rounding or not.
`;

/** A text's ids, and another continuation than the text's. */
export interface CheckedIds {
  readonly ids: Int32Array;
  readonly other: Int32Array;
}

/** @param text of which the ids are, as a prompt's */
export async function checkedIds(
  tokenizer: Pick<OpenTokenizer, 'encode' | 'encodePrompt'>,
  { close, open, closer }: ExitTemplate,
  text = CHECKED_TEXT,
): Promise<CheckedIds> {
  const ids = await tokenizer.encodePrompt(text);
  const other = Int32Array.of(
    ...(await tokenizer.encode(close)),
    ...(await tokenizer.encode(open)),
    ...(await tokenizer.encode(closer)),
    ...ids.subarray(0, 2), // two tokens at least, whatever the template
  );
  return { ids, other };
}
