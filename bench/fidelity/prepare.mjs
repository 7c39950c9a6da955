// One policy in, its traces split, calibrated and scored by every estimator out, with the states that are to be sampled from.
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { estimatorNamed } from '../../dist/estimate/registry.js';
import { readLines, rredcot, writeLines } from './program.mjs';
import { fineRows, sampledEnds, splitGroups } from './traces.mjs';

/** Credits that are held against the truth: flags beside the estimator's name. `{…}` is what was made before. */
const CALIBRATION = ['--calibration', '{calibration}'];
const VALUES = [
  ['pr', []],
  ['pr-mean', []],
  ['pr-geo', []],
  ['joint', ['--bank', 'group']],
  ['joint-log', ['--bank', 'group']],
  ['snis', ['--bank', 'group']],
  ['calibrated', CALIBRATION],
  ['siblings', CALIBRATION],
  ...['surprise', 'loo', 'attention', 'gradient'].map((name) => [name, []]),
  ['progress', ['--prover', '{prover}']],
  ['prm', ['--prm', '{prm}']],
  ['posterior', ['--hint-template', '{hint}', '--hint-policy', '{hinter}']],
].filter(([name]) => estimatorNamed(name));

/** What else is scored, for the paper's figures 5 and 6. */
const BESIDE = [
  ['reference', ['--estimator', 'prm', '--prm', '{prm}', '--prm-reference']],
  // the row's own solution, where the table's bank is the group's
  ['solution', ['--estimator', 'joint-log']],
];

/** Estimators that further features of the calibrated value come from: those have to be known of the traces that are fitted to. */
const FEATURES_OF = new Set(['pr', 'loo', 'attention', 'gradient', 'progress', 'prm', 'posterior']);

/** What is interrupted goes on with the next so many traces. */
const ROWS_A_CHUNK = 4;

/**
 * @param policy of bench/fidelity.mjs
 * @param work its folder for all that is made
 * @returns judge: rows of the traces that are judged; scored: by estimator, its rows of them; fitted: the same of those that are fitted
 * to, of the estimators that features come from; beside: rows for the reward model's figures, where there is one; summaries of the runs;
 * fine: numbers of the rows that are looked at token by token; chunks: of the Monte Carlo run, tokens that are likely to be written in each
 */
export function prepare(policy, work, samples) {
  mkdirSync(work, { recursive: true });
  const at = (name) => join(work, name);
  const folder = policy.folder ?? at('policy');
  if (policy.folder === undefined) buildFolder(policy.checkpoint, folder);
  // where there is no copy that reads hints, the policy itself is asked, which has never seen one
  const made = { calibration: at('calibration.json'), hint: at('hint.json'), hinter: folder };
  writeLines(made.hint, [{ text: 'hint {answer}\n' }]);
  for (const other of ['prover', 'prm', 'hinter'].filter((name) => policy[name] !== undefined)) {
    made[other] = at(other);
    buildFolder(policy[other], made[other]);
  }
  const { fit, judge } = splitGroups(readLines(policy.traces), policy);
  writeLines(at('fit.jsonl'), fit);
  writeLines(at('judge.jsonl'), judge);
  const common = ['--policy', folder, '--segmenter', 'newline', '--overwrite', '--quiet'];
  const score = (input, output, ...flags) =>
    rredcot('score', at(input), '-o', at(output), ...common, ...flags);

  score('fit.jsonl', 'fit.parquet');
  rredcot('calibrate', at('fit.parquet'), '-o', at('calibration.json'));
  const scored = new Map();
  const fitted = new Map();
  const summaries = new Map();
  const givenOf = (flags) => flags.map((flag) => flag.replace(/^\{(.*)\}$/, (_, what) => made[what] ?? ''));
  for (const [name, flags] of VALUES) {
    if (name.startsWith('joint') && !policy.hasSolutions) continue;
    const given = givenOf(flags);
    // a second model that this policy's task does not have
    if (given.includes('')) continue;
    score('judge.jsonl', `${name}.jsonl`, '--estimator', name, ...given, '--sigma', 'share,surprise,entropy');
    scored.set(name, readLines(at(`${name}.jsonl`)));
    summaries.set(name, JSON.parse(readFileSync(at(`${name}.jsonl.summary.json`), 'utf8')));
    if (!FEATURES_OF.has(name)) continue;
    score('fit.jsonl', `fit-${name}.jsonl`, '--estimator', name, ...given);
    fitted.set(name, readLines(at(`fit-${name}.jsonl`)));
  }
  const beside = {};
  for (const [name, flags] of made.prm === undefined ? [] : BESIDE) {
    score('judge.jsonl', `${name}.jsonl`, ...givenOf(flags));
    beside[name] = readLines(at(`${name}.jsonl`));
  }

  // one Monte Carlo run has all that is sampled: at the ends of lines, and of some traces before every token that was not sure
  const base = scored.get('pr');
  const fine = fineRows(base, policy.fine);
  const ends = base.map((row, i) => sampledEnds(row, fine.has(i)));
  writeLines(
    at('sampled.jsonl'),
    judge.map((row, i) => ({ ...row, segment_ends: ends[i] })),
  );
  const chunks = [];
  for (const [i, own] of ends.entries()) {
    const chunk = Math.floor(i / ROWS_A_CHUNK);
    const left = [0, ...own].reduce((sum, end) => sum + judge[i].completion_ids.length - end, 0);
    chunks[chunk] = (chunks[chunk] ?? 0) + samples * left;
  }
  const calibration = JSON.parse(readFileSync(at('calibration.json'), 'utf8'));
  const traces = { fit: fit.length, judge, base, scored, fitted, beside, fine };
  return { policy, at, folder, ...traces, summaries, calibration, chunks };
}

/** A policy folder, or one of a reward model, in the place of what was there. */
export function buildFolder(checkpoint, folder) {
  rmSync(folder, { recursive: true, force: true });
  const template = join(checkpoint, 'exit_template.json');
  const flags = existsSync(template) ? ['--exit-template', template] : [];
  rredcot('policy', 'build', checkpoint, '-o', folder, ...flags);
}

/** The flags of the Monte Carlo run. */
export function samplingFlags({ at, folder }, samples) {
  const how = ['--estimator', 'mc', '--mc-samples', `${samples}`, '--seed', '1', '--keep-samples'];
  const form = ['--format', 'jsonl', '--rows-per-part', `${ROWS_A_CHUNK}`];
  const what = ['--segmenter', 'given', '--columns', 'id,segments,value_start'];
  return [at('sampled.jsonl'), '-o', at('mc/'), '--policy', folder, ...how, ...form, ...what, '--quiet'];
}
