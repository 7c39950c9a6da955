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
/** @throws TypeError for an empty one, which Python finds between all characters */
const replaced = (s: string, old: string, by: string) =>
  old === '' ? py.fail('to replace nothing is not supported') : s.replaceAll(old, () => by);
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
  'startswith prefix': (s, prefix) => s.startsWith(py.text(prefix)),
  'endswith suffix': (s, suffix) => s.endsWith(py.text(suffix)),
  'replace old new': (s, old, by) => replaced(s, py.text(old), py.text(by)),
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
  const place = (value: Datum) => (value === null ? undefined : whole(value));
  const isReversed = py.equal(step, -1n) && start === null && stop === null;
  if (step !== null && !isReversed) py.fail('a slice with steps is not supported, but for [::-1]');
  const taken = all.slice(place(start), place(stop));
  if (isReversed) taken.reverse();
  return typeof owner === 'string' ? taken.join('') : taken;
}

// ------ tests

const isText = (v: Datum) => typeof v === 'string' || v instanceof py.Safe;
const isIterable = (v: Datum) => isText(v) || Array.isArray(v) || v instanceof Map || typeof v === 'symbol';

type Test = (value: Datum, other: Datum) => boolean;
const isOther: Test = (v, other) => !py.equal(v, other);
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
};
/** Tests by name, and comparisons by their signs. */
export const TESTS: ReadonlyMap<string, Test> = new Map(Object.entries({ ...COMPARISONS, ...KINDS }));

// ------ filters

/** `attribute=…` of a filter. */
const partOf = (item: Datum, name: Datum | undefined): Datum =>
  typeof name === 'string' && /^[a-z_]\w*$/i.test(name)
    ? member(item, name, false)
    : py.fail('what is no name of an attribute is not supported');

/** `select` and `reject`: those of a list that pass a test, or fail it, by themselves or by an attribute. */
function chosen(name: string): [string, py.Callable] {
  const call: py.Callable = ([list = null, ...rest]) => {
    const path = name.endsWith('attr') ? rest.shift() : undefined;
    const passes = rest.length === 0 ? py.isTrue : TESTS.get(rest[0] as string);
    if (passes === undefined) return py.fail(`the test ${py.repr(rest[0] as Datum)} is not supported`);
    const isKept = (item: Datum) => passes(path === undefined ? item : partOf(item, path), rest[1] as Datum);
    return py.Lazy.from(py.items(list).filter((item) => isKept(item) === name.startsWith('select')));
  };
  return [name, call];
}

const mapped: py.Callable = ([list = null, name, ...args], named) => {
  const filter = FILTERS.get(name as string);
  if (named.has('default')) py.fail('map(default=…) is not supported');
  if (name !== undefined && filter === undefined) py.fail(`the filter ${py.repr(name)} is not supported`);
  return py.Lazy.from(py.items(list), (item) =>
    filter === undefined ? partOf(item, named.get('attribute')) : filter([item, ...args], named),
  );
};

const byKey = (a: Datum, b: Datum) => {
  const [x, y] = [a, b].map((value) => (typeof value === 'string' ? value.toLowerCase() : value));
  return py.order(x as Datum, y as Datum);
};
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
    'replace old new': (v, old, by) => replaced(plain(v), plain(old), plain(by)),
    'default|d default_value boolean': (v, other = '', byTruth = false) =>
      typeof v === 'symbol' || (py.isTrue(byTruth) && !py.isTrue(v)) ? other : v,
    dictsort: (d) => pairs(d).sort(([a = null], [b = null]) => byKey(a, b)),
    first: (v) => py.items(v).concat(NOTHING)[0] as Datum,
    last: (v) => (py.length(v) === 0 ? NOTHING : (py.items(v).at(-1) as Datum)),
    int: (v) => {
      const number = py.numeric(typeof v === 'string' && /^\s*-?\d+\s*$/.test(v) ? BigInt(v) : v);
      return BigInt(Math.trunc(Number(number ?? py.fail(`int of ${py.repr(v)} is not supported`))));
    },
    items: (d) => py.Lazy.from(typeof d === 'symbol' ? [] : pairs(d)),
    'join d': (v, between = '') => py.items(v).map(py.str).join(plain(between)),
    'length|count': (v) => BigInt(py.length(v)),
    list: (v) => Array.from(py.items(v)),
    safe: (v) => new py.Safe(py.str(v)),
    string: (v) => (v instanceof py.Safe ? v : py.str(v)),
    'tojson ensure_ascii indent': (v, isAscii = false, indent = null) => {
      if (py.isTrue(isAscii)) py.fail('tojson(ensure_ascii=true) is not supported');
      return py.jsonText(v, indent === null ? undefined : ' '.repeat(whole(indent)));
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
    ...{ B: part({ month: 'long' }), b: part({ month: 'short' }) },
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

export const FUNCTIONS: ReadonlyMap<string, py.Callable> = new Map([
  ...table({ 'range stop step': range, raise_exception: py.fail, strftime_now: today }),
  [
    'namespace',
    (args, named) =>
      args.length > 0 ? py.fail('namespace() of a dict') : new py.Facade(Object.fromEntries(named), true),
  ],
]);
