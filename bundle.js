// The modules that tsc has written in, the program in a few files out (dist/program): a start reads these, not 400 others.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { build } from 'rolldown';

/** They hold machine code, and find it beside themselves. */
const AS_THEY_ARE = [/^onnxruntime-node$/, /^parquet-wasm/];
const OUT = 'dist/program';

const modules = readdirSync('dist', { recursive: true, encoding: 'utf8' }).map((name) => join('dist', name));
const threads = modules.filter((path) => path.endsWith('-thread.js') && !path.startsWith(OUT));
const entries = ['dist/cli/program.js', ...threads];

/** What is read at every start, and by threads. */
const reached = {};

// rolldown's own command lists the files that it has written, and cannot be told not to
await build({
  input: Object.fromEntries(entries.map((path) => [basename(path, '.js'), path])),
  platform: 'node',
  // a module may be needed at once in one place and later in another
  checks: { ineffectiveDynamicImport: false },
  external: AS_THEY_ARE,
  plugins: [{ name: 'licences', generateBundle: writeLicences }],
  output: {
    dir: OUT,
    cleanDir: true,
    chunkFileNames: '[name]-[hash].js',
    codeSplitting: {
      groups: [
        {
          debugName: 'start',
          name: (id, context) => (ofEveryStart(context).has(id) ? chunkOf(id, context) : null),
        },
      ],
    },
  },
});

/** What every command reads before it knows which one it is: one file, and another of what threads read, too, without the rest. */
function ofEveryStart(context) {
  reached.start ??= reachedFrom(resolve('dist/cli/program.js'), context);
  return reached.start;
}

function chunkOf(id, context) {
  reached.threads ??= threads.reduce((found, path) => reachedFrom(resolve(path), context, found), new Set());
  return reached.threads.has(id) ? 'every' : 'start';
}

function reachedFrom(id, context, found = new Set()) {
  if (found.has(id)) return found;
  found.add(id);
  for (const next of context.getModuleInfo(id)?.importedIds ?? []) reachedFrom(next, context, found);
  return found;
}

/** The licence of every package of which the files hold something, beside them. */
function writeLicences(_, bundle) {
  const inside = Object.values(bundle).flatMap(({ moduleIds = [] }) => moduleIds);
  const folders = new Set(inside.filter((id) => id.includes('/node_modules/')).map(packageFolder));
  const texts = [...folders].sort().map(licence);
  this.emitFile({ type: 'asset', fileName: 'LICENCES.txt', source: texts.join(`\n${'-'.repeat(79)}\n\n`) });
}

function licence(folder) {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const file = readdirSync(folder).find((name) => /^licen[cs]e/i.test(name));
  if (file === undefined && license === undefined) throw new Error(`${name}: no licence`);
  return `${name} ${version}: ${license}\n\n${file === undefined ? '' : readFileSync(join(folder, file), 'utf8')}`;
}

function packageFolder(module) {
  let folder = dirname(module);
  while (!hasName(join(folder, 'package.json'))) folder = dirname(folder);
  return folder;
}

function hasName(manifest) {
  return existsSync(manifest) && JSON.parse(readFileSync(manifest, 'utf8')).version !== undefined;
}
