// What a chat template is given of a row, as Python reads it: 1.0 is no whole number, and keys that are digits stay in their places.

/** JSON with a Map for an object, a bigint for a whole number and a number for a float. */
export type Exact = null | boolean | bigint | number | string | Exact[] | ExactObject;
export type ExactObject = Map<string, Exact>;

/** Of objects whose own fields do not tell. */
const exact = new WeakMap<object, () => ExactObject>();
export const standsFor = (value: object, fields: () => ExactObject) => exact.set(value, fields);

/** @param floats names of those that are, be they whole or not */
export const fieldsOf = (value: object, floats: readonly string[] = []): ExactObject =>
  new Map(Object.entries(value).map(([key, item]) => [key, exactly(item, floats.includes(key))]));

export function exactly(value: unknown, isFloat = false): Exact {
  if (typeof value === 'number') return Number.isInteger(value) && !isFloat ? BigInt(value) : value;
  if (typeof value !== 'object' || value === null) return (value ?? null) as Exact;
  if (Array.isArray(value)) return value.map((item) => exactly(item, isFloat));
  return exact.get(value)?.() ?? fieldsOf(value);
}

/** Of a text in which a number is spelled as a float or is large, or a key is a number. */
const TELLS = /[:[,]\s*-?\d+(?:\.0*(?!\d)|[.\d]*[eE])|\d{16}|"\d+"\s*:/;

/** Keeps what a JSON text says of the objects in it. @param value what was parsed of it; it is returned */
export function noteExact<T extends object>(text: string, value: T): T {
  const [words, ends] = [/["{}[\],]|[^\s{}[\],:"]+/g, /["\\]/g];
  const next = (): string => {
    const word = words.exec(text)?.[0] as string;
    if (word !== '"') return word;
    const from = words.lastIndex;
    ends.lastIndex = from;
    while (ends.exec(text)?.[0] === '\\') ends.lastIndex++;
    words.lastIndex = ends.lastIndex;
    return text.slice(from - 1, ends.lastIndex);
  };
  const read = (word: string, beside: unknown): Exact => {
    const [list, fields]: [Exact[], ExactObject] = [[], new Map()];
    if (word === '[')
      for (let item = next(); item !== ']'; item = next())
        list.push(read(item === ',' ? next() : item, Object(beside)[list.length]));
    if (word === '[') return list;
    if (/^-?\d+$/.test(word)) return BigInt(word);
    if (word !== '{') return /^["tfn]/.test(word) ? (JSON.parse(word) as Exact) : Number(word);
    for (let key = next(); key !== '}'; key = next()) {
      const name = JSON.parse(key === ',' ? next() : key) as string;
      fields.set(name, read(next(), Object(beside)[name]));
    }
    if (typeof beside === 'object' && beside !== null) standsFor(beside, () => fields);
    return fields;
  };
  if (exact.has(value) || !TELLS.test(text)) return value;
  read(next(), value);
  standsFor(value, () => fieldsOf(value)); // lists of ids and logprobs are not kept twice
  return value;
}
