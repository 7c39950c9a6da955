// What chat templates may call, as Python's Jinja and transformers have it: methods, filters, tests and functions.
import * as py from './python-values.js';

type Value = py.Value;

/** How an argument is taken: what is left out, or None, is undefined where a `?` stands behind its kind. */
const KINDS = {
  any: (value: Value) => value,
  text: (value: Value) =>
    value instanceof py.Safe ? py.fail('a filter of safe text is not supported') : py.str(value),
  str: py.text,
  int: (value: Value) =>
    Number(typeof value === 'bigint' ? value : py.fail(`${py.repr(value)} is no whole number`)),
  bool: py.isTrue,
  items: py.items,
  dict: (value: Value): py.Dict => (value instanceof Map ? value : py.fail(`${py.repr(value)} is no dict`)),
};

/** Functions by name, each declared as `name|name argument:kind …`. */
function table(
  declared: Readonly<Record<string, (...args: never[]) => Value>>,
): ReadonlyMap<string, py.Call> {
  const calls = Object.entries(declared).flatMap(([signature, body]) => {
    const [names = '', ...parameters] = signature.split(' ');
    const known = parameters.map((parameter) => parameter.split(':') as [string, string]);
    const call: py.Call = (args, named) => {
      const isKnown = (key: string) => known.some(([own], n) => own === key && n >= args.length);
      if (args.length > known.length || ![...named.keys()].every(isKnown))
        py.fail(`${signature}: gets other arguments`);
      const taken = known.map(([own, kind], n) => {
        const value = n < args.length ? args[n] : named.get(own);
        if (kind === 'any?') return value;
        if (kind.endsWith('?') && (value ?? null) === null) return undefined;
        return value === undefined
          ? py.fail(`${signature}: lacks ${own}`)
          : KINDS[kind.replace('?', '') as keyof typeof KINDS](value);
      });
      return body(...(taken as never[]));
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
function strip(text: string, set: string | undefined, ends = '^$'): string {
  const cut = set === undefined ? SPACE : `[${set.replaceAll(/[\]\\^-]/g, '\\$&')}]`;
  const start = ends.startsWith('^') ? text.replace(new RegExp(`^${cut}+`, 'u'), '') : text;
  return ends.endsWith('$') ? start.replace(new RegExp(`(?<!${cut})${cut}+$`, 'u'), '') : start;
}

function split(text: string, separator?: string, most = -1): string[] {
  if (separator === undefined && most < 0)
    return strip(text, undefined)
      .split(new RegExp(`${SPACE}+`))
      .filter(Boolean);
  if (!separator) return py.fail('such a split() is not supported');
  const parts = text.split(separator);
  return most < 0 || parts.length <= most
    ? parts
    : [...parts.slice(0, most), parts.slice(most).join(separator)];
}

const capitalized = (s: string) => s.toLowerCase().replace(/^./su, (first) => first.toUpperCase());
const asTuple = (part: Value) => (part instanceof py.Tuple ? part : [part]).map(py.text);
const pairs = (dict: py.Dict) => Array.from(dict, (pair) => py.Tuple.from(pair));

const OF_TEXT = table({
  'upper s:text': (s: string) => s.toUpperCase(),
  'lower s:text': (s: string) => s.toLowerCase(),
  'capitalize s:text': capitalized,
  'title s:text': (s: string) => s.replaceAll(/\p{L}+/gu, capitalized),
  'strip s:text chars:str?': (s: string, set?: string) => strip(s, set),
  'lstrip s:text chars:str?': (s: string, set?: string) => strip(s, set, '^'),
  'rstrip s:text chars:str?': (s: string, set?: string) => strip(s, set, '$'),
  'split s:text sep:str? maxsplit:int?': split,
  'splitlines s:text': (s: string) => s.replace(new RegExp(`(?:${LINE_END.source})$`), '').split(LINE_END),
  'startswith s:text prefix:any': (s: string, part: Value) =>
    asTuple(part).some((each) => s.startsWith(each)),
  'endswith s:text suffix:any': (s: string, part: Value) => asTuple(part).some((each) => s.endsWith(each)),
  'replace s:text old:text new:text count:int?': (s: string, old: string, by: string, count = -1) =>
    count < 0 ? s.replaceAll(old, () => by) : split(s, old, count).join(by),
  'join s:text iterable:items': (s: string, all: Value[]) => all.map(py.text).join(s),
  'find s:text sub:str': (s: string, sub: string) =>
    s.includes(sub) ? BigInt(py.length(s.slice(0, s.indexOf(sub)))) : -1n,
});
const OF_DICT = table({
  'get d:any key:any default:any?': (d: py.Dict, key: Value, other: Value = null) =>
    d.has(py.keyOf(key)) ? (d.get(key) as Value) : other,
  'keys d:any': (d: py.Dict) => py.View.from(d.keys()),
  'values d:any': (d: py.Dict) => py.View.from(d.values()),
  'items d:any': (d: py.Dict) => py.View.from(pairs(d)),
});
/** Whether we have such a method. */
export const isMethod = (name: string): boolean => OF_TEXT.has(name) || OF_DICT.has(name);
/** What Python has besides, of texts, and of dicts and lists. */
const OTHERS = [
  /^(?:casefold|center|count|encode|expandtabs|format|format_map|r?index|is[a-z]+|[lr]just|maketrans|r?partition|remove(?:pre|suf)fix|rfind|rsplit|swapcase|translate|zfill)$/,
  /^(?:append|clear|copy|count|extend|fromkeys|index|insert|pop|popitem|remove|reverse|setdefault|sort|update)$/,
] as const;

function attributeOf(owner: Value, name: string): Value | undefined {
  if (owner instanceof py.Facade) return Object.hasOwn(owner.fields, name) ? owner.fields[name] : undefined;
  const [isText, isDict] = [typeof owner === 'string', owner instanceof Map];
  const method = isText ? OF_TEXT.get(name) : isDict ? OF_DICT.get(name) : undefined;
  if (method !== undefined) return (args, named) => method([owner, ...args], named);
  const hasMore = (isText || isDict || Array.isArray(owner)) && OTHERS[isText ? 0 : 1].test(name);
  return hasMore ? py.fail(`the method .${name} is not supported`) : undefined;
}

function itemOf(owner: Value, key: Value): Value | undefined {
  if (owner instanceof Map) return owner.get(py.keyOf(key));
  if (typeof key !== 'bigint' || (typeof owner !== 'string' && !Array.isArray(owner))) return undefined;
  return owner instanceof py.View
    ? py.fail('an item of a range or a view is not supported')
    : py.items(owner).at(Number(key));
}

/** `owner.key`, or `owner[key]`: where there is none of the one kind, Python takes the other. */
export function member(owner: Value, key: Value, isDotted: boolean): Value {
  py.defined(owner);
  const ways = [
    () => itemOf(owner, key),
    () => (typeof key === 'string' ? attributeOf(owner, key) : undefined),
  ];
  for (const way of isDotted ? ways.reverse() : ways) {
    const found = way();
    if (found !== undefined) return found;
  }
  return Symbol(`there is no ${py.repr(key)}`);
}

export function slice(owner: Value, [start = null, stop = null, step = null]: readonly Value[]): Value {
  const all = typeof owner === 'string' ? Array.from(owner) : owner;
  if (!py.isList(all)) return py.fail('only texts and lists have slices');
  const by = Number(step ?? 1);
  const [least, most] = by < 0 ? [-1, all.length - 1] : [0, all.length];
  const place = (value: Value, other: number): number => {
    const at = value === null ? other : KINDS.int(value);
    return value === null ? other : Math.min(Math.max(at < 0 ? at + all.length : at, least), most);
  };
  const [from, to] = [place(start, by < 0 ? most : least), place(stop, by < 0 ? least : most)];
  const taken = all.slice(0, 0);
  if (by === 0) py.fail('slice step cannot be zero');
  for (let n = from; by < 0 ? n > to : n < to; n += by) taken.push(all[n] as Value);
  return typeof owner === 'string' ? taken.join('') : taken;
}

// ------ filters

const pathOf = (item: Value, path: Value | undefined): Value =>
  String(path)
    .split('.')
    .reduce((at, part) => member(at, /^\d+$/.test(part) ? BigInt(part) : part, false), item);

const isDefined = (value: Value) => typeof value !== 'symbol';
const isText = (value: Value) => typeof value === 'string' || value instanceof py.Safe;
const isIterable = (value: Value) =>
  isText(value) || Array.isArray(value) || value instanceof Map || !isDefined(value);

/** Those of which an operator is one have its name too. */
export const TESTS: ReadonlyMap<string, (value: Value, other: Value) => boolean> = new Map(
  Object.entries({
    ...{ '==': py.equal, eq: py.equal, equalto: py.equal },
    ...{ '!=': isOther, ne: isOther, in: py.isIn },
    'not in': (v: Value, other: Value) => !py.isIn(v, other),
    '<': (v: Value, other: Value) => py.order(v, other) < 0,
    '>': (v: Value, other: Value) => py.order(v, other) > 0,
    '<=': (v: Value, other: Value) => py.order(v, other) <= 0,
    '>=': (v: Value, other: Value) => py.order(v, other) >= 0,
    boolean: (v: Value) => typeof v === 'boolean',
    defined: isDefined,
    divisibleby: (v: Value, by: Value) => py.equal(py.arithmetic('%', v, by), 0n),
    even: (v: Value) => py.equal(py.arithmetic('%', v, 2n), 0n),
    false: (v: Value) => v === false,
    float: (v: Value) => typeof v === 'number',
    integer: (v: Value) => typeof v === 'bigint',
    iterable: isIterable,
    mapping: (v: Value) => v instanceof Map,
    none: (v: Value) => v === null,
    number: (v: Value) => py.numeric(v) !== undefined,
    odd: (v: Value) => py.equal(py.arithmetic('%', v, 2n), 1n),
    sequence: (v: Value) =>
      v instanceof py.View ? py.fail('a view or a range as a sequence is not supported') : isIterable(v),
    string: isText,
    true: (v: Value) => v === true,
    undefined: (v: Value) => !isDefined(v),
  }),
);

function isOther(a: Value, b: Value): boolean {
  return !py.equal(a, b);
}

/** `select` and `reject`: those of a list that pass a test, or fail it, by themselves or by an attribute. */
function chosen(name: string): readonly [string, py.Call] {
  const call: py.Call = ([list = null, ...rest]) => {
    const path = name.endsWith('attr') ? rest.shift() : undefined;
    const [test = 'true of it', other = null] = rest;
    const passes = rest.length === 0 ? py.isTrue : TESTS.get(test as string);
    if (passes === undefined) return py.fail(`the test ${py.repr(test)} is not supported`);
    const isKept = (item: Value) => passes(path === undefined ? item : pathOf(item, path), other);
    return py.Lazy.from(py.items(list).filter((item) => isKept(item) === name.startsWith('select')));
  };
  return [name, call];
}

const mapped: py.Call = ([list = null, name, ...args], named) => {
  const filter = FILTERS.get(name as string);
  if (name !== undefined && filter === undefined) py.fail(`the filter ${py.repr(name)} is not supported`);
  return py.Lazy.from(py.items(list), (item) => {
    if (filter !== undefined) return filter([item, ...args], named);
    const [found, other] = [pathOf(item, named.get('attribute')), named.get('default')];
    return isDefined(found) || other === undefined ? found : other;
  });
};

const byKey = (a: Value, b: Value) => {
  const [x, y] = [a, b].map((value) => (typeof value === 'string' ? value.toLowerCase() : value));
  return py.order(x as Value, y as Value);
};
const margin = (width: Value) => (typeof width === 'string' ? width : ' '.repeat(KINDS.int(width)));
const NOTHING = Symbol('there is no such item');

export const FILTERS: ReadonlyMap<string, py.Call> = new Map<string, py.Call>([
  ...[...OF_TEXT].filter(([name]) => /^(?:upper|lower|capitalize|replace)$/.test(name)),
  ...['select', 'reject', 'selectattr', 'rejectattr'].map(chosen),
  ['map', mapped],
  ...table({
    'default|d v:any default_value:any? boolean:bool?': (v: Value, other: Value = '', byTruth = false) =>
      !isDefined(v) || (byTruth && !py.isTrue(v)) ? other : v,
    'dictsort d:dict': (d: py.Dict) => pairs(d).sort(([a = null], [b = null]) => byKey(a, b)),
    'first v:any': (v: Value) =>
      (v instanceof py.Lazy ? v.splice(0, 1) : py.items(v)).concat(NOTHING)[0] as Value,
    'int v:any': (v: Value) => {
      const isDigits = typeof v === 'string' && /^\s*-?\d+\s*$/.test(v);
      const number = py.numeric(isDigits ? BigInt(v) : v);
      return number === undefined
        ? py.fail(`int of ${py.repr(v)} is not supported`)
        : BigInt(Math.trunc(Number(number)));
    },
    'indent s:text width:any? first:bool? blank:bool?': (
      s: string,
      width: Value = 4n,
      first = false,
      blank = false,
    ) =>
      s
        .split(LINE_END)
        .map((line, n) => ((n === 0 ? first : blank || line !== '') ? margin(width) + line : line))
        .join('\n'),
    'items d:any': (d: Value) => py.Lazy.from(isDefined(d) ? pairs(KINDS.dict(d)) : []),
    'join v:items d:text? attribute:any?': (v: Value[], between = '', path?: Value) =>
      Array.from(v, (item) => py.str(path === undefined ? item : pathOf(item, path))).join(between),
    'last v:any': (v: Value) => (py.length(v) === 0 ? NOTHING : (py.items(v).at(-1) as Value)),
    'length|count v:any': (v: Value) => BigInt(py.length(v)),
    'list v:items': (v: Value[]) => Array.from(v),
    'reverse v:any': (v: Value) =>
      typeof v === 'string' ? Array.from(v).reverse().join('') : py.Lazy.from(py.items(v)).reverse(),
    'safe v:text': (v: string) => new py.Safe(v),
    'sort v:items': (v: Value[]) => Array.from(v).sort(byKey),
    'string v:any': (v: Value) => (v instanceof py.Safe ? v : py.str(v)),
    'title s:text': (s: string) => s.replaceAll(/[^-\s({[<]+/g, capitalized),
    'tojson v:any ensure_ascii:bool? indent:any? separators:any?': (
      v: Value,
      isAscii = false,
      indent: Value = null,
      between: Value = null,
    ) => {
      if (isAscii) py.fail('tojson(ensure_ascii=true) is not supported');
      const own = [indent === null ? ', ' : ',', ': '];
      return py.jsonText(
        v,
        between === null ? own : py.items(between).map(py.text),
        indent === null ? undefined : margin(indent),
      );
    },
    'trim s:text chars:str?': (s: string, set?: string) => strip(s, set),
  }),
]);

// ------ functions

/** The sandbox of Python's Jinja has this limit. */
const LONGEST_RANGE = 100_000;

/** `%d %b %Y` of today */
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

export const FUNCTIONS: ReadonlyMap<string, py.Call> = new Map<string, py.Call>([
  ...table({
    'range start:int stop:int? step:int?': (first: number, end?: number, step = 1) => {
      const [start, stop] = end === undefined ? [0, first] : [first, end];
      const count = Math.max(0, Math.ceil((stop - start) / step));
      if (!(count <= LONGEST_RANGE))
        py.fail(`range() of ${count} numbers, expected ${LONGEST_RANGE} at most`);
      return py.View.from({ length: count }, (_, n) => BigInt(start + n * step));
    },
    'raise_exception message:text': py.fail,
    'strftime_now format:str': today,
  }),
  ['dict', ([given = new Map()], named) => new Map([...KINDS.dict(given), ...named])],
  [
    'namespace',
    ([given = new Map()], named) => {
      const fields = [...KINDS.dict(given), ...named].map(([name, value]) => [py.text(name), value]);
      return new py.Facade(Object.assign(Object.create(null), Object.fromEntries(fields)), true);
    },
  ],
]);
