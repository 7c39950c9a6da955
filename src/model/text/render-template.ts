// Renders a chat template as Python does, from the tree that @huggingface/jinja parses; what cannot be rendered so is refused by name.
import { parse } from '@huggingface/jinja';
import type { Datum } from './python-values.js';
import * as py from './python-values.js';
import { FILTERS, FUNCTIONS, isMethod, member, slice, TESTS } from './template-builtins.js';
import { areSideBySide, tokensOf } from './template-tokens.js';

/** Variables by name; those of an outer scope are its prototype's. */
type Scope = Record<string, Datum>;
/** What a node has depends on its type, and the parser exports none of them. */
// biome-ignore lint/suspicious/noExplicitAny: see above
type Node = any;

/** @throws SyntaxError naming what cannot be rendered as Python does */
export function templateRenderer(source: string): (variables: ReadonlyMap<string, Datum>) => string {
  const { body } = parse(tokensOf(source));
  check(body);
  return (variables) => written(body, Object.assign(inside(GLOBALS), Object.fromEntries(variables)));
}

const GLOBALS: Scope = Object.assign(Object.create(null), {
  ...{ true: true, True: true, false: false, False: false, none: null, None: null },
  ...Object.fromEntries(FUNCTIONS),
});
const inside = (scope: Scope): Scope => Object.create(scope) as Scope;

/** What Python's Jinja knows besides. */
const UNKNOWN = /^(?:caller|cycler|joiner|lipsum|self|super|varargs|kwargs)$/;
/** Parts of others. */
const PARTS = /^(?:KeywordArgumentExpression|SliceExpression|SpreadExpression|Identifier|.*Operator)$/;

function check(node: Node): void {
  if (typeof node !== 'object' || node === null) return;
  for (const part of node instanceof Map ? [...node].flat() : Object.values(node)) check(part);
  const { type, value, callee, filter, call, operator } = node;
  if (typeof type !== 'string') return;
  const [name, test] = namesIn(filter);
  const method = callee?.property && !callee.computed ? callee.property.value : 'get';
  const signs = operator ? [operator.value, besideOf(node)] : [''];
  const wrong =
    (!(type in EXPRESSIONS || type in STATEMENTS || PARTS.test(type)) && type) ||
    (type === 'Identifier' && UNKNOWN.test(value) && value) ||
    (test !== undefined && !TESTS.has(test) && `the test ${name}`) ||
    (filter && test === undefined && !FILTERS.has(name) && `the filter ${name}`) ||
    (!isMethod(method) && `.${method}()`) ||
    (call && call.callee.value !== 'generation' && 'a call block') ||
    (node.assignee?.type === 'FilterExpression' && 'a filter of set') ||
    (node.defaultBlock?.length > 0 && 'the else of a loop') ||
    (signs.every((sign) => TESTS.has(sign)) && 'a chain of comparisons') ||
    // in Python `~` comes before `+`
    (signs[0] === '~' && /^[-+]$/.test(signs[1] as string) && '~ behind a sum');
  if (wrong) throw new SyntaxError(`${wrong} is not supported`);
}

/** Of a filter, and of the test that it may be. */
function namesIn(filter: Node): readonly [name: string, test?: string | undefined] {
  const name: string = filter?.value ?? filter?.callee?.value ?? '';
  return [name, /^is (?:not )?(.*)/.exec(name)?.[1]];
}

// ------ expressions

const EXPRESSIONS: Readonly<Record<string, (node: Node, scope: Scope) => Datum>> = {
  IntegerLiteral: ({ value }) => BigInt(value),
  FloatLiteral: ({ value }) => value,
  StringLiteral: ({ value }) => value,
  Identifier: ({ value }, scope) =>
    value in scope ? (scope[value] as Datum) : Symbol(`'${value}' is undefined`),
  ArrayLiteral: ({ value }, scope) => value.map((item: Node) => get(item, scope)),
  TupleLiteral: ({ value }, scope) => py.Tuple.from(value, (item) => get(item, scope)),
  ObjectLiteral: ({ value }, scope) =>
    new Map([...value].map(([key, item]) => [py.keyOf(get(key, scope)), get(item, scope)])),
  UnaryExpression: ({ operator: { value: sign }, argument }, scope) =>
    sign === 'not' ? !py.isTrue(get(argument, scope)) : py.arithmetic(sign, 0n, get(argument, scope)),
  BinaryExpression: binary,
  Ternary: ({ condition, trueExpr, falseExpr }, scope) =>
    get(py.isTrue(get(condition, scope)) ? trueExpr : falseExpr, scope),
  SelectExpression: ({ lhs, test }, scope) =>
    py.isTrue(get(test, scope)) ? get(lhs, scope) : Symbol('an if without else has no value'),
  MemberExpression: ({ object, property, computed }, scope) => {
    const [owner, { type, value, start, stop, step }] = [get(object, scope), property];
    const bounds = () => [start, stop, step].map((at) => (at ? get(at, scope) : null));
    if (type === 'SliceExpression') return slice(owner, bounds());
    const isDotted = !computed && type === 'Identifier';
    return member(owner, isDotted ? value : get(property, scope), isDotted);
  },
  CallExpression: ({ callee, args }, scope) => {
    const call = py.defined(get(callee, scope));
    return typeof call === 'function'
      ? call(...given(args, scope))
      : py.fail(`${py.repr(call)} is no function`);
  },
  FilterExpression: ({ operand, filter }, scope) => {
    const [args, named] = given(filter.args ?? [], scope);
    const [name, test, value] = [...namesIn(filter), get(operand, scope)];
    if (test === undefined) return FILTERS.get(name)?.([value, ...args], named) as Datum;
    return TESTS.get(test)?.(value, args[0] as Datum) !== name.startsWith('is not ');
  },
};

function get(node: Node, scope: Scope): Datum {
  return EXPRESSIONS[node.type]?.(node, scope) as Datum;
}

function given(nodes: readonly Node[], scope: Scope): Parameters<py.Callable> {
  const named = nodes
    .filter(({ key }) => key)
    .map(({ key, value }) => [key.value, get(value, scope)] as const);
  const all = (node: Node) =>
    node.type === 'SpreadExpression' ? py.items(get(node.argument, scope)) : [get(node, scope)];
  return [nodes.filter(({ key }) => !key).flatMap(all), new Map(named)];
}

function binary(node: Node, scope: Scope): Datum {
  const { left, right } = node;
  const sign: string = node.operator.value;
  const [a, b] = [get(left, scope), () => get(right, scope)];
  if (sign === 'and' || sign === 'or') return py.isTrue(a) === (sign === 'or') ? a : b();
  if (sign === '~') return py.str(a) + py.str(b());
  return TESTS.get(sign)?.(a, b()) ?? py.arithmetic(sign, a, b());
}

/** The operator before it in the same bracket: `a < b < c` is no `(a < b) < c`. */
function besideOf({ left, operator }: Node): string {
  return left?.operator && areSideBySide(left.operator, operator) ? left.operator.value : '';
}

// ------ statements

/** Writes to `out`; tells whether the round of the loop around it is left. */
type Statement = (node: Node, scope: Scope, out: string[]) => 'Break' | 'Continue' | undefined;

const STATEMENTS: Readonly<Record<string, Statement>> = {
  Comment: () => undefined,
  Break: () => 'Break',
  Continue: () => 'Continue',
  If: ({ test, body, alternate }, scope, out) =>
    run(py.isTrue(get(test, scope)) ? body : alternate, scope, out),
  For: loop,
  Set: ({ assignee, value, body }, scope) =>
    assign(assignee, value === null ? written(body, inside(scope)) : get(value, scope), scope),
  CallStatement: ({ body }, scope, out) => void out.push(written(body, inside(scope))),
  Macro: ({ name, args, body }, outer) => {
    const names: string[] = args.map((arg: Node) => (arg.key ?? arg).value);
    const call: py.Callable = (list, named) => {
      const scope = inside(outer);
      if (list.length > names.length || ![...named.keys()].every((key) => names.includes(key)))
        py.fail(`${name.value}(${names.join(', ')}) gets other arguments`);
      for (const [n, own] of names.entries()) {
        const value = n < list.length ? list[n] : named.get(own);
        const other = () => (args[n].key ? get(args[n].value, scope) : Symbol(`${own} was not given`));
        scope[own] = value === undefined ? other() : value;
      }
      return written(body, scope);
    };
    outer[name.value] = call;
  },
};

function run(nodes: readonly Node[], scope: Scope, out: string[]): ReturnType<Statement> {
  for (const node of nodes) {
    const statement = STATEMENTS[node.type];
    const left = statement ? statement(node, scope, out) : void out.push(py.str(get(node, scope)));
    if (left) return left;
  }
  return undefined;
}

function written(nodes: readonly Node[], scope: Scope): string {
  const out: string[] = [];
  run(nodes, scope, out);
  return out.join('');
}

function assign({ type, value: name, object, property }: Node, value: Datum, scope: Scope): undefined {
  if (type === 'Identifier') scope[name] = value;
  else if (type === 'TupleLiteral') {
    const values = py.items(value);
    if (values.length !== name.length) py.fail(`${values.length} values for ${name.length} names`);
    for (const [n, each] of name.entries()) assign(each, values[n] as Datum, scope);
  } else {
    const owner = get(object, scope);
    if (!(owner instanceof py.Facade && owner.isNamespace)) py.fail('only a namespace has fields to set');
    else owner.fields[property.value] = value;
  }
}

function loop({ loopvar, iterable, body }: Node, outer: Scope, out: string[]): undefined {
  const filter = iterable.type === 'SelectExpression' ? iterable.test : undefined;
  const scopeOf = (item: Datum) => {
    const scope = inside(outer);
    assign(loopvar, item, scope);
    return scope;
  };
  const passes = (item: Datum) => !filter || py.isTrue(get(filter, scopeOf(item)));
  const all = py
    .items(get(filter ? iterable.lhs : iterable, outer))
    .map((item) => [item, passes(item)] as const);
  const chosen = all.filter(([, isChosen]) => isChosen).map(([item]) => item);
  const itemAt = (at: number) => (at in chosen ? (chosen[at] as Datum) : Symbol(`there is no item ${at}`));
  let n = 0;
  for (const [item, isChosen] of all) {
    // Python filters item by item, as the loop comes to them
    if (passes(item) !== isChosen) py.fail('a loop that changes what its own filter says is not supported');
    if (!isChosen) continue;
    const scope = scopeOf(item);
    const rest = chosen.length - 1 - n;
    scope.loop = new py.Facade({
      ...{ index0: BigInt(n), index: BigInt(n + 1), first: n === 0, last: rest === 0 },
      ...{ revindex0: BigInt(rest), revindex: BigInt(rest + 1), length: BigInt(chosen.length) },
      ...{ previtem: itemAt(n - 1), nextitem: itemAt(n + 1) },
      ...{ depth: 1n, depth0: 0n }, // no loop is recursive
    });
    n++;
    if (run(body, scope, out) === 'Break') break;
  }
}
