// `npm run fidelity [-- --quick] [-- --only embedded|puzzles]`: holds every value against Monte Carlo on two policies, writes docs/fidelity.md.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { firstMistake } from './fidelity/known-lines.mjs';
import { fidelityPage } from './fidelity/page.mjs';
import { curves } from './fidelity/plot.mjs';

const ROOT = resolve(import.meta.dirname, '..');
const PROGRAM = join(ROOT, 'bin/rredcot.js');
const isQuick = process.argv.includes('--quick');
const only = process.argv.includes('--only') ? process.argv[process.argv.indexOf('--only') + 1] : undefined;
/** What was made before stays here: Monte Carlo runs are taken up again where they were. */
const WORK = join(ROOT, isQuick ? '.fidelity-quick' : '.fidelity');
/** Completions of each half of the truth. */
const HALF = isQuick ? 8 : 32;
const SEGMENTS = ['--segmenter', 'newline'];

/** Each policy's traces by groups: one in `fitEvery` is fitted to, of the others the first `judged` of each family are judged. */
const POLICIES = [
  {
    name: 'embedded',
    title: 'The bundled policy',
    folder: join(ROOT, 'models/embedded'),
    traces: join(ROOT, 'fixtures/chains.jsonl'),
    fitEvery: 8,
    judged: isQuick ? 2 : 20,
    mistake: ({ prompt, completion }) => firstMistake(prompt, completion),
    hasSolutions: true,
  },
  {
    name: 'puzzles',
    title: 'The second policy',
    checkpoint: join(ROOT, 'models/puzzles'),
    traces: join(ROOT, 'fixtures/puzzles.jsonl'),
    fitEvery: 2,
    judged: isQuick ? 2 : 8,
    mistake: ({ mistake }) => mistake,
    hasSolutions: false,
  },
];

/** Values that are held against the truth: name, flags. `{calibration}` is the calibration fitted before. */
const VALUES = [
  ['pr', ['--estimator', 'pr']],
  ['pr-mean', ['--estimator', 'pr-mean']],
  ['pr-geo', ['--estimator', 'pr-geo']],
  ['joint', ['--estimator', 'joint', '--bank', 'group']],
  ['joint-log', ['--estimator', 'joint-log', '--bank', 'group']],
  ['snis', ['--estimator', 'snis', '--bank', 'group']],
  ['calibrated', ['--estimator', 'calibrated', '--calibration', '{calibration}']],
  ['mc-20', ['--estimator', 'mc', '--mc-samples', '20', '--seed', '3']],
];
/** Values that are no probabilities of winning have no level. */
const WITHOUT_LEVEL = new Set(['joint', 'joint-log']);

/** Columns that `compare` reads beside the credits. */
const COMPARED = [
  ...['id', 'group', 'reward', 'segments', 'sigma_surprise', 'sigma_entropy'],
  ...['value_start', 'completion_ids', 'status'],
];

const readLines = (path) =>
  readFileSync(path, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
/** A file that is the same already is left alone: a run goes on only where its input is what it was. */
function writeLines(path, rows) {
  const text = rows.map((row) => `${JSON.stringify(row)}\n`).join('');
  if (!existsSync(path) || readFileSync(path, 'utf8') !== text) writeFileSync(path, text);
}

/** @returns seconds that it took */
function rredcot(...args) {
  console.error(`$ rredcot ${args.map((arg) => basename(arg)).join(' ')}`);
  const started = performance.now();
  execFileSync(process.execPath, [PROGRAM, ...args], { stdio: ['ignore', 'ignore', 'inherit'] });
  return (performance.now() - started) / 1000;
}

/** Chunks of a finished JSONL run, in their order. */
function chunksOf(folder) {
  const names = readdirSync(join(folder, 'chunks'), { recursive: true, encoding: 'utf8' });
  return names
    .filter((name) => name.endsWith('.jsonl'))
    .sort((a, b) => (basename(a) < basename(b) ? -1 : 1))
    .flatMap((name) => readLines(join(folder, 'chunks', name)));
}

/** Which traces are fitted to, and which are judged: whole groups, never in both. */
function split({ traces, fitEvery, judged }) {
  const rows = readLines(traces);
  const families = new Map();
  for (const { group, family } of rows) families.set(family, (families.get(family) ?? new Set()).add(group));
  const fit = new Set();
  const judge = new Set();
  for (const groups of families.values())
    for (const [n, group] of [...groups].entries())
      if (n % fitEvery === 0) fit.add(group);
      else if ([...groups].slice(0, n).filter((_, m) => m % fitEvery !== 0).length < judged) judge.add(group);
  return {
    fit: rows.filter(({ group }) => fit.has(group)),
    judge: rows.filter(({ group }) => judge.has(group)),
  };
}

const thoughtsOf = ({ segments }) => segments.filter(({ kind }) => kind === 'thought');
const valuesOf = (row) => [row.value_start, ...thoughtsOf(row).map(({ value }) => value)];
const mean = (numbers) => numbers.reduce((sum, x) => sum + x, 0) / numbers.length;

/** Mean over traces of the mean |v̂ − v| over exits. */
function levelError(rows, truth) {
  return mean(rows.map((row, i) => mean(valuesOf(row).map((value, k) => Math.abs(value - truth[i][k])))));
}

function measure(policy) {
  const work = join(WORK, policy.name);
  mkdirSync(work, { recursive: true });
  const at = (name) => join(work, name);
  const folder = policy.folder ?? at('policy');
  if (policy.folder === undefined) {
    rmSync(folder, { recursive: true, force: true });
    rredcot(
      'policy',
      'build',
      policy.checkpoint,
      '-o',
      folder,
      '--exit-template',
      join(policy.checkpoint, 'exit_template.json'),
    );
  }
  const { fit, judge } = split(policy);
  writeLines(at('fit.jsonl'), fit);
  writeLines(at('judge.jsonl'), judge);
  const common = ['--policy', folder, ...SEGMENTS, '--quiet'];
  const score = (input, output, flags) => rredcot('score', at(input), '-o', at(output), ...common, ...flags);

  // the truth, in two halves
  const monteCarlo = (half, seed) => {
    const flags = ['--estimator', 'mc', '--mc-samples', `${HALF}`, '--seed', `${seed}`, '--format', 'jsonl'];
    score('judge.jsonl', `mc-${half}/`, [...flags, '--columns', 'id,segments,value_start']);
    // one that was taken up again took longer than its last part
    const { seconds } = JSON.parse(readFileSync(at(`mc-${half}.summary.json`), 'utf8'));
    return { seconds, rows: chunksOf(at(`mc-${half}`)) };
  };
  const [a, b] = [monteCarlo('a', 1), monteCarlo('b', 2)];
  const halves = [a, b].map(({ rows }) => rows.map(valuesOf));
  const truth = halves[0].map((values, i) => values.map((value, k) => (value + halves[1][i][k]) / 2));

  score('fit.jsonl', 'fit.parquet', []);
  rredcot('calibrate', at('fit.parquet'), '-o', at('calibration.json'));

  const values = VALUES.filter(([name]) => policy.hasSolutions || !name.startsWith('joint'));
  const seconds = {};
  const levels = {};
  const files = values.map(([name, flags]) => {
    const file = `${name.replaceAll(/[^a-z0-9-]/g, '')}.jsonl`;
    const given = flags.map((flag) => flag.replace('{calibration}', at('calibration.json')));
    seconds[name] = score('judge.jsonl', file, [...given, '--sigma', 'share,surprise,entropy']);
    return [name, file];
  });
  for (const [name, file] of files)
    if (!WITHOUT_LEVEL.has(name)) levels[name] = levelError(readLines(at(file)), truth);

  // one file with everything that is compared
  const base = readLines(at(files[0][1]));
  const others = files.map(([name, file]) => [name, readLines(at(file))]);
  const rows = base.map((row, i) => {
    const differences = (values) => values.slice(1).map((value, k) => value - values[k]);
    const mc = { mc: truth[i], mc_a: halves[0][i], mc_b: halves[1][i] };
    const credits = {
      ...Object.fromEntries(Object.entries(mc).map(([name, values]) => [name, differences(values)])),
      // as the program writes them: those of `joint` are no differences of what it stores
      ...Object.fromEntries(
        others.map(([name, own]) => [name, thoughtsOf(own[i]).map(({ delta }) => delta)]),
      ),
    };
    const line = policy.mistake(judge[i]);
    const isSegment = line !== null && line < thoughtsOf(row).length;
    const ours = Object.fromEntries(COMPARED.map((name) => [name, row[name]]));
    return { ...ours, credits, mistake: isSegment ? line : null };
  });
  writeLines(at('credits.jsonl'), rows);
  const flags = Object.keys(rows[0].credits).flatMap((name) => ['--credit', `${name}=credits.${name}`]);
  const told = execFileSync(
    process.execPath,
    [
      PROGRAM,
      'compare',
      at('credits.jsonl'),
      ...flags,
      '--truth',
      'mc',
      '--halves',
      'mc_a,mc_b',
      '--label',
      'first_wrong=mistake',
      '--json',
    ],
    { encoding: 'utf8', maxBuffer: 2 ** 28, stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const tokens = judge.reduce((sum, { completion_ids }) => sum + completion_ids.length, 0);
  const calibration = JSON.parse(readFileSync(at('calibration.json'), 'utf8'));
  seconds[`mc-${2 * HALF}`] = a.seconds + b.seconds;
  return {
    policy,
    comparison: JSON.parse(told),
    levels,
    seconds,
    tokens,
    calibration,
    fit: fit.length,
    half: HALF,
  };
}

const measured = POLICIES.filter(({ name }) => only === undefined || name === only).map(measure);
if (isQuick || only !== undefined) console.log(fidelityPage(measured));
else {
  writeFileSync(join(ROOT, 'docs/fidelity.md'), fidelityPage(measured));
  for (const { policy, comparison } of measured)
    writeFileSync(join(ROOT, `docs/fidelity-${policy.name}.svg`), curves(policy.title, comparison));
}
