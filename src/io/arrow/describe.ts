// Values and key lists in the few words that an error message has room for.

const MAX_KEYS = 12;
const MAX_TEXT = 40;

/** Names a value's kind and, where short, the value: `the text "abc"`, `a list of 3`, `null`. */
export function describeValue(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (typeof value === 'string') return value === '' ? 'an empty text' : `the text ${shorten(value)}`;
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : `a list of ${value.length}`;
  if (typeof value === 'object') return `an object with ${describeKeys(value)}`;
  return `${typeof value === 'boolean' ? '' : 'the number '}${String(value)}`;
}

/** Names an object's keys: `keys question, answer, … (30 in all)`. */
export function describeKeys(value: object): string {
  const keys = Object.keys(value);
  if (keys.length === 0) return 'no keys';
  const shown = keys
    .slice(0, MAX_KEYS)
    .map((key) => (key.length > MAX_TEXT ? `${key.slice(0, MAX_TEXT)}…` : key));
  return `keys ${shown.join(', ')}${keys.length > MAX_KEYS ? `, … (${keys.length} in all)` : ''}`;
}

function shorten(text: string): string {
  return JSON.stringify(text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text);
}
