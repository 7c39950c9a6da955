// An environment: rredcot sample prompts.jsonl --environment ./calculator.mjs (docs/sampling.md)
// Answers a call at the end of the policy's turn, such as "b: 7*2", with its result modulo 10. A turn without a call ends the episode.

const RESULT = { '+': (x, y) => x + y, '-': (x, y) => x - y, '*': (x, y) => x * y };

/** @param asked the messages so far, which end with the policy's turn; the input row; a seed */
export default function calculator({ messages }) {
  const [, x, operator, y] = /: (\d)([-+*])(\d)$/.exec(messages.at(-1).content) ?? [];
  if (operator === undefined) return null;
  const result = (RESULT[operator](Number(x), Number(y)) + 10) % 10;
  return { messages: [{ role: 'tool', content: `= ${result}` }] };
}
