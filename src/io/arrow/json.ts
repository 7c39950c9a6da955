// JSON text to values and back without loss, where plain JSON loses: NaN, integers beyond 2^53, float32; and values in the few
// words that an error message has room for.

/** Deeper values than this are turned down: nothing that scores text nests so far, and recursion stays safe. */
const MAX_LEVELS = 256;

const NUMBER = /NaN|-?Infinity|-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;

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
    return parseLossless(text);
  }
  // an integer that lost digits is as large as this at least; so is many a double, which only costs time
  return holdsLarge(value, MAX_LEVELS + 1) ? parseLossless(text) : value;
}

/** Whether a number of 2^53 or more is in a value. @throws SyntaxError where it is nested too deep */
function holdsLarge(value: unknown, levels: number): boolean {
  if (typeof value === 'number') return value > Number.MAX_SAFE_INTEGER || value < -Number.MAX_SAFE_INTEGER;
  if (typeof value !== 'object' || value === null) return false;
  if (levels === 1) throw new SyntaxError(`nested deeper than ${MAX_LEVELS} levels`);
  let found = false;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      const item: unknown = value[i];
      if (typeof item === 'number') {
        if (item > Number.MAX_SAFE_INTEGER || item < -Number.MAX_SAFE_INTEGER) found = true;
      } else if (typeof item === 'object' && holdsLarge(item, levels - 1)) found = true;
    }
    return found;
  }
  for (const key in value) if (holdsLarge((value as Record<string, unknown>)[key], levels - 1)) found = true;
  return found;
}

/** Sets an object's own key. */
export function put(fields: Record<string, unknown>, key: string, value: unknown): void {
  // a plain assignment of `__proto__` would set the prototype
  if (key === '__proto__')
    Object.defineProperty(fields, key, { value, enumerable: true, configurable: true, writable: true });
  else fields[key] = value;
}

/** Whether an odd number of backslashes stands before a place. */
function isEscaped(text: string, at: number): boolean {
  let backslashes = 0;
  while (text[at - 1 - backslashes] === '\\') backslashes++;
  return backslashes % 2 === 1;
}

// a plain recursive descent: V8's parser offers no hook on number texts before Node 21
function parseLossless(text: string): unknown {
  let at = 0;

  function fail(): never {
    const found = at < text.length ? JSON.stringify(text[at]) : 'the end of the text';
    throw new SyntaxError(`unexpected ${found} at position ${at}`);
  }
  function space(): void {
    while (text[at] === ' ' || text[at] === '\n' || text[at] === '\r' || text[at] === '\t') at++;
  }
  function string(): string {
    const start = at++;
    for (;;) {
      const quote = text.indexOf('"', at);
      if (quote < 0) {
        at = text.length;
        fail();
      }
      at = quote + 1;
      // the native parser decodes the escapes and refuses control characters
      if (!isEscaped(text, quote)) return JSON.parse(text.slice(start, at)) as string;
    }
  }
  function word<T>(name: string, value: T): T {
    if (!text.startsWith(name, at)) fail();
    at += name.length;
    return value;
  }
  function number(): number | bigint {
    NUMBER.lastIndex = at;
    const match = NUMBER.exec(text);
    if (match === null) return fail();
    at += match[0].length;
    const value = Number(match[0]);
    const isInteger = match[1] === undefined && match[2] === undefined && !/[Ny]$/.test(match[0]);
    return isInteger && !Number.isSafeInteger(value) ? BigInt(match[0]) : value;
  }
  function list(levels: number): unknown[] {
    const items: unknown[] = [];
    at++;
    space();
    if (text[at] === ']') return word(']', items);
    for (;;) {
      items.push(any(levels));
      if (text[at] === ']') return word(']', items);
      word(',', null);
    }
  }
  function object(levels: number): Record<string, unknown> {
    const fields: Record<string, unknown> = {};
    at++;
    space();
    if (text[at] === '}') return word('}', fields);
    for (;;) {
      space();
      if (text[at] !== '"') fail();
      const key = string();
      space();
      word(':', null);
      put(fields, key, any(levels));
      if (text[at] === '}') return word('}', fields);
      word(',', null);
    }
  }
  function any(levels: number): unknown {
    space();
    const value = one(levels);
    space();
    return value;
  }
  function one(levels: number): unknown {
    if (levels === 0) throw new SyntaxError(`nested deeper than ${MAX_LEVELS} levels`);
    switch (text[at]) {
      case '{':
        return object(levels - 1);
      case '[':
        return list(levels - 1);
      case '"':
        return string();
      case 't':
        return word('true', true);
      case 'f':
        return word('false', false);
      case 'n':
        return word('null', null);
      default:
        return number();
    }
  }

  const value = any(MAX_LEVELS + 1);
  if (at < text.length) fail();
  return value;
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
