// JSON text to values and back without loss, where plain JSON loses: NaN, integers beyond 2^53, float32; and what Python sees in it besides.

/** Deeper values than this are rejected: nothing that scores text nests so far, and recursion stays safe. */
const MAX_LEVELS = 256;

/**
 * Parses JSON as Python's `json` writes it: `NaN`, `Infinity` and `-Infinity` are numbers, and an integer
 * that a double cannot hold becomes a BigInt. Everything else is plain `JSON.parse`.
 * @throws SyntaxError that says where the text stops being JSON
 */
export function parseJson(text: string): unknown {
  let [value, isPlain]: [unknown, boolean] = [undefined, true];
  try {
    value = JSON.parse(text);
  } catch (error) {
    if (!/NaN|Infinity/.test(text)) throw error;
    // the same text with other numbers: where that is none either, its error tells the right place
    value = JSON.parse(withoutNotFinite(text));
    isPlain = false;
  }
  // an integer that lost digits is as large as this at least; so is many a double, which only costs time
  return holdsLarge(value, MAX_LEVELS + 1) || !isPlain ? plainOf(readExact(text)) : value;
}

const isLarge = (number: number): boolean => Math.abs(number) > Number.MAX_SAFE_INTEGER;

/** Whether a number of 2^53 or more is in a value. @throws SyntaxError where it is nested too deep */
function holdsLarge(value: unknown, levels: number): boolean {
  if (typeof value === 'number') return isLarge(value);
  if (typeof value !== 'object' || value === null) return false;
  if (levels === 1) throw new SyntaxError(`nested deeper than ${MAX_LEVELS} levels`);
  let found = false;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      const item: unknown = value[i];
      if (typeof item === 'number' ? isLarge(item) : typeof item === 'object' && holdsLarge(item, levels - 1))
        found = true;
    }
    return found;
  }
  for (const key in value) if (holdsLarge((value as Record<string, unknown>)[key], levels - 1)) found = true;
  return found;
}

export function put(fields: Record<string, unknown>, key: string, value: unknown): void {
  // a plain assignment of `__proto__` would set the prototype
  if (key === '__proto__')
    Object.defineProperty(fields, key, { value, enumerable: true, configurable: true, writable: true });
  else fields[key] = value;
}

/** The numbers that `JSON.parse` does not take; and what tells where a text begins and ends. */
const NOT_FINITE = /\\.|"|(?<![\w.+-])(?:NaN|-?Infinity)(?![\w.])/gs;

function withoutNotFinite(text: string): string {
  let isInside = false;
  return text.replaceAll(NOT_FINITE, (found) => {
    if (found === '"') isInside = !isInside;
    return isInside || /^["\\]/.test(found) ? found : '0'.padEnd(found.length);
  });
}

export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** As `JSON.parse` has it, but for integers that a double cannot hold. */
function plainOf(value: Exact): unknown {
  if (typeof value === 'bigint') return Number.isSafeInteger(Number(value)) ? Number(value) : value;
  if (Array.isArray(value)) return value.map(plainOf);
  if (!(value instanceof Map)) return value;
  const fields: Record<string, unknown> = {};
  for (const [key, item] of value) put(fields, key, plainOf(item));
  return fields;
}

/** Writes a parsed value as JSON text: BigInt as an integer, NaN and the infinities as null. */
export function stringifyJson(value: unknown): string {
  try {
    return JSON.stringify(value) ?? 'null';
  } catch (error) {
    if (error instanceof TypeError) return stringify(value, () => 'null');
    throw error;
  }
}

/** The same with the numbers that JSON lacks as Python's `json` writes them, which `parseJson` reads. */
export function stringifyLossless(value: unknown): string {
  return stringify(value, String);
}

function stringify(value: unknown, notFinite: (value: number) => string): string {
  if (typeof value === 'bigint') return value.toString();
  if (typeof value === 'number' && !Number.isFinite(value)) return notFinite(value);
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  if (Array.isArray(value)) return `[${value.map((item) => stringify(item, notFinite)).join(',')}]`;
  const fields = Object.entries(value).map(
    ([key, field]) => `${JSON.stringify(key)}:${stringify(field, notFinite)}`,
  );
  return `{${fields.join(',')}}`;
}

const POWERS = Array.from({ length: 23 }, (_, n) => 10 ** n);
const SMALLEST_NORMAL = 2 ** -126;

/** The shortest decimal that reads back as the same float32; `null` where JSON has no number for it. */
export function float32Text(value: number): string {
  if (!Number.isFinite(value)) return 'null';
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
  const exponent = Math.floor(Math.log10(Math.abs(value)));
  const fewest = Math.abs(value) < SMALLEST_NORMAL ? 1 : 6;
  for (let digits = fewest; digits <= 9; digits++) {
    const scale = POWERS[digits - 1 - exponent];
    // up to 10^22 a power of ten is exact, so the quotient is the decimal's own double
    const decimal =
      scale === undefined ? Number(value.toPrecision(digits)) : Math.round(value * scale) / scale;
    if (Math.fround(decimal) === value) return String(decimal);
  }
  return String(Number(value.toPrecision(9)));
}

/** The number that a text spells in plain decimal digits (`0.50`); any other value as it is. */
export function asNumber(value: unknown): unknown {
  return typeof value === 'string' && /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : value;
}

// ------ as Python reads it, which a chat template is given of a row: 1.0 is no whole number, and keys that are digits stay in their places

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
  if (exact.has(value) || !TELLS.test(text)) return value;
  readExact(text, value);
  standsFor(value, () => fieldsOf(value)); // lists of ids and logprobs are not kept twice
  return value;
}

/** What a JSON text says, in which Python's NaN and Infinity may be. @param parsed of it: what is read is kept of its objects */
export function readExact(text: string, parsed?: unknown): Exact {
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
      // not what every object has, such as its constructor
      const own = Object.getOwnPropertyDescriptor(Object(beside), name)?.value;
      fields.set(name, read(next(), own));
    }
    if (typeof beside === 'object' && beside !== null) standsFor(beside, () => fields);
    return fields;
  };
  return read(next(), parsed);
}
