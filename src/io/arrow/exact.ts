// What a chat template is given of a row, as Python reads it: 1.0 is no whole number, and keys that are digits stay in their places.

/** JSON with a Map for an object, a bigint for a whole number and a number for a float. */
export type Exact = null | boolean | bigint | number | string | Exact[] | ExactObject;
export type ExactObject = Map<string, Exact>;

const exact = new WeakMap<object, () => ExactObject>();
const floats = new WeakMap<object, readonly string[]>();

/** Says that an object stands for another. */
export const standsFor = (value: object, other: () => ExactObject) => exact.set(value, other);

/** Says which fields of an object are floats. */
export const hasFloats = (value: object, names: readonly string[]) => floats.set(value, names);

export function exactly(value: unknown, isFloat = false): Exact {
  if (typeof value === 'number') return Number.isInteger(value) && !isFloat ? BigInt(value) : value;
  if (typeof value !== 'object' || value === null) return (value ?? null) as Exact;
  if (Array.isArray(value)) return value.map((item) => exactly(item, isFloat));
  const own = floats.get(value);
  const fields = () =>
    Object.entries(value).map(([key, item]) => [key, exactly(item, own?.includes(key))] as const);
  return exact.get(value)?.() ?? new Map(fields());
}

const LOSES = /[:[,]\s*-?\d+(?:\.0*(?!\d)|[.\d]*[eE])|"\d+"\s*:/;
const WORD = /\s*(["{}[\],:]|[^\s{}[\],:"]+)/y;

/** Where the text ends that begins before a place. No pattern: they take the stack for 30 MB of text. */
function endOfText(text: string, from: number): number {
  for (let at = from; ; at++) {
    at = text.indexOf('"', at);
    let slashes = 0;
    while (text[at - 1 - slashes] === '\\') slashes++;
    if (slashes % 2 === 0) return at + 1;
  }
}

/** Notes what a row's JSON text says of the objects in it. @param row what was parsed of the text */
export function noteExact(text: string, row: object): void {
  if (exact.has(row) || !LOSES.test(text)) return;
  const words = new RegExp(WORD); // with a place of its own
  const next = () => {
    const word = words.exec(text)?.[1] as string;
    if (word !== '"') return word;
    const from = words.lastIndex;
    words.lastIndex = endOfText(text, from);
    return text.slice(from - 1, words.lastIndex);
  };
  const read = (word: string, beside: unknown): Exact => {
    if (word === '[') {
      const list: Exact[] = [];
      for (let item = next(); item !== ']'; item = next())
        list.push(read(item === ',' ? next() : item, Object(beside)[list.length]));
      return list;
    }
    if (word !== '{') {
      if (/^-?\d+$/.test(word)) return BigInt(word);
      return /^["tfn]/.test(word) ? (JSON.parse(word) as Exact) : Number(word);
    }
    const fields: ExactObject = new Map();
    for (let key = next(); key !== '}'; key = next()) {
      const name = JSON.parse(key === ',' ? next() : key) as string;
      next(); // the colon
      fields.set(name, read(next(), Object(beside)[name]));
    }
    if (typeof beside === 'object' && beside !== null) exact.set(beside, () => fields);
    return fields;
  };
  read(next(), row);
}
