// JSON text to values and back without loss, where plain JSON loses: NaN, integers beyond 2^53, float32.

import { randomUUID } from 'node:crypto';

/** Deeper values than this are rejected: nothing that scores text nests so far, and recursion stays safe. */
const MAX_LEVELS = 256;

/**
 * Parses JSON as Python's `json` writes it: `NaN`, `Infinity` and `-Infinity` are numbers, and an integer
 * that a double cannot hold becomes a BigInt. Everything else is plain `JSON.parse`.
 * @throws SyntaxError that says where the text stops being JSON
 */
export function parseJson(text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    if (!text.includes('NaN') && !text.includes('Infinity')) throw error;
    return parseMarked(text);
  }
  // an integer that lost digits is as large as this at least; so is many a double, which only costs time
  return holdsLarge(value, MAX_LEVELS + 1) ? parseMarked(text) : value;
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

/** The numbers that `JSON.parse` does not take, or rounds; and what tells where a text begins and ends. */
const LOSSY = /\\.|"|(?<![\w.+-])(?:NaN|-?Infinity|-?[1-9]\d{15,})(?![\w.])/gs;
/** Begins the text that such a number is parsed as: no text of an input begins so. */
const MARK = `number ${randomUUID()} `;

function replaceLossy(text: string, by: (number: string) => string): string {
  let isInside = false;
  return text.replaceAll(LOSSY, (found) => {
    if (found === '"') isInside = !isInside;
    return isInside || found === '"' || found.startsWith('\\') ? found : by(found);
  });
}

// V8's parser offers no hook on the text of a number before Node 21
function parseMarked(text: string): unknown {
  try {
    return unmarked(JSON.parse(replaceLossy(text, (number) => `"${MARK}${number}"`)), MAX_LEVELS + 1);
  } catch (error) {
    // the same text with other numbers: its error tells the right place
    JSON.parse(replaceLossy(text, (number) => '0'.padEnd(number.length)));
    throw error;
  }
}

/** The value with numbers in the place of marks. @throws SyntaxError where it is nested too deep, or a key is such a number */
function unmarked(value: unknown, levels: number): unknown {
  if (typeof value === 'string' && value.startsWith(MARK)) {
    const number = value.slice(MARK.length);
    const isDouble = !/\d/.test(number) || Number.isSafeInteger(Number(number));
    return isDouble ? Number(number) : BigInt(number);
  }
  if (typeof value !== 'object' || value === null) return value;
  if (levels === 1) throw new SyntaxError(`nested deeper than ${MAX_LEVELS} levels`);
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++)
      if (typeof value[i] !== 'number') value[i] = unmarked(value[i], levels - 1);
    return value;
  }
  const fields = value as Record<string, unknown>;
  for (const key of Object.keys(fields)) {
    if (key.startsWith(MARK)) throw new SyntaxError(`${key.slice(MARK.length)} is no key`);
    put(fields, key, unmarked(fields[key], levels - 1));
  }
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
