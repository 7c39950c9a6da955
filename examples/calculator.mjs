// An environment: rredcot sample prompts.jsonl --environment ./calculator.mjs (docs/sampling.md)
// It gives the result, modulo 10, of a call that ends a turn of the policy's, such as "b: 7*2"; a turn without one is the last.

const RESULT = { '+': (x, y) => x + y, '-': (x, y) => x - y, '*': (x, y) => x * y };

/** @param asked messages so far, the last one the policy's; the input's row; a seed, for what is left to chance */
export default function calculator({ messages }) {
  const [, x, operator, y] = /: (\d)([-+*])(\d)$/.exec(messages.at(-1).content) ?? [];
  if (operator === undefined) return null;
  const result = (RESULT[operator](Number(x), Number(y)) + 10) % 10;
  return { messages: [{ role: 'tool', content: `= ${result}` }] };
}
