// Changes one place of the built program at a time and runs the tests: a change that no test notices is named.
// `npm run mutations -- [count] [seed]`; takes hours, on a copy of the project.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parse } from 'acorn';

const COUNT = Number(process.argv[2] ?? 100);
const SEED = Number(process.argv[3] ?? 1);
/** Test files that are asked of each mutant by itself take so long together. */
const FIRST_SECONDS = 45;
/** So many test files run at a time. */
const AT_ONCE = 2;
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

/** Runs test files, `null` for success and otherwise why it is none. A test that takes four times as long as all of them hangs. */
async function failureOf(names, { env = {}, seconds = 400 } = {}) {
  const vitest = join(copy, 'node_modules/vitest/vitest.mjs');
  const most = Math.round(1000 * Math.max(60, 4 * seconds));
  const child = spawn(
    process.execPath,
    [vitest, 'run', '--bail', '1', '--testTimeout', String(most), ...names],
    {
      cwd: copy,
      env: { ...process.env, ...env },
      timeout: most + 60_000,
      killSignal: 'SIGKILL',
      stdio: 'ignore',
    },
  );
  const [status, signal] = await once(child, 'exit');
  return signal !== null ? 'the clock' : status !== 0 ? 'a test' : null;
}

/**
 * Which bytes of our modules ran in the processes and threads that a test file starts: of each module, what V8 counted.
 * Vitest rewrites what a test itself imports, so these modules count as a whole.
 */
async function coverageOf(name) {
  const folder = mkdtempSync(join(tmpdir(), 'rredcot-coverage-'));
  const started = performance.now();
  try {
    const failure = await failureOf([name], { env: { NODE_V8_COVERAGE: folder } });
    if (failure !== null) return { name, failure };
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
const waiting = [...tests];
await Promise.all(
  Array.from({ length: AT_ONCE }, async () => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
      const found = await coverageOf(name);
      if (found.failure === undefined) covered.push(found);
      const told =
        found.failure === undefined ? `${Math.round(found.seconds)} s` : 'fails without any change: left out';
      console.log(`${name}: ${told} (${waiting.length} to go)`);
    }
  }),
);
covered.sort((a, b) => a.seconds - b.seconds);

const random = randomOf(SEED);
const places = files(join(copy, 'dist'), '.js').flatMap((path) => {
  const text = readFileSync(path, 'utf8');
  const tree = parse(text, { ecmaVersion: 'latest', sourceType: 'module' });
  return [...changesBelow(tree, text)].map((change) => ({ ...change, path, text, rank: random() }));
});
places.sort((a, b) => a.rank - b.rank);

const secondsOf = (parts) => parts.reduce((sum, { seconds }) => sum + seconds, 0);
const namesOf = (parts) => parts.map(({ name }) => name);

function whatOf({ path, text, start, end, by }) {
  const before = text.slice(0, start).split('\n');
  const map = new SourceMap(JSON.parse(readFileSync(`${path}.map`, 'utf8')));
  const { originalSource, originalLine } = map.findEntry(before.length - 1, before.at(-1).length);
  const source = relative(copy, resolve(dirname(path), originalSource));
  return `${source}:${originalLine + 1}: ${text.slice(start, end).split('\n')[0]} → ${by}`;
}

/** Do these test files fail with these mutants in their places? */
async function failureWith(mutants, parts) {
  const changed = new Map();
  // from the end of a file to its beginning, so that places stay what they are; what lies inside another is left out
  for (const { path, text, start, end, by } of [...mutants].sort((a, b) => b.start - a.start)) {
    const now = changed.get(path) ?? { text, original: text, from: text.length };
    if (end > now.from) continue;
    changed.set(path, { ...now, text: now.text.slice(0, start) + by + now.text.slice(end), from: start });
  }
  for (const [path, { text }] of changed) writeFileSync(path, text);
  try {
    return await failureOf(namesOf(parts), { seconds: secondsOf(parts) });
  } finally {
    for (const [path, { original }] of changed) writeFileSync(path, original);
  }
}

/** Of mutants that may hide one another, those that one test file kills: the half that it fails with is halved again. */
async function killedBy(mutants, test) {
  if (mutants.length === 0 || (await failureWith(mutants, [test])) === null) return [];
  if (mutants.length === 1) return mutants;
  const half = mutants.length >> 1;
  return [...(await killedBy(mutants.slice(0, half), test)), ...(await killedBy(mutants.slice(half), test))];
}

/** The tests of the folder that is called as the mutant's own, which are the likeliest to notice it, and then the quickest. */
function firstAsked({ path }, reached) {
  const room = dirname(relative(join(copy, 'dist'), path));
  const near = reached.filter(({ name }) => dirname(relative('test', name)) === room);
  const asked = [];
  for (const test of [...near, ...reached.filter((each) => !near.includes(each))])
    if (secondsOf([...asked, test]) <= (near.includes(test) ? 4 * FIRST_SECONDS : FIRST_SECONDS))
      asked.push(test);
  return asked;
}

// First each mutant by itself, before the likeliest and the quickest of the tests that reach it
const mutants = places.slice(0, COUNT).map((place) => ({ ...place, what: whatOf(place) }));
let alive = [];
for (const [n, mutant] of mutants.entries()) {
  const reached = covered.filter((test) => isCovered(test, mutant.path, mutant.start));
  const first = firstAsked(mutant, reached);
  const started = performance.now();
  const killer = first.length === 0 ? null : await failureWith([mutant], first);
  const seconds = Math.round((performance.now() - started) / 1000);
  mutant.left = reached.filter((test) => !first.includes(test));
  if (killer === null) alive.push(mutant);
  const verdict = killer === null ? `alive, ${mutant.left.length} to ask` : `killed by ${killer}`;
  console.log(
    `${n + 1}/${COUNT} ${verdict}, ${reached.length} test files reach it, ${seconds} s: ${mutant.what}`,
  );
}

// then those that live, together, before every test file that is left: most of what is left to run kills none of them
for (const test of covered) {
  const asked = alive.filter(({ left }) => left.includes(test));
  for (const dead of await killedBy(asked, test)) {
    alive = alive.filter((mutant) => mutant !== dead);
    console.log(`killed by ${test.name}: ${dead.what}`);
  }
}
console.log(
  `${COUNT - alive.length} of ${COUNT} killed (${places.length} places, seed ${SEED})${alive.map(({ what }) => `\n  survived: ${what}`).join('')}`,
);
