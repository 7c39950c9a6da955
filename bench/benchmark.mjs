// `node bench/benchmark.mjs [--sets | --rows | --tested [--sets] | --published <data>]`: samples the sets; scores them and writes the rows, or those of the task with a test alone; always makes docs/benchmark.md's table of the rows that are there.
import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { table, withInterval } from './fidelity/figures.mjs';
import { ROOT, rredcot } from './fidelity/program.mjs';

const ROWS = join(ROOT, 'docs/benchmark');
const PAGE = join(ROOT, 'docs/benchmark.md');
const MARKS = ['<!-- rows: bench/benchmark.mjs -->', '<!-- end of the rows -->'];

/** Flags by name of the row, and the toy that it is of: of all, or of those that have references where none is named; `{…}` is made by what is said below. */
const METHODS = [
  ['pr', ''],
  ['pr scaled', '--steps scaled'],
  ['pr smoothed', '--steps smoothed'],
  ['pr-geo', '--estimator pr-geo'],
  ['snis', '--estimator snis --bank group'],
  ['calibrated', '--estimator calibrated --calibration {calibration.json}'],
  ['calibrated scaled', '--estimator calibrated --calibration {calibration.json} --steps scaled'],
  ['calibrated elsewhere', '--estimator calibrated --calibration {elsewhere.json}'],
  ['siblings', '--estimator siblings --calibration {calibration.json}'],
  ...['loo', 'attention', 'gradient'].map((name) => [name, `--estimator ${name}`]),
  ['progress', '--estimator progress --prover {prover}', 'embedded'],
  ['prm', '--estimator prm --prm {prm}', 'embedded'],
  ['ratio', '--estimator ratio --ref-policy {prover}', 'embedded'],
  ['posterior', '--estimator posterior --hint-policy {hint}', 'embedded'],
  ['posterior mate', '--estimator posterior --hint mate --hint-template {mate.json}', 'all'],
  ['calibrated thought', '--estimator calibrated --calibration {thought.json}', 'all'],
  ['calibrated thought scaled', '--estimator calibrated --calibration {thought.json} --steps scaled', 'all'],
  ['siblings outcomes', '--estimator siblings --calibration none', 'all'],
  ['siblings outcomes scaled', '--estimator siblings --calibration none --steps scaled', 'reach'],
  ['siblings thought', '--estimator siblings --calibration {thought.json}', 'all'],
  ['ask', '--estimator ask', 'reach'],
  ['ask scaled', '--estimator ask --steps scaled', 'reach'],
  ['calibrated asked', '--estimator calibrated --calibration {asked.json}', 'reach'],
  ['calibrated asked scaled', '--estimator calibrated --calibration {asked.json} --steps scaled', 'reach'],
  ['siblings asked', '--estimator siblings --calibration {asked.json}', 'reach'],
  ['ratio', '--estimator ratio --ref-policy {older}', 'reach'],
  ['mc 8', '--estimator mc --mc-samples 8 --seed 2'],
];

/** Fits a toy's calibration to groups that no set has. @param elsewhere the other toy's name, which has the same file under another name */
function calibrate({ name }, elsewhere, { WORK, how }) {
  const at = (file) => join(WORK, name, file);
  const fixtures = join(ROOT, `fixtures/${name === 'puzzles' ? 'puzzles' : 'chains'}.jsonl`);
  rredcot('score', fixtures, '-o', at('fit.parquet'), '--segmenter', 'newline', ...how);
  rredcot('calibrate', at('fit.parquet'), '-o', at('calibration.json'));
  calibrateBy('surprise', fixtures, at('thought.json'), how);
  mkdirSync(join(WORK, elsewhere), { recursive: true });
  copyFileSync(at('calibration.json'), join(WORK, elsewhere, 'elsewhere.json'));
}

/** Fits a calibration to what needs no reference. */
function calibrateBy(estimator, traces, output, how) {
  const scored = `${output}.parquet`;
  rredcot('score', traces, '-o', scored, '--estimator', estimator, '--segmenter', 'newline', ...how);
  rredcot('calibrate', scored, '-o', output);
}

/** Scores a set by every method and writes the rows of its judged half. @param toy of sets.mjs */
async function writeRows(toy, { WORK, how }) {
  const { buildFolder } = await import('./fidelity/prepare.mjs');
  const at = (name) => join(WORK, toy.name, name);
  // the policies have never read a hint; models/hint has, and of answers alone
  writeFileSync(at('mate.json'), JSON.stringify({ text: '{mate}\n' }));
  const set = join(ROOT, `fixtures/bench/${toy.name}.parquet`);
  for (const [name, flags, only] of METHODS) {
    if (only === undefined ? toy.isTested : only !== 'all' && only !== toy.name) continue;
    const stem = name.replaceAll(' ', '-');
    for (const [, model] of flags.matchAll(/\{(hint|prm|prover)\}/g))
      buildFolder(join(ROOT, 'models', model), at(model));
    const own = flags.split(' ').filter(Boolean);
    const given = own.map((flag) => flag.replace(/^\{(.*)\}$/, (_, made) => at(made)));
    const output = at(`${stem}.parquet`);
    rredcot('score', set, '-o', output, '--segmenter', 'given', ...given, ...how);
    const policy = toy.checkpoint ? ` --policy ${toy.name}` : '';
    const command = `rredcot score fixtures/bench/${toy.name}.parquet${policy} --segmenter given ${flags}`;
    judge(toy.name, output, stem, '--name', name, '--made-by', command.replaceAll(/[{}]/g, '').trim());
  }
}

/** Rows of the policy that has no reference. */
async function writeTestedRows({ TESTED, WORK, folderOf, olderFolder, sampleFit }) {
  const how = ['--policy', folderOf(TESTED), '--overwrite', '--quiet'];
  olderFolder();
  const fit = sampleFit();
  for (const [estimator, name] of [
    ['surprise', 'thought'],
    ['ask', 'asked'],
  ])
    calibrateBy(estimator, fit, join(WORK, TESTED.name, `${name}.json`), how);
  await writeRows(TESTED, { WORK, how });
}

function judge(set, credits, stem, ...flags) {
  const folder = join(ROWS, set.replace(/.*\/|\.parquet$/g, ''));
  mkdirSync(folder, { recursive: true });
  rredcot('bench', set, credits, '-o', join(folder, `${stem}.json`), '--half', 'judge', ...flags);
}

/** The script in the page, which reads no more than JSON lines. */
export const stranger = () => /```python\n([^`]*)```/.exec(readFileSync(PAGE, 'utf8'))[1];

/** The stranger's row of a set. */
function writeStranger(set, { WORK, linesOf }) {
  const work = join(WORK, set);
  mkdirSync(work, { recursive: true });
  const rows = linesOf(set, 'judge');
  const credits = join(work, 'entropy-of-lines.jsonl');
  writeFileSync(credits, execFileSync('python3', ['-c', stranger()], { input: rows, maxBuffer: 2 ** 28 }));
  const made = ['--name', 'entropy of lines', '--made-by', 'the script of docs/benchmark.md'];
  judge(set, credits, 'entropy-of-lines', ...made);
}

/** The rows of a set by name, in the order of their files. */
function storedRows(set) {
  const folder = join(ROWS, set);
  return readdirSync(folder)
    .sort()
    .map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')));
}

const TOYS = ['puzzles', 'embedded', 'reach'];
const find = ({ figures } = { figures: [] }, credit, measure, traces) =>
  figures.find((f) => f.credit === credit && f.measure === measure && f.traces === traces);

function sizes(set, [row]) {
  const wrong = find(row, 'row', 'pearson', 'wrong').n_traces;
  const ceiling = withInterval(find(row, 'truth', 'ceiling', 'all'));
  return `\`${set}\`: ${row.traces} traces (${wrong} wrong) of ${row.groups} groups, ${row.segments} segments, ceiling ${ceiling}.`;
}

/** A row a method, then what needs no file, both by their share of the ceiling. */
function toysTable(all) {
  const line = (title, rows, credit) => {
    const shares = rows.map((row) => find(row, credit, 'share', 'all') ?? {});
    const best = Math.max(...shares.map(({ value = -1 }) => value));
    return { best, cells: [title, ...shares.map(withInterval)] };
  };
  const less = ({ counted, traces }) => (counted < traces ? ` (${counted} of ${traces})` : '');
  // what no set tells from nothing stands in its files alone
  const isTold = (row) => find(row, 'row', 'share', 'all').low > 0.01;
  const names = [...new Set(all.flatMap((of) => of.filter(isTold)).map(({ name }) => name))];
  const own = names.map((name) => {
    const rows = all.map((of) => of.find((row) => row.name === name));
    return line(`\`${name}\`${rows.map((row) => (row ? less(row) : '')).join('')}`, rows, 'row');
  });
  const whole = all.map((of) => of.find(({ name }) => name === 'siblings outcomes'));
  const beside = ['uniform', 'surprise', 'entropy', 'shuffled'].map((credit) =>
    line(`*${credit}*`, whole, credit),
  );
  return table(
    ['', ...TOYS.map((set, n) => (n === 0 ? `share, ${set}` : set))],
    [...own, ...beside].sort((a, b) => b.best - a.best).map(({ cells }) => cells),
  );
}

/** The part of the page that the rows make. */
export function rowsPart() {
  const all = TOYS.map(storedRows);
  return `${TOYS.map((set, n) => sizes(set, all[n])).join(' ')}\n\n${toysTable(all)}`;
}

export function pageWith(text) {
  const page = readFileSync(PAGE, 'utf8');
  const [start, end] = MARKS.map((mark) => page.indexOf(mark));
  if (start < 0 || end < start) throw new Error(`${PAGE} lacks ${MARKS.join(' or ')}`);
  return `${page.slice(0, start + MARKS[0].length)}\n\n${text}\n\n${page.slice(end)}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [mode, ...rest] = process.argv.slice(2);
  const sets = mode && {
    ...(await import('./benchmark/sets.mjs')),
    ...(await import('./benchmark/tested.mjs')),
  };
  if (mode === '--sets') {
    sets.writeBifurcation();
    for (const toy of sets.TOYS) sets.sampleToy(toy);
    sets.writeTested();
  } else if (mode === '--rows') {
    const [one, other] = sets.TOYS.map((toy) => {
      const how = ['--policy', sets.folderOf(toy), '--overwrite', '--quiet'];
      return { toy, with: { WORK: sets.WORK, how } };
    });
    calibrate(one.toy, other.toy.name, one.with);
    calibrate(other.toy, one.toy.name, other.with);
    for (const { toy, with: how } of [one, other]) await writeRows(toy, how);
    await writeTestedRows(sets);
    for (const set of ['bifurcation', ...TOYS]) writeStranger(set, sets);
  } else if (mode === '--tested') {
    if (rest.includes('--sets')) sets.writeTested();
    await writeTestedRows(sets);
    writeStranger('reach', sets);
  } else if (mode === '--published') sets.writePublished(...rest);
  if (existsSync(ROWS)) writeFileSync(PAGE, pageWith(rowsPart()));
}
