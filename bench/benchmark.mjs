// `node bench/benchmark.mjs [--sets | --rows | --published <data>]`: samples the sets; scores them and writes the rows; always makes docs/benchmark.md's table of the rows that are there.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { table, two, withInterval } from './fidelity/figures.mjs';
import { ROOT, rredcot } from './fidelity/program.mjs';

const ROWS = join(ROOT, 'docs/benchmark');
const PAGE = join(ROOT, 'docs/benchmark.md');
const MARKS = ['<!-- rows: bench/benchmark.mjs -->', '<!-- end of the rows -->'];

/** Flags by name of the row; `{…}` is made by what is said below. */
const METHODS = [
  ['pr', ''],
  ['pr scaled', '--steps scaled'],
  ['pr smoothed', '--steps smoothed'],
  ['pr-geo', '--estimator pr-geo'],
  ['snis', '--estimator snis --bank group'],
  ['calibrated', '--estimator calibrated --calibration {calibration.json}'],
  ['calibrated scaled', '--estimator calibrated --calibration {calibration.json} --steps scaled'],
  ['siblings', '--estimator siblings --calibration {calibration.json}'],
  ...['loo', 'attention', 'gradient'].map((name) => [name, `--estimator ${name}`]),
  ['progress', '--estimator progress --prover {prover}', 'embedded'],
  ['prm', '--estimator prm --prm {prm}', 'embedded'],
  ['mc 8', '--estimator mc --mc-samples 8 --seed 2'],
];

/** Scores a set by every method and writes the rows of its judged half. @param toy of sets.mjs */
async function writeRows(toy) {
  const { folderOf, WORK } = await import('./benchmark/sets.mjs');
  const { buildFolder } = await import('./fidelity/prepare.mjs');
  const at = (name) => join(WORK, toy.name, name);
  const policy = ['--policy', folderOf(toy)];
  const how = [...policy, '--overwrite', '--quiet'];
  // fitted to groups that no set has
  const fixtures = join(ROOT, `fixtures/${toy.name === 'puzzles' ? 'puzzles' : 'chains'}.jsonl`);
  rredcot('score', fixtures, '-o', at('fit.parquet'), '--segmenter', 'newline', ...how);
  rredcot('calibrate', at('fit.parquet'), '-o', at('calibration.json'));
  const set = join(ROOT, `fixtures/bench/${toy.name}.parquet`);
  for (const [name, flags, only = toy.name] of METHODS) {
    if (only !== toy.name) continue;
    const stem = name.replaceAll(' ', '-');
    for (const [, model] of flags.matchAll(/\{(prm|prover)\}/g))
      buildFolder(join(ROOT, 'models', model), at(model));
    const own = flags.split(' ').filter(Boolean);
    const given = own.map((flag) => flag.replace(/^\{(.*)\}$/, (_, made) => at(made)));
    const output = at(`${stem}.parquet`);
    rredcot('score', set, '-o', output, '--segmenter', 'given', ...given, ...how);
    const madeBy = [
      'rredcot score',
      `fixtures/bench/${toy.name}.parquet`,
      ...(toy.checkpoint ? ['--policy puzzles'] : []),
      '--segmenter given',
      flags,
    ]
      .join(' ')
      .replaceAll(/[{}]/g, '')
      .trim();
    judge(toy.name, output, stem, '--name', name, '--made-by', madeBy);
  }
}

function judge(set, credits, stem, ...flags) {
  const folder = join(ROWS, set.replace(/.*\/|\.parquet$/g, ''));
  mkdirSync(folder, { recursive: true });
  rredcot('bench', set, credits, '-o', join(folder, `${stem}.json`), '--half', 'judge', ...flags);
}

/** The script in the page, which reads no more than JSON lines. */
export const stranger = () => /```python\n([^`]*)```/.exec(readFileSync(PAGE, 'utf8'))[1];

/** The stranger's row of a set. */
function writeStranger(set, work) {
  mkdirSync(work, { recursive: true });
  const program = join(ROOT, 'bin/rredcot.js');
  const rows = execFileSync(process.execPath, [program, 'bench', set, '--half', 'judge'], {
    maxBuffer: 2 ** 28,
  });
  const credits = join(work, 'entropy-of-lines.jsonl');
  writeFileSync(credits, execFileSync('python3', ['-c', stranger()], { input: rows, maxBuffer: 2 ** 28 }));
  judge(
    set,
    credits,
    'entropy-of-lines',
    '--name',
    'entropy of lines',
    '--made-by',
    'the script of docs/benchmark.md',
  );
}

/** The rows of a set by name, in the order of their files. */
function storedRows(set) {
  const folder = join(ROWS, set);
  return readdirSync(folder)
    .sort()
    .map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')));
}

/** What is told of the two toys in one table. */
const COLUMNS = [
  ['share', 'all', withInterval],
  ['share', 'right', ({ value } = {}) => two(value)],
  ['share', 'wrong', ({ value } = {}) => two(value)],
  ['sign_of_large', 'all', ({ value } = {}) => two(value)],
  ['worst_segment', 'wrong', ({ value } = {}) => two(value)],
  ['hit_at_1', 'all', ({ value } = {}) => two(value)],
  ['level_error', 'all', ({ value } = {}) => two(value)],
];
const HEAD = ['', 'share', 'right', 'wrong', 'sign', 'worst', 'first wrong', 'level'];

function setTable(set) {
  const rows = storedRows(set);
  const whole = rows.find(({ name }) => name === 'pr') ?? rows[0];
  const find = ({ figures }, credit, [measure, traces]) =>
    figures.find((f) => f.credit === credit && f.measure === measure && f.traces === traces);
  const line = (title, row, credit) => ({
    order: find(row, credit, COLUMNS[0])?.value ?? -1,
    cells: [title, ...COLUMNS.map((column) => column[2](find(row, credit, column) ?? {}))],
  });
  const own = rows.map((row) =>
    line(
      `\`${row.name}\`${row.counted < row.traces ? ` (${row.counted} of ${row.traces})` : ''}`,
      row,
      'row',
    ),
  );
  const beside = [...new Set(whole.figures.map(({ credit }) => credit))].filter(
    (credit) => credit !== 'row' && credit !== 'truth',
  );
  const all = [...own, ...beside.map((credit) => line(`*${credit}*`, whole, credit))].sort(
    (a, b) => b.order - a.order,
  );
  const chance = COLUMNS.map((column) => two(find(whole, 'row', column)?.chance));
  const ceiling = find(whole, 'truth', ['ceiling', 'all']);
  const wrong = find(whole, 'row', ['pearson', 'wrong']).n_traces;
  const sizes = `${whole.traces} traces (${wrong} wrong) of ${whole.groups} groups, ${whole.segments} segments`;
  return `**${set}**: ${sizes}${ceiling === undefined ? '' : `, ceiling ${withInterval(ceiling)}`}.\n\n${table(HEAD, [...all.map(({ cells }) => cells), ['*chance*', ...chance]])}`;
}

/** The part of the page that the rows make. */
export const rowsPart = () => readdirSync(ROWS).sort().map(setTable).join('\n\n');

export function pageWith(text) {
  const page = readFileSync(PAGE, 'utf8');
  const [start, end] = MARKS.map((mark) => page.indexOf(mark));
  if (start < 0 || end < start) throw new Error(`${PAGE} lacks ${MARKS.join(' or ')}`);
  return `${page.slice(0, start + MARKS[0].length)}\n\n${text}\n\n${page.slice(end)}`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [mode, ...rest] = process.argv.slice(2);
  const sets = mode === undefined ? undefined : await import('./benchmark/sets.mjs');
  if (mode === '--sets') {
    sets.writeBifurcation();
    for (const toy of sets.TOYS) sets.sampleToy(toy);
  } else if (mode === '--rows') {
    for (const toy of sets.TOYS) await writeRows(toy);
    for (const set of ['bifurcation', ...sets.TOYS.map(({ name }) => name)])
      writeStranger(set, join(sets.WORK, set));
  } else if (mode === '--published') sets.writePublished(...rest);
  if (existsSync(ROWS)) writeFileSync(PAGE, pageWith(rowsPart()));
}
