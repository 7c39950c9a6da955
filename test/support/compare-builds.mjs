// Compares two builds of the program: runs both over the same inputs and compares what they write, value for value.
//
//   node test/support/compare-builds.mjs <old checkout> <new checkout> [--data <folder with dumps>] [--quick]
//                                        [--only <text in a case's name>] [--cache <folder>]
//
// Both checkouts are built before. Compared: exit codes, the names of the files, column names, order and types, number
// and order of rows, every value by its bits (NaN equals NaN), rejects line for line. Not compared: metadata, dataset
// cards, what is inside a run folder, messages. Prints one line a case and the first difference of each that fails; exit
// code 1 where any does. --cache keeps the inputs and what the old build wrote, by its commit and the bytes of its dist/.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { makeCases } from './compare-cases.mjs';
import { compareFolders } from './compare-outputs.mjs';
import { hashOfTree, makeInputs, runCase } from './compare-run.mjs';

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    data: { type: 'string' },
    cache: { type: 'string' },
    only: { type: 'string', default: '' },
    quick: { type: 'boolean', default: false },
  },
});
if (positionals.length !== 2) throw new Error('two checkouts are expected: <old checkout> <new checkout>');
const [oldBuild, newBuild] = positionals.map((path) => resolve(path));
for (const build of [oldBuild, newBuild]) {
  if (!existsSync(join(build, 'dist'))) throw new Error(`${build} has no dist/: npm run build makes it`);
}

const scratch = mkdtempSync(join(tmpdir(), 'rredcot-compare-'));
process.on('exit', () => rmSync(scratch, { recursive: true, force: true }));
const kept = flags.cache === undefined ? scratch : resolve(flags.cache);
const commit = execFileSync('git', ['-C', oldBuild, 'rev-parse', '--short=12', 'HEAD']).toString().trim();
const oldOutputs = join(kept, `${commit}-${hashOfTree(join(oldBuild, 'dist'), '.js')}`);
const inputs = makeInputs(join(oldOutputs, 'inputs'), oldBuild, newBuild, flags.data);
mkdirSync(oldOutputs, { recursive: true });

const cases = makeCases(inputs.files, flags.quick).filter((each) => each.name.includes(flags.only));
const started = performance.now();
let failed = 0;

async function compareCase(each) {
  const before = await runCase(oldBuild, oldOutputs, inputs, each, true);
  const after = await runCase(newBuild, join(scratch, 'new'), inputs, each, false);
  const differences =
    before.codes.join() === after.codes.join()
      ? await compareFolders(before.folder, after.folder)
      : { first: `exit codes ${before.codes} before, ${after.codes} now: ${after.lastError}`, rows: 0 };
  if (differences.first !== null) failed += 1;
  const seconds = `${before.seconds.toFixed(1)} s before, ${after.seconds.toFixed(1)} s now`;
  const ended = before.codes.every((code) => code === 0)
    ? ''
    : `, exit ${before.codes} (${before.lastError.split('\n')[0]})`;
  console.log(
    `${differences.first === null ? 'equal ' : 'DIFFER'} ${each.name}: ${differences.rows} rows, ${seconds}${ended}`,
  );
  if (differences.first !== null) console.log(`       ${differences.first.replaceAll('\n', '\n       ')}`);
  rmSync(after.folder, { recursive: true, force: true });
}

// two at a time: most of a short run is its start
const waiting = [...cases];
const next = async () => {
  for (let each = waiting.shift(); each !== undefined; each = waiting.shift()) await compareCase(each);
};
await Promise.all([next(), next()]);
console.log(
  `${cases.length} cases, ${failed} differ, ${((performance.now() - started) / 1000).toFixed(0)} s`,
);
process.exitCode = failed > 0 ? 1 : 0;
