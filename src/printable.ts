// Texts as a terminal, a shell and a Markdown page may have them: nothing in them moves the cursor, colours, turns or runs; and values
// in the few words that an error message has room for.

/** Control and format characters: C0, DEL and C1, what turns the direction of text, what nobody sees; and line separators. */
const UNPRINTABLE = /[\p{Cc}\p{Cf}\u2028\u2029]/gu;

/** Newlines as ⏎, other control and format characters as \u{…}. */
export function escapeControls(text: string): string {
  return text.replaceAll('\n', '⏎').replaceAll(UNPRINTABLE, (c) => `\\u{${codeOf(c)}}`);
}

/** The same for a text of several lines, which stay. */
export function escapeLines(text: string): string {
  return text.split('\n').map(escapeControls).join('\n');
}

/** JSON that says the same without such characters; they stand in its strings alone, and are spelt \u009b there. */
export function printableJson(json: string): string {
  return json.replaceAll(/[\u007f-\u009f\p{Cf}\u2028\u2029]/gu, (character) =>
    // half by half, where JSON needs two for one
    character.replaceAll(/./gs, (half) => `\\u${codeOf(half).padStart(4, '0')}`),
  );
}

/** A name as one word of a command that bash reads, e.g. `'two words.jsonl'`. */
export function shellWord(name: string): string {
  const word = name.startsWith('-') ? `./${name}` : name;
  if (/^[\w@%+=:,./-]+$/.test(word)) return word;
  if (word.search(UNPRINTABLE) < 0) return `'${word.replaceAll("'", "'\\''")}'`;
  // what cannot be shown is spelt
  const spelt = word
    .replaceAll(/[\\']/g, '\\$&')
    .replaceAll(UNPRINTABLE, (c) => `\\U${codeOf(c).padStart(8, '0')}`);
  return `$'${spelt}'`;
}

/** A name as code in a Markdown page. */
export function markdownCode(name: string): string {
  const text = escapeControls(name);
  const longest = Math.max(0, ...Array.from(text.matchAll(/`+/g), ([run]) => run.length));
  const fence = '`'.repeat(longest + 1);
  // a backtick or a space at an end belongs to the text
  const space = /^[` ]|[` ]$/.test(text) || text === '' ? ' ' : '';
  return `${fence}${space}${text}${space}${fence}`;
}

function codeOf(character: string): string {
  return (character.codePointAt(0) as number).toString(16);
}

const MAX_KEYS = 12;
const MAX_TEXT = 40;

/** Names a value's kind and, where short, the value: `the text "abc"`, `a list of 3`, `null`. */
export function describeValue(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (typeof value === 'string')
    return value === '' ? 'an empty text' : `the text ${JSON.stringify(shorten(value))}`;
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : `a list of ${value.length}`;
  if (typeof value === 'object') return `an object with ${describeKeys(value)}`;
  return `${typeof value === 'boolean' ? '' : 'the number '}${String(value)}`;
}

/** Names an object's keys: `keys question, answer, … (30 in all)`. */
export function describeKeys(value: object): string {
  const keys = Object.keys(value);
  if (keys.length === 0) return 'no keys';
  const shown = keys.slice(0, MAX_KEYS).map(shorten);
  return `keys ${shown.join(', ')}${keys.length > MAX_KEYS ? `, … (${keys.length} in all)` : ''}`;
}

function shorten(text: string): string {
  return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text;
}
