// Changes one place of the built program at a time and runs the tests: a change that no test notices is named.
// `npm run mutations -- [count] [seed]`; takes hours, on a copy of the project.
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parse } from 'acorn';

const COUNT = Number(process.argv[2] ?? 100);
const SEED = Number(process.argv[3] ?? 1);
const MOST_SECONDS = 900;
/** Test files that are asked first take so long together. */
const FIRST_SECONDS = 60;
const HERE = resolve(import.meta.dirname, '../..');

const SWAPPED = {
  ...{ '<': '<=', '<=': '<', '>': '>=', '>=': '>', '===': '!==', '!==': '===' },
  ...{ '+': '-', '-': '+', '*': '/', '/': '*', '%': '*', '&&': '||', '||': '&&' },
};

/** mulberry32: the same mutants for the same seed. */
function randomOf(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const isText = (node) => node.type === 'TemplateLiteral' || typeof node.value === 'string';

/** What of a node can be changed: a range of the text, and what comes in its place. */
function* changesOf(node, text) {
  const { type, start, end } = node;
  if (type === 'BinaryExpression' || type === 'LogicalExpression') {
    const swapped = SWAPPED[node.operator];
    if (swapped === undefined || (node.operator === '+' && (isText(node.left) || isText(node.right)))) return;
    const at = text.indexOf(node.operator, node.left.end);
    yield { start: at, end: at + node.operator.length, by: swapped };
  } else if (type === 'IfStatement' || type === 'ConditionalExpression') {
    for (const by of ['true', 'false']) yield { start: node.test.start, end: node.test.end, by };
  } else if (type === 'UnaryExpression' && node.operator === '!') yield { start, end: start + 1, by: '' };
  else if (type === 'Literal' && typeof node.value === 'number')
    yield { start, end, by: `(${text.slice(start, end)} + 1)` };
  else if (type === 'Literal' && typeof node.value === 'boolean')
    yield { start, end, by: String(!node.value) };
  else if (
    type === 'ThrowStatement' ||
    (type === 'ExpressionStatement' && /(Await|Call)Expression/.test(node.expression.type))
  )
    yield { start, end, by: ';' };
}

function* changesBelow(node, text) {
  yield* changesOf(node, text);
  for (const [key, value] of Object.entries(node)) {
    // a number in front of a colon is a name
    if (key === 'key' && !node.computed) continue;
    for (const child of Array.isArray(value) ? value : [value])
      if (typeof child?.type === 'string') yield* changesBelow(child, text);
  }
}

const files = (folder, end) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(end))
    .map((name) => join(folder, name))
    .sort();

/** The modules that a module imports, one way or another, itself among them. */
function importsOf(path, known = new Set()) {
  if (known.has(path)) return known;
  known.add(path);
  const text = readFileSync(path, 'utf8');
  for (const [, name] of text.matchAll(/(?:from|import|import\()\s*'(\.[^']+)'/g)) {
    const found = resolve(dirname(path), name);
    for (const file of [found, found.replace(/\.js$/, '.ts')])
      try {
        importsOf(file, known);
        break;
      } catch (error) {
        if (error.code !== 'ENOENT') throw error;
      }
  }
  return known;
}

const copy = mkdtempSync(join(tmpdir(), 'rredcot-mutations-'));
process.once('exit', () => rmSync(copy, { recursive: true, force: true }));
process.once('SIGINT', () => process.exit(130));
process.once('SIGTERM', () => process.exit(143));
const listed = execFileSync('git', ['ls-files'], { cwd: HERE, encoding: 'utf8' }).trim().split('\n');
for (const name of [...listed, 'dist']) cpSync(join(HERE, name), join(copy, name), { recursive: true });
symlinkSync(join(HERE, 'node_modules'), join(copy, 'node_modules'));

const tests = files(join(copy, 'test'), '.test.ts')
  .filter((path) => !path.endsWith('.long.test.ts'))
  .map((path) => relative(copy, path));

/** Runs test files, `null` for success and otherwise why it is none. */
function failureOf(names, env = {}) {
  const vitest = join(copy, 'node_modules/vitest/vitest.mjs');
  const { status, signal } = spawnSync(process.execPath, [vitest, 'run', '--bail', '1', ...names], {
    cwd: copy,
    env: { ...process.env, ...env },
    timeout: MOST_SECONDS * 1000,
    killSignal: 'SIGKILL',
    stdio: 'ignore',
  });
  return signal !== null ? 'the clock' : status !== 0 ? 'a test' : null;
}

/**
 * Which bytes of our modules ran in the processes and threads that a test file starts: of each module, what V8 counted.
 * Vitest rewrites what a test itself imports, so these modules count as a whole.
 */
function coverageOf(name) {
  const folder = mkdtempSync(join(tmpdir(), 'rredcot-coverage-'));
  const started = performance.now();
  try {
    const failure = failureOf([name], { NODE_V8_COVERAGE: folder });
    if (failure !== null) throw new Error(`${name} fails without any change: ${failure}`);
    const ran = new Map();
    for (const file of readdirSync(folder)) {
      const { result } = JSON.parse(readFileSync(join(folder, file), 'utf8'));
      for (const { url, functions } of result) {
        if (!url.startsWith(pathToFileURL(join(copy, 'dist')).href)) continue;
        const ranges = functions.flatMap((own) => own.ranges);
        const path = fileURLToPath(url);
        ran.set(path, [...(ran.get(path) ?? []), ranges]);
      }
    }
    const imported = importsOf(join(copy, name));
    return { name, ran, imported, seconds: (performance.now() - started) / 1000 };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The innermost range around a place says how often it ran. */
function isCovered({ ran, imported }, path, at) {
  if (imported.has(path)) return true;
  const size = ({ startOffset, endOffset }) => endOffset - startOffset;
  return (ran.get(path) ?? []).some((ranges) => {
    const around = ranges.filter(({ startOffset, endOffset }) => startOffset <= at && at < endOffset);
    return (around.sort((a, b) => size(a) - size(b))[0]?.count ?? 0) > 0;
  });
}

const covered = [];
for (const [n, name] of tests.entries()) {
  covered.push(coverageOf(name));
  console.log(`${n + 1}/${tests.length} ${name}: ${Math.round(covered[n].seconds)} s`);
}
covered.sort((a, b) => a.seconds - b.seconds);

/** Test files that reach a place, in the order in which they are asked: what takes a minute at most in one go, then the rest. */
function askedOf(path, at) {
  const all = covered.filter((test) => isCovered(test, path, at));
  let [n, total] = [0, 0];
  while (n < all.length && total + all[n].seconds <= FIRST_SECONDS) total += all[n++].seconds;
  return [all.slice(0, n), all.slice(n)].filter((part) => part.length > 0);
}

const random = randomOf(SEED);
const mutants = files(join(copy, 'dist'), '.js').flatMap((path) => {
  const text = readFileSync(path, 'utf8');
  const tree = parse(text, { ecmaVersion: 'latest', sourceType: 'module' });
  return [...changesBelow(tree, text)].map((change) => ({ ...change, path, text, rank: random() }));
});
mutants.sort((a, b) => a.rank - b.rank);
const sites = mutants.length;

const survivors = [];
for (const [n, { path, text, start, end, by }] of mutants.slice(0, COUNT).entries()) {
  const before = text.slice(0, start).split('\n');
  const map = new SourceMap(JSON.parse(readFileSync(`${path}.map`, 'utf8')));
  const { originalSource, originalLine } = map.findEntry(before.length - 1, before.at(-1).length);
  const source = relative(copy, resolve(dirname(path), originalSource));
  const what = `${source}:${originalLine + 1}: ${text.slice(start, end).split('\n')[0]} → ${by}`;
  writeFileSync(path, text.slice(0, start) + by + text.slice(end));
  const started = performance.now();
  const asked = askedOf(path, start);
  let killer = null;
  for (const part of asked) killer ??= failureOf(part.map(({ name }) => name));
  const seconds = Math.round((performance.now() - started) / 1000);
  writeFileSync(path, text);
  if (killer === null) survivors.push(what);
  console.log(
    `${n + 1}/${COUNT} ${killer === null ? 'SURVIVED' : `killed by ${killer}`}, ${asked.flat().length} test files reach it, ${seconds} s: ${what}`,
  );
}
console.log(
  `${COUNT - survivors.length} of ${COUNT} killed (${sites} places, seed ${SEED})${survivors.map((what) => `\n  survived: ${what}`).join('')}`,
);
