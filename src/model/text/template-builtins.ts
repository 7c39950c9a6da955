// What chat templates may call, as Python's Jinja and transformers have it: methods, filters, tests and functions.
import type { Datum } from './python-values.js';
import * as py from './python-values.js';

/** Takes its operand and what a template gives it, which is checked where it matters. */
// biome-ignore lint/suspicious/noExplicitAny: see above
type Body = (...values: any[]) => Datum;

/** Functions by name, each declared as `name|name parameter …`, the operand not counted. */
function table(declared: Readonly<Record<string, Body>>): Map<string, py.Callable> {
  const calls = Object.entries(declared).flatMap(([signature, body]) => {
    const [names = '', ...parameters] = signature.split(' ');
    const call: py.Callable = ([operand, ...args], named) => {
      const places = [...named.keys()].map((name) => parameters.indexOf(name));
      if (args.length > parameters.length || places.some((at) => at < args.length))
        py.fail(`${names}(${parameters.join(', ')}) gets other arguments`);
      for (const [n, value] of [...named.values()].entries()) args[places[n] as number] = value;
      return body(operand, ...args);
    };
    return names.split('|').map((name) => [name, call] as const);
  });
  return new Map(calls);
}

// ------ methods

const SPACE = '[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]';
// biome-ignore lint/suspicious/noControlCharactersInRegex: they end lines
const LINE_END = /\r\n|[\n-\r\x1c-\x1e\x85\u2028\u2029]/g;

/** @param ends `^` the left one, `$` the right one */
function strip(text: string, set: Datum, ends = '^$'): string {
  const cut = (set ?? null) === null ? SPACE : `[${py.text(set).replaceAll(/[\]\\^-]/g, '\\$&')}]`;
  const start = ends.startsWith('^') ? text.replace(new RegExp(`^${cut}+`, 'u'), '') : text;
  return ends.endsWith('$') ? start.replace(new RegExp(`(?<!${cut})${cut}+$`, 'u'), '') : start;
}

function split(text: string, by: Datum = null, limit: Datum = -1n): string[] {
  const most = whole(limit);
  if (by === null && most < 0) return text.split(new RegExp(`${SPACE}+`)).filter(Boolean);
  if (by === null || by === '') return py.fail('such a split() is not supported');
  const parts = text.split(py.text(by));
  const rest = parts.slice(most).join(py.text(by));
  return most < 0 || parts.length <= most ? parts : [...parts.slice(0, most), rest];
}

const whole = (value: Datum): number =>
  typeof value === 'bigint' ? Number(value) : py.fail(`${py.repr(value)} is no whole number`);
const capitalized = (s: string) => s.toLowerCase().replace(/^./su, (first) => first.toUpperCase());
const replaced = (s: string, old: Datum, by: Datum, count: Datum = -1n) =>
  split(s, py.text(old), count).join(py.text(by));
const textsIn = (value: Datum) => (value instanceof py.Tuple ? value : [value]).map(py.text);
const pairs = (dict: py.Dict) => Array.from(dict, (pair) => py.Tuple.from(pair));

const OF_TEXT = table({
  upper: (s) => s.toUpperCase(),
  lower: (s) => s.toLowerCase(),
  capitalize: capitalized,
  title: (s) => s.replaceAll(/\p{L}+/gu, capitalized),
  'strip chars': (s, set) => strip(s, set),
  'lstrip chars': (s, set) => strip(s, set, '^'),
  'rstrip chars': (s, set) => strip(s, set, '$'),
  'split sep maxsplit': split,
  splitlines: (s) => (s === '' ? [] : s.replace(new RegExp(`(?:${LINE_END.source})$`), '').split(LINE_END)),
  'startswith prefix': (s, prefix) => textsIn(prefix).some((each) => s.startsWith(each)),
  'endswith suffix': (s, suffix) => textsIn(suffix).some((each) => s.endsWith(each)),
  'replace old new count': replaced,
  'join iterable': (s, list) => py.items(list).map(py.text).join(s),
});
const OF_DICT = table({
  'get key default': (d, key, other = null) => (d.has(py.keyOf(key)) ? d.get(key) : other),
  keys: (d) => py.View.from(d.keys()),
  values: (d) => py.View.from(d.values()),
  items: (d) => py.View.from(pairs(d)),
});
/** Whether we have such a method. */
export const isMethod = (name: string): boolean => OF_TEXT.has(name) || OF_DICT.has(name);
/** What Python has besides, of texts, of dicts and lists, and of macros. */
const OTHERS = [
  /^(?:casefold|center|count|encode|expandtabs|r?find|format|format_map|r?index|is[a-z]+|[lr]just|maketrans|r?partition|remove(?:pre|suf)fix|rsplit|swapcase|translate|zfill)$/,
  /^(?:append|clear|copy|count|extend|fromkeys|index|insert|pop|popitem|remove|reverse|setdefault|sort|update)$/,
  /^(?:arguments|caller|catch_\w+|explicit_caller|name)$/,
] as const;

function attributeOf(owner: Datum, name: string): Datum | undefined {
  if (owner instanceof py.Facade) return Object.hasOwn(owner.fields, name) ? owner.fields[name] : undefined;
  const [isText, isDict] = [typeof owner === 'string', owner instanceof Map];
  const method = isText ? OF_TEXT.get(name) : isDict ? OF_DICT.get(name) : undefined;
  if (method !== undefined) return (args, named) => method([owner, ...args], named);
  const kind = isText ? 0 : isDict || Array.isArray(owner) ? 1 : typeof owner === 'function' ? 2 : undefined;
  return kind !== undefined && OTHERS[kind].test(name) ? py.fail(`.${name} is not supported`) : undefined;
}

function itemOf(owner: Datum, key: Datum): Datum | undefined {
  if (owner instanceof Map) return owner.get(py.keyOf(key));
  const at = py.numeric(key);
  if (typeof at !== 'bigint' || (typeof owner !== 'string' && !Array.isArray(owner))) return undefined;
  return owner instanceof py.View ? py.fail('a place in a range or a view') : py.items(owner).at(Number(at));
}

/** `owner.key`, or `owner[key]`: where there is none of the one kind, Python takes the other. */
export function member(owner: Datum, key: Datum, isDotted: boolean): Datum {
  if (py.defined(owner) instanceof py.Safe) py.fail('a part of safe text is not supported');
  const attribute = () => (typeof key === 'string' ? attributeOf(owner, key) : undefined);
  const first = isDotted ? attribute() : itemOf(owner, key);
  const found = first !== undefined ? first : isDotted ? itemOf(owner, key) : attribute();
  return found === undefined ? Symbol(`there is no ${py.repr(key)}`) : found;
}

export function slice(owner: Datum, [start = null, stop = null, step = null]: readonly Datum[]): Datum {
  const all = typeof owner === 'string' ? Array.from(owner) : owner;
  if (!py.isList(all)) return py.fail('only texts and lists have slices');
  const by = step === null ? 1 : whole(step) || py.fail('a slice has no steps of 0');
  const [least, most] = by < 0 ? [-1, all.length - 1] : [0, all.length];
  const place = (value: Datum, other: number): number => {
    const at = value === null ? other : whole(value);
    return value === null ? other : Math.min(Math.max(at < 0 ? at + all.length : at, least), most);
  };
  const [from, to] = [place(start, by < 0 ? most : least), place(stop, by < 0 ? least : most)];
  const taken = all.slice(0, 0);
  for (let n = from; by < 0 ? n > to : n < to; n += by) taken.push(all[n] as Datum);
  return typeof owner === 'string' ? taken.join('') : taken;
}

// ------ tests

const isText = (v: Datum) => typeof v === 'string' || v instanceof py.Safe;
const isIterable = (v: Datum) => isText(v) || Array.isArray(v) || v instanceof Map || typeof v === 'symbol';

type Test = (value: Datum, other: Datum) => boolean;
const isOther: Test = (v, other) => !py.equal(v, other);
const isDivisible: Test = (v, by) => py.equal(py.arithmetic('%', v, by), 0n);
const COMPARISONS: Readonly<Record<string, Test>> = {
  ...{ '==': py.equal, eq: py.equal, equalto: py.equal, '!=': isOther, ne: isOther },
  ...{ in: py.isIn, 'not in': (v, other) => !py.isIn(v, other) },
  ...{ '<': (v, other) => py.order(v, other) < 0, '>': (v, other) => py.order(v, other) > 0 },
  ...{ '<=': (v, other) => py.order(v, other) <= 0, '>=': (v, other) => py.order(v, other) >= 0 },
};
const KINDS: Readonly<Record<string, Test>> = {
  ...{ none: (v) => v === null, true: (v) => v === true, false: (v) => v === false },
  ...{ defined: (v) => typeof v !== 'symbol', undefined: (v) => typeof v === 'symbol' },
  ...{ integer: (v) => typeof v === 'bigint', float: (v) => typeof v === 'number' },
  ...{ boolean: (v) => typeof v === 'boolean', number: (v) => py.numeric(v) !== undefined },
  ...{ string: isText, mapping: (v) => v instanceof Map, iterable: isIterable },
  sequence: (v) => (v instanceof py.View ? py.fail('whether a view is a sequence') : isIterable(v)),
  ...{ divisibleby: isDivisible, even: (v) => isDivisible(v, 2n), odd: (v) => !isDivisible(v, 2n) },
};
/** Tests by name, and comparisons by their signs. */
export const TESTS: ReadonlyMap<string, Test> = new Map(Object.entries({ ...COMPARISONS, ...KINDS }));

// ------ filters

const pathOf = (item: Datum, path: Datum | undefined): Datum =>
  String(path)
    .split('.')
    .reduce((at, part) => member(at, /^\d+$/.test(part) ? BigInt(part) : part, false), item);

/** `select` and `reject`: those of a list that pass a test, or fail it, by themselves or by an attribute. */
function chosen(name: string): [string, py.Callable] {
  const call: py.Callable = ([list = null, ...rest]) => {
    const path = name.endsWith('attr') ? rest.shift() : undefined;
    const passes = rest.length === 0 ? py.isTrue : TESTS.get(rest[0] as string);
    if (passes === undefined) return py.fail(`the test ${py.repr(rest[0] as Datum)} is not supported`);
    const isKept = (item: Datum) => passes(path === undefined ? item : pathOf(item, path), rest[1] as Datum);
    return py.Lazy.from(py.items(list).filter((item) => isKept(item) === name.startsWith('select')));
  };
  return [name, call];
}

const mapped: py.Callable = ([list = null, name, ...args], named) => {
  const filter = FILTERS.get(name as string);
  if (name !== undefined && filter === undefined) py.fail(`the filter ${py.repr(name)} is not supported`);
  const [path, other] = [named.get('attribute'), named.get('default')];
  return py.Lazy.from(py.items(list), (item) => {
    const found = filter === undefined ? pathOf(item, path) : filter([item, ...args], named);
    return filter === undefined && typeof found === 'symbol' && other !== undefined ? other : found;
  });
};

const byKey = (a: Datum, b: Datum) => {
  const [x, y] = [a, b].map((value) => (typeof value === 'string' ? value.toLowerCase() : value));
  return py.order(x as Datum, y as Datum);
};
const margin = (width: Datum) => (typeof width === 'string' ? width : ' '.repeat(whole(width)));
/** What is done to a text; beside safe text, other text would be escaped. */
const plain = (value: Datum) => (value instanceof py.Safe ? py.fail('a filter of safe text') : py.str(value));
const NOTHING = Symbol('there is no such item');

export const FILTERS: ReadonlyMap<string, py.Callable> = new Map([
  ...['select', 'reject', 'selectattr', 'rejectattr'].map(chosen),
  ['map', mapped],
  ...table({
    upper: (v) => plain(v).toUpperCase(),
    lower: (v) => plain(v).toLowerCase(),
    capitalize: (v) => capitalized(plain(v)),
    title: (v) => plain(v).replaceAll(/[^-\s({[<]+/g, capitalized),
    'trim chars': (v, set) => strip(plain(v), set),
    'replace old new count': (v, old, by, count) => replaced(plain(v), plain(old), plain(by), count),
    'default|d default_value boolean': (v, other = '', byTruth = false) =>
      typeof v === 'symbol' || (py.isTrue(byTruth) && !py.isTrue(v)) ? other : v,
    dictsort: (d) => pairs(d).sort(([a = null], [b = null]) => byKey(a, b)),
    first: (v) => (v instanceof py.Lazy ? v.splice(0, 1) : py.items(v)).concat(NOTHING)[0] as Datum,
    last: (v) => (py.length(v) === 0 ? NOTHING : (py.items(v).at(-1) as Datum)),
    int: (v) => {
      const number = py.numeric(typeof v === 'string' && /^\s*-?\d+\s*$/.test(v) ? BigInt(v) : v);
      return BigInt(Math.trunc(Number(number ?? py.fail(`int of ${py.repr(v)} is not supported`))));
    },
    'indent width first blank': (v, width = 4n, first = false, blank = false) => {
      const isMoved = (line: string, n: number) => py.isTrue(n === 0 ? first : blank || line !== '');
      const lines = plain(v).split(LINE_END);
      return lines.map((line, n) => (isMoved(line, n) ? margin(width) + line : line)).join('\n');
    },
    items: (d) => py.Lazy.from(typeof d === 'symbol' ? [] : pairs(d)),
    'join d attribute': (v, between = '', path = undefined) =>
      Array.from(py.items(v), (item) => py.str(path === undefined ? item : pathOf(item, path))).join(
        plain(between),
      ),
    'length|count': (v) => BigInt(py.length(v)),
    list: (v) => Array.from(py.items(v)),
    reverse: (v) =>
      typeof v === 'string' ? Array.from(v).reverse().join('') : py.Lazy.from(py.items(v)).reverse(),
    safe: (v) => new py.Safe(py.str(v)),
    sort: (v) => Array.from(py.items(v)).sort(byKey),
    string: (v) => (v instanceof py.Safe ? v : py.str(v)),
    'tojson ensure_ascii indent separators': (v, isAscii = false, indent = null, between = null) => {
      if (py.isTrue(isAscii)) py.fail('tojson(ensure_ascii=true) is not supported');
      const own = [indent === null ? ', ' : ',', ': '];
      return py.jsonText(v, between ?? own, indent === null ? undefined : margin(indent));
    },
  }),
]);

// ------ functions

/** The sandbox of Python's Jinja has this limit. */
const LONGEST_RANGE = 100_000;

/** Of today: `%d %b %Y`. */
function today(format: string): string {
  const now = new Date();
  const part = (options: Intl.DateTimeFormatOptions) => now.toLocaleDateString('en-US', options);
  const parts: Record<string, string> = {
    ...{ Y: String(now.getFullYear()), m: part({ month: '2-digit' }), d: part({ day: '2-digit' }) },
    ...{ B: part({ month: 'long' }), b: part({ month: 'short' }), A: part({ weekday: 'long' }) },
  };
  return format.replaceAll(
    /%(.?)/gs,
    (all, code) => parts[code] ?? py.fail(`strftime_now(${all}) is not supported`),
  );
}

function range(first: Datum, end?: Datum, step: Datum = 1n): Datum {
  const [start, stop] = end === undefined ? [0, whole(first)] : [whole(first), whole(end)];
  const count = Math.max(0, Math.ceil((stop - start) / whole(step)));
  if (count <= LONGEST_RANGE)
    return py.View.from({ length: count }, (_, n) => BigInt(start + n * whole(step)));
  return py.fail(`range() of ${count} numbers, expected ${LONGEST_RANGE} at most`);
}

const fieldsOf = ([given = new Map()]: readonly Datum[], named: ReadonlyMap<string, Datum>) => [
  ...(given instanceof Map ? given : py.fail(`${py.repr(given)} is no dict`)),
  ...named,
];

export const FUNCTIONS: ReadonlyMap<string, py.Callable> = new Map([
  ...table({ 'range stop step': range, raise_exception: py.fail, strftime_now: today }),
  ['dict', (args, named) => new Map(fieldsOf(args, named))],
  ['namespace', (args, named) => new py.Facade(Object.fromEntries(fieldsOf(args, named)), true)],
]);
