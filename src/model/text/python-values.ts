// Values as Python has them, for chat templates: None is null, a whole number a bigint, a float a number, a list an array, a dict a Map, and what is
// undefined a symbol that says why.

type Scalar = null | boolean | bigint | number | string;
export type Datum = Scalar | symbol | Datum[] | Dict | Callable | Facade | Safe;
export type Dict = Map<Datum, Datum>;
export type Callable = (args: readonly Datum[], named: ReadonlyMap<string, Datum>) => Datum;

export class Tuple extends Array<Datum> {}
/** A range, or keys of a dict and the like: no list. */
export class View extends Array<Datum> {}
/** What filters hand on item by item: read once, and always true. */
export class Lazy extends View {
  isRead = false;
}
/** A loop or a namespace, which has attributes alone. */
export class Facade {
  constructor(
    readonly fields: Record<string, Datum>,
    readonly isNamespace = false,
  ) {}
}
/** Text behind `safe`, which can be written and nothing else. */
export class Safe {
  constructor(readonly text: string) {}
}

export function fail(message: string): never {
  throw new TypeError(message);
}

/** @throws TypeError for what is undefined */
export function defined(value: Datum): Datum {
  return typeof value === 'symbol' ? fail(value.description as string) : value;
}

export const isList = (value: Datum): value is Datum[] => Array.isArray(value) && !(value instanceof View);

export function isTrue(value: Datum): boolean {
  if (value instanceof Lazy) return true;
  if (value instanceof Map || Array.isArray(value)) return length(value) > 0;
  return value instanceof Safe ? value.text !== '' : typeof value !== 'symbol' && Boolean(value);
}

/** What a loop goes through; a text's code points. */
export function items(value: Datum): Datum[] {
  if (value instanceof Lazy) {
    if (value.isRead) fail('a generator that is read twice is not supported'); // in Python it is empty then
    value.isRead = true;
  }
  if (Array.isArray(value)) return value;
  if (value instanceof Map) return [...value.keys()];
  return typeof value === 'symbol' ? [] : Array.from(text(value));
}

export function length(value: Datum): number {
  return value instanceof Lazy ? fail('a generator has no length') : items(value).length;
}

/** @throws TypeError for anything but a text */
export function text(value: Datum): string {
  return typeof value === 'string' ? value : fail(`${repr(value)} is no text`);
}

// ------ as text

export function str(value: Datum): string {
  if (typeof value === 'string') return value;
  return value instanceof Safe ? value.text : typeof value === 'symbol' ? '' : repr(value);
}

export function repr(value: Datum): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (typeof value === 'number') return floatText(value);
  if (typeof value === 'string') return quoted(value);
  if (value instanceof Map) return `{${Array.from(value, (pair) => pair.map(repr).join(': ')).join(', ')}}`;
  if (value instanceof Tuple) return `(${value.map(repr).join(', ')}${value.length === 1 ? ',' : ''})`;
  if (isList(value)) return `[${value.map(repr).join(', ')}]`;
  if (typeof value === 'bigint') return String(value);
  return typeof value === 'symbol'
    ? 'Undefined'
    : fail('a function, a generator or a view cannot be written');
}

/** `1.0`, `1e-07` */
function floatText(x: number): string {
  if (!Number.isFinite(x)) return Number.isNaN(x) ? 'nan' : x < 0 ? '-inf' : 'inf';
  const [digits, power] = x.toExponential().split('e') as [string, string];
  if (+power < -4 || +power > 15) return `${digits}e${power.replace(/\b\d$/, '0$&')}`;
  return `${Object.is(x, -0) ? '-0' : x}${Number.isInteger(x) ? '.0' : ''}`;
}

function quoted(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const written = text.replaceAll(/[\\'"]|(?! )[\p{C}\p{Z}]/gu, (char) => {
    if (/[\\'"]/.test(char)) return char === '\\' || char === quote ? `\\${char}` : char;
    if (/[\n\r\t]/.test(char)) return JSON.stringify(char).slice(1, -1);
    const hex = (char.codePointAt(0) as number).toString(16);
    if (hex.length < 3) return `\\x${hex.padStart(2, '0')}`;
    return hex.length < 5 ? `\\u${hex.padStart(4, '0')}` : `\\U${hex.padStart(8, '0')}`;
  });
  return quote + written + quote;
}

/** As `json.dumps` writes it. */
export function jsonText(value: Datum, indent?: string, margin = '\n'): string {
  if (typeof value === 'number') return Number.isFinite(value) ? floatText(value) : String(value);
  if (typeof value === 'bigint') return String(value);
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return JSON.stringify(value);
  const [inner, comma] = indent === undefined ? ['', ', '] : [margin + indent, ','];
  const json = (item: Datum) => jsonText(item, indent, inner);
  const key = (item: Datum) => (typeof item === 'string' ? json(item) : `"${json(item)}"`);
  const isDict = value instanceof Map;
  if (!isDict && !isList(value)) return fail(`${repr(value)} cannot be written as JSON`);
  const parts = isDict
    ? Array.from(value, ([name, item]) => `${key(name)}: ${json(item)}`)
    : Array.from(value, json);
  const body = parts.length === 0 ? '' : inner + parts.join(comma + inner) + (inner && margin);
  return isDict ? `{${body}}` : `[${body}]`;
}

// ------ comparison and arithmetic

/** True and false are numbers too; undefined for anything else. */
export function numeric(value: Datum): bigint | number | undefined {
  if (typeof value === 'boolean') return BigInt(value);
  return typeof value === 'bigint' || typeof value === 'number' ? value : undefined;
}

export function equal(a: Datum | undefined, b: Datum | undefined): boolean {
  if (a === undefined || b === undefined) return false;
  const [x, y] = [numeric(a), numeric(b)];
  if (x !== undefined && y !== undefined) return x <= y && x >= y;
  if (typeof a === 'symbol') return typeof b === 'symbol';
  if (a instanceof Map && b instanceof Map)
    return a.size === b.size && [...a].every(([key, item]) => equal(item, b.get(key)));
  for (const each of [a, b])
    if (each instanceof View || each instanceof Safe) fail('such a comparison is not supported');
  if (!isList(a) || !isList(b)) return a === b;
  return a.constructor === b.constructor && a.length === b.length && a.every((item, n) => equal(item, b[n]));
}

/** Below, at or above 0. @throws TypeError for other values than two numbers or two texts */
export function order(a: Datum, b: Datum): number {
  const [x, y] = [numeric(a), numeric(b)];
  if (x !== undefined && y !== undefined) return x < y ? -1 : x > y ? 1 : 0;
  return Buffer.compare(Buffer.from(text(a)), Buffer.from(text(b))); // UTF-8 has the order of code points
}

/** `item in list` */
export function isIn(item: Datum, list: Datum): boolean {
  if (typeof list === 'string') return list.includes(text(item));
  if (list instanceof Map) return list.has(keyOf(item));
  return items(list).some((each) => equal(each, item));
}

export function keyOf(key: Datum): Datum {
  const isKey = key === null || typeof key === 'string' || typeof key === 'bigint';
  return isKey ? key : fail(`${repr(key)} as a key is not supported`);
}

export function arithmetic(sign: string, a: Datum, b: Datum): Datum {
  const [x, y] = [numeric(defined(a)), numeric(defined(b))];
  if (typeof x === 'bigint' && typeof y === 'bigint') {
    if (sign === '+') return x + y;
    if (sign === '-') return x - y;
    if (sign === '*') return x * y;
    if (sign === '%') return ((x % y) + y) % y; // of the sign of y
  }
  if (sign === '+' && typeof a === 'string' && typeof b === 'string') return a + b;
  if (sign === '+' && isList(a) && isList(b) && a.constructor === b.constructor) return a.concat(b);
  return fail(`${repr(a)} ${sign} ${repr(b)} is not supported`);
}
