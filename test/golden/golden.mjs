// Golden rows: runs many commands on another build of the program and on this one, and compares the rows that both write.
// node test/golden/golden.mjs --base <checkout of that build> [--quick] [--only <text>]; it goes when the redesign is done.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { tableFromIPC } from 'apache-arrow';

const argument = (name) => {
  const at = process.argv.indexOf(name);
  return at < 0 ? undefined : process.argv[at + 1];
};
const isQuick = process.argv.includes('--quick');
const base = argument('--base') ?? process.env.GOLDEN_BASE;
if (base === undefined) throw new Error('--base <checkout of the earlier build>');
const only = argument('--only');
const ROOT = resolve(import.meta.dirname, '../..');
const KEPT = join(tmpdir(), 'rredcot-golden');
/** What cases read that a build makes for itself; of the earlier one `KEPT/was`. */
const NOW = join(ROOT, 'node_modules/.cache/golden-made');
const WAS = join(KEPT, 'was');

/** Arguments that had another name in the earlier build, columns, and status codes. */
const FLAGS_WERE = {
  '--references': '--bank',
  '--mix': '--even',
  '--peers': '--mates',
  '--peer-tokens': '--mate-tokens',
  '--hint-peer': '--hint-mate',
  peer: 'mate',
};
const COLUMNS_WERE = {};
const CODES_WERE = {
  'references:no-solution': 'bank:no-solution',
  'references:row': 'bank:row',
  'uniform:no-references': 'uniform:no-bank',
  'uniform:one-sided-references': 'uniform:one-sided-bank',
  'hint:no-peer': 'hint:no-mate',
  'siblings:no-peer': 'siblings:no-mate',
};
/** Columns that only one of the builds has, and that is meant. */
const COLUMNS_GONE = ['outcome_advantage', 'progress', 'token_factor'];

const CHAINS = 'fixtures/chains.jsonl';
const CALIBRATION = join(NOW, 'calibration.json');
const POLICIES = {
  prover: 'models/prover',
  hint: 'models/hint',
  reach: 'models/reach',
  puzzles: 'models/puzzles',
};
const policy = (name) => join(NOW, name);

const score = (name, ...flags) => ({ name, args: ['score', CHAINS, '--limit', '48', ...flags] });
const segment = (name, ...flags) => ({ name, args: ['segment', CHAINS, '--limit', '48', ...flags] });
const again = (name, ...flags) => ({ name, args: ['redistribute', join(NOW, 'scored.parquet'), ...flags] });
const calibrated = ['--estimator', 'calibrated', '--calibration', CALIBRATION];

const CASES = [
  // estimators
  { ...score('pr'), isQuick: true },
  ...['pr-mean', 'pr-geo', 'joint', 'joint-log', 'surprise'].map((name) => score(name, '--estimator', name)),
  score('snis', '--estimator', 'snis', '--references', 'group'),
  score('references-group', '--references', 'group'),
  { ...score('calibrated', ...calibrated), isQuick: true },
  { ...score('siblings', '--estimator', 'siblings', '--calibration', CALIBRATION), isQuick: true },
  score('siblings-none', '--estimator', 'siblings', '--calibration', 'none'),
  { ...score('progress', '--estimator', 'progress', '--prover', policy('prover')), isQuick: true },
  score('progress-best', '--estimator', 'progress', '--prover', policy('prover'), '--best-of', '4'),
  score('ratio', '--estimator', 'ratio', '--ref-policy', policy('prover')),
  score('ask', '--estimator', 'ask', '--ask-template', 'models/reach/ask_template.json'),
  { ...score('posterior', '--estimator', 'posterior', '--hint-policy', policy('hint')), isQuick: true },
  score('posterior-peer', '--estimator', 'posterior', '--hint', 'peer', '--hint-policy', policy('reach')),
  score('loo', '--estimator', 'loo'),
  score('loo-masked', '--estimator', 'loo', '--loo', 'masked'),
  {
    name: 'given',
    args: ['score', join(KEPT, 'given.jsonl'), '--estimator', 'given', '--segmenter', 'newline'],
  },
  score('module', '--estimator', './examples/own_estimator.mjs'),
  score('mc', '--estimator', 'mc', '--mc-samples', '2', '--limit', '6'),
  // rules, baselines, shaping
  ...['rudder', 'signed', 'softmax', 'entropy', 'top-entropy', 'discounted', 'uniform'].map((rule) =>
    score(`sigma-${rule}`, '--sigma', rule),
  ),
  { ...score('sigma-several', '--sigma', 'share,rudder,softmax'), isQuick: true },
  ...['group', 'rloo', 'value', '0.3'].map((baseline) =>
    score(`baseline-${baseline}`, '--baseline', baseline),
  ),
  ...['entropy', 'unsure'].map((within) => score(`within-${within}`, '--within', within)),
  score('mix', '--mix', '0.6', '--cap', '3'),
  score('steps-scaled', ...calibrated, '--steps', 'scaled'),
  score('steps-smoothed', ...calibrated, '--steps', 'smoothed'),
  score('method-segment', ...calibrated, '--method', 'segment'),
  score('method-hierarchical', '--method', 'hierarchical', '--prover', policy('prover')),
  score('reward-range', '--reward-range', '0,2'),
  // segmenters
  ...['newline', 'sentence', 'keyword', 'fixed', 'entropy', 'cutpoint'].map((name) =>
    score(`segmenter-${name}`, '--segmenter', name),
  ),
  score('segmenter-adaptive', '--segmenter', 'adaptive', '--adaptive-limit', '2'),
  { ...score('max-segments', '--max-segments', '5'), isQuick: true },
  { ...segment('segment'), isQuick: true },
  segment('segment-no-policy', '--no-policy', '--max-segments', '4'),
  // forms
  { ...score('jsonl'), ending: 'jsonl', isQuick: true },
  { ...score('arrow'), ending: 'arrow' },
  score('columns', '--columns', 'id,sigma,segments', '--drop', 'prompt'),
  { name: 'shards', args: ['score', join(KEPT, 'some.jsonl')], shards: 2, isQuick: true },
  {
    name: 'puzzles',
    args: ['score', 'fixtures/puzzles.jsonl', '--limit', '32', '--policy', policy('puzzles')],
  },
  // every dump of a preset
  ...dumps().flatMap(({ name, flags }) => [
    { name: `dump-${name}`, args: ['segment', `test/io/map/dumps/${name}.jsonl`, '--no-policy', ...flags] },
    { name: `dump-score-${name}`, args: ['score', `test/io/map/dumps/${name}.jsonl`, ...flags] },
  ]),
  // of scored rows
  { ...again('again-signed', '--sigma', 'signed,rudder'), isQuick: true },
  again('again-baseline', '--baseline', 'rloo', '--within', 'entropy'),
  { ...again('again-calibrated', ...calibrated), isQuick: true },
  again('again-pr-geo', '--estimator', 'pr-geo'),
  again('again-smoothed', ...calibrated, '--steps', 'smoothed'),
  again('again-surprise', '--estimator', 'surprise'),
  { name: 'filter', args: ['filter', join(NOW, 'scored.parquet'), '--where', 'reward>0.5'] },
];

function dumps() {
  const names = readdirSync(join(ROOT, 'test/io/map/dumps')).filter((name) => name.endsWith('.jsonl'));
  return names
    .filter((name) => !name.endsWith('.join.jsonl'))
    .map((name) => {
      const beside = `test/io/map/dumps/${basename(name, '.jsonl')}.join.jsonl`;
      return {
        name: basename(name, '.jsonl'),
        flags: existsSync(join(ROOT, beside)) ? ['--join', beside] : [],
      };
    });
}

/** Runs a build. @returns its exit code, and what it said last */
function run(root, args) {
  const { status, stderr } = spawnSync('node', [join(root, 'bin/rredcot.js'), ...args], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  return { status, said: stderr.trim().split('\n').slice(-2).join(' | ') };
}

function write(root, { name, args, ending = 'parquet', shards }, into, spelled = (flag) => flag) {
  mkdirSync(into, { recursive: true });
  const output = join(into, shards === undefined ? `${name}.${ending}` : `${name}/`);
  for (const each of [output, `${output}.rejects.jsonl`]) rmSync(each, { recursive: true, force: true });
  const flags = [...args.map(spelled), '-o', output, '--quiet'];
  if (shards === undefined) return run(root, flags);
  const all = Array.from({ length: shards }, (_, i) =>
    run(root, [...flags, ...['--shard', `${i}/${shards}`, '--rows-per-part', '16'].map(spelled)]),
  );
  return all.at(-1);
}

/** The codes and rows of what was rejected, sorted. */
function rejects(into, { name, ending = 'parquet', shards }) {
  const output = join(into, shards === undefined ? `${name}.${ending}.rejects.jsonl` : `${name}/rejects`);
  if (!existsSync(output)) return [];
  const files =
    shards === undefined
      ? [output]
      : readdirSync(output, { recursive: true }).map((each) => join(output, each));
  const lines = files
    .filter((each) => each.endsWith('.jsonl'))
    .flatMap((each) => readFileSync(each, 'utf8').trim().split('\n'));
  return lines.filter(Boolean).map((line) => { const { row, id, code } = JSON.parse(line); return `${row} ${id} ${code}`; }).sort(); // biome-ignore format: one line
}

/** Rows in a table of DuckDB's. */
async function load(db, table, into, { name, ending = 'parquet', shards }) {
  const path = join(into, shards === undefined ? `${name}.${ending}` : `${name}/**/*.parquet`);
  let from = `read_parquet('${path}', hive_partitioning=false)`;
  if (ending === 'jsonl') from = `read_json_auto('${path}', maximum_object_size=100000000)`;
  if (ending === 'arrow') {
    const rows = tableFromIPC(readFileSync(path))
      .toArray()
      .map((row) =>
        JSON.stringify(row, (_, value) =>
          typeof value === 'bigint' ? Number(value) : ArrayBuffer.isView(value) ? Array.from(value) : value,
        ),
      );
    writeFileSync(`${path}.jsonl`, rows.join('\n'));
    from = `read_json_auto('${path}.jsonl', maximum_object_size=100000000)`;
  }
  await db.run(`CREATE OR REPLACE TABLE ${table} AS SELECT * FROM ${from}`);
  const found = await db.runAndReadAll(`SELECT column_name FROM (DESCRIBE ${table})`);
  const columns = found.getRows().map(([column]) => column);
  for (const [is, was] of columns.includes('status') ? Object.entries(CODES_WERE) : [])
    await db.run(`UPDATE ${table} SET status = replace(status, '${was}', '${is}')`);
  return columns;
}

async function differences(db, each, before, after) {
  const old = await load(db, 'before', before, each);
  const now = await load(db, 'after', after, each);
  const were = (column) => COLUMNS_WERE[column] ?? column;
  const isKept = (column) => !COLUMNS_GONE.includes(column);
  const lost = old.filter((column) => isKept(column) && !now.map(were).includes(column));
  const more = now.filter((column) => isKept(column) && !old.includes(were(column)));
  const both = now.filter((column) => isKept(column) && old.includes(were(column)));
  const list = (name) => both.map((column) => `"${name(column)}"`).join(', ');
  const query = (a, fa, b, fb) =>
    `SELECT count(*) FROM (SELECT ${list(fa)} FROM ${a} EXCEPT ALL SELECT ${list(fb)} FROM ${b})`;
  const same = (column) => column;
  const count = async (sql) => Number((await db.runAndReadAll(sql)).getRows()[0][0]);
  const rows =
    (await count(query('before', were, 'after', same))) + (await count(query('after', same, 'before', were)));
  const found = [];
  if (lost.length > 0) found.push(`lost ${lost}`);
  if (more.length > 0) found.push(`new ${more}`);
  if (rows > 0) {
    const wrong = [];
    for (const column of both)
      if (
        (await count(
          `SELECT count(*) FROM (SELECT "${were(column)}" FROM before EXCEPT ALL SELECT "${column}" FROM after)`,
        )) > 0
      )
        wrong.push(column);
    found.push(`${rows} rows differ (${wrong.join(', ')})`);
  }
  return found;
}

const before = join(KEPT, 'before');
/** Makes what cases read. @param root of the build that makes it */
function make(root, folder) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const by = (cwd, ...args) =>
    execFileSync('node', [join(root, 'bin/rredcot.js'), ...args], { cwd, stdio: 'inherit' });
  for (const [name, from] of Object.entries(POLICIES)) {
    const template = join(from, 'exit_template.json');
    const exit = existsSync(join(root, template)) ? ['--exit-template', template] : [];
    by(root, 'policy', 'build', from, '-o', join(folder, name), ...exit);
  }
  by(ROOT, 'score', CHAINS, '-o', join(folder, 'scored.parquet'), '--quiet');
  by(ROOT, 'calibrate', join(folder, 'scored.parquet'), '-o', join(folder, 'calibration.json'), '--quiet');
}
if (!existsSync(join(WAS, 'given.jsonl'))) {
  rmSync(KEPT, { recursive: true, force: true });
  make(base, WAS);
  const newline = join(WAS, 'newline.jsonl');
  run(base, ['score', CHAINS, '--limit', '32', '--segmenter', 'newline', '-o', newline, '--quiet']);
  const rows = readFileSync(newline, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  const given = rows.map(
    ({ id, group, prompt, prompt_ids, completion, completion_ids, reward, value_start, segments }) => {
      const thoughts = segments.filter(({ kind }) => kind === 'thought');
      return {
        id,
        group,
        prompt,
        prompt_ids,
        completion,
        completion_ids,
        reward,
        values: [value_start, ...thoughts.map(({ value }) => value)],
      };
    },
  );
  for (const path of [join(KEPT, 'given.jsonl'), join(WAS, 'given.jsonl')])
    writeFileSync(path, given.map((row) => `${JSON.stringify(row)}\n`).join(''));
}
make(ROOT, NOW);

writeFileSync(
  join(KEPT, 'some.jsonl'),
  readFileSync(join(ROOT, CHAINS), 'utf8').split('\n').slice(0, 48).join('\n'),
);
const db = await (await DuckDBInstance.create()).connect();
let differs = 0;
const chosen = CASES.filter((each) =>
  only === undefined ? !isQuick || each.isQuick : each.name.includes(only),
);
const after = join(ROOT, 'node_modules/.cache/golden');
for (const each of chosen) {
  const done = join(before, `${each.name}.json`);
  if (!existsSync(done)) {
    const was = write(base, each, before, (argument) => FLAGS_WERE[argument] ?? argument.replace(NOW, WAS));
    writeFileSync(done, JSON.stringify({ args: each.args, ...was }));
  }
  const was = JSON.parse(readFileSync(done, 'utf8'));
  const is = write(ROOT, each, after);
  const found = [];
  if (was.status !== is.status) found.push(`exit ${was.status} is ${is.status}: ${is.said}`);
  else if (is.status === 0) found.push(...(await differences(db, each, before, after)));
  if (JSON.stringify(rejects(before, each)) !== JSON.stringify(rejects(after, each)))
    found.push('rejects differ');
  if (found.length > 0) {
    differs++;
    console.log(`${each.name}: ${found.join('; ')}`);
  }
}
console.log(`golden rows: ${chosen.length - differs} the same, ${differs} differ`);
process.exitCode = differs > 0 ? 1 : 0;
