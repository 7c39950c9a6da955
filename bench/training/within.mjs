// `node bench/training/within.mjs`: writes the tables of examples/grpo/within.md, as CSV, from stage 0 and the training logs of credit inside the segment.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { ROOT } from '../fidelity/program.mjs';
import { readLog } from './logs.mjs';
import { area, mean, reaches, signFlip, smoothed, wholeLooks } from './statistics.mjs';

const LOGS = join(ROOT, 'examples/grpo/logs');

/** A number in as many digits as a table needs; nothing for none. */
const cell = (value, digits = 3) => (Number.isFinite(value) ? value.toFixed(digits) : '');
/** Names with commas are quoted. */
const csv = (heads, rows) =>
  `${[heads, ...rows].map((line) => line.map((each) => (String(each).includes(',') ? `"${each}"` : each)).join(',')).join('\n')}\n`;

/** About how many groups of plain GRPO a group of the arm is worth: (part along the reference)² over that of all beside it, as a multiple. */
const worth = (cosine, plain) => {
  const ratio = (c) => Math.max(0, c) ** 2 / (1 - c ** 2);
  return ratio(cosine) / ratio(plain);
};

/** Stage 0 of one task: an arm a row, by cosine. */
export function stageZeroTable({ arms }) {
  const rows = Object.entries(arms)
    .sort(([, a], [, b]) => b.cosine - a.cosine)
    .map(([name, f]) => [
      name === 'uniform' ? 'plain GRPO' : name,
      f.blocks,
      cell(f.cosine),
      ...[f.gain, ...f.gain_interval, f.to_even, ...f.to_even_interval].map((v) => cell(v)),
      cell(worth(f.cosine, arms.uniform.cosine), 1),
      cell(f.limit ?? Number.NaN, 2),
      cell(f.norm, 2),
      cell(f.step_cosine),
      cell(f.step_spread, 2),
      cell(f.gain_mean, 1),
      cell(f.gain_median, 1),
    ]);
  const heads =
    'arm,blocks of 64 groups,cosine,less plain GRPO,low,high,less share calibrated,low,high,groups of plain GRPO,limit,norm (× plain GRPO),cosine of a step,norm of a large step (× median),sigma_gain mean,sigma_gain median';
  return csv(heads.split(','), rows);
}

/** Training logs of one task: {arm, seed, log}[]. */
function runs(name) {
  const folder = join(LOGS, name);
  return readdirSync(folder)
    .filter((file) => file.endsWith('.jsonl.gz'))
    .sort()
    .map((file) => readLog(gunzipSync(readFileSync(join(folder, file))).toString('utf8')));
}

/**
 * Steps to plain GRPO's accuracy at the end, of the same seed: where the smoothed curve first reaches it, or all steps.
 * A row a run; then a row an arm: the geometric mean of its shares of plain GRPO's steps, and p by an exact sign-flip test of their logarithms.
 */
export function trainingTable(logs) {
  const key = ({ arguments: { arm, seed } }) => `${arm}/${seed}`;
  const found = new Map(logs.map((log) => [key(log), log]));
  const stepsTo = (log, level) =>
    Math.max(1, Math.min(reaches(smoothed(log.looks), level), log.arguments.steps));
  const rows = [];
  const paired = new Map();
  for (const log of logs) {
    const { arm, seed, clip } = log.arguments;
    const plain = found.get(`uniform/${seed}`);
    if (plain === undefined) continue;
    const [early, last] = wholeLooks(log.looks).map(({ held_out }) => held_out);
    const [plainEarly, level] = wholeLooks(plain.looks).map(({ held_out }) => held_out);
    const curve = smoothed(log.looks);
    const share = stepsTo(log, level) / stepsTo(plain, level);
    const entropies = log.steps.filter(({ entropy }) => entropy !== undefined);
    const figures = {
      share,
      early: early - plainEarly,
      end: last - level,
      area: area(curve) - area(smoothed(plain.looks)),
    };
    rows.push([
      arm === 'uniform' ? 'plain GRPO' : arm,
      seed,
      cell(stepsTo(log, level), 0),
      cell(share),
      cell(early),
      cell(last),
      cell(area(curve)),
      ...[0, 0.5, 1].map((part) => cell(entropies[Math.round(part * (entropies.length - 1))]?.entropy)),
      cell(mean(log.steps.map(({ norm }) => norm))),
      cell(mean(log.steps.map(({ norm }) => Number(clip !== null && norm > clip)))),
      cell(mean(log.steps.map(({ sigma_gain }) => sigma_gain ?? Number.NaN)), 1),
      log.looks.at(-1).tokens,
    ]);
    if (arm !== 'uniform') paired.set(arm, [...(paired.get(arm) ?? []), figures]);
  }
  const summary = [...paired].map(([arm, pairs]) => {
    const of = (name) => pairs.map((each) => each[name]);
    const logarithms = of('share').map(Math.log);
    const tested = (values) => [cell(mean(values)), pairs.length > 1 ? cell(signFlip(values)) : ''];
    return [
      arm,
      pairs.length,
      cell(Math.exp(mean(logarithms))),
      pairs.length > 1 ? cell(signFlip(logarithms)) : '',
      ...tested(of('early')),
      ...tested(of('end')),
      ...tested(of('area')),
    ];
  });
  return {
    runs: csv(
      'arm,seed,steps to plain GRPO’s end,share,accuracy at 70 % of the steps,at the end,area,entropy at first,at half,at the end,mean norm,steps cut,sigma_gain,tokens'.split(
        ',',
      ),
      rows,
    ),
    arms: csv(
      'arm,seeds,share of plain GRPO’s steps,p,at 70 % of the steps less plain GRPO,p,at the end,p,area,p'.split(
        ',',
      ),
      summary,
    ),
  };
}

/** All tables: {file in examples/grpo/logs: text}. */
export function tables() {
  const made = {};
  for (const task of ['sparse', 'dense', 'minus', 'falling']) {
    const stage = join(LOGS, `stage0-within-${task}.json`);
    if (existsSync(stage))
      made[`stage0-within-${task}.csv`] = stageZeroTable(JSON.parse(readFileSync(stage, 'utf8')));
    if (!existsSync(join(LOGS, `within-${task}`))) continue;
    const { runs: each, arms } = trainingTable(runs(`within-${task}`));
    made[`within-${task}-runs.csv`] = each;
    made[`within-${task}.csv`] = arms;
  }
  return made;
}

if (process.argv[1] === import.meta.filename)
  for (const [file, text] of Object.entries(tables())) writeFileSync(join(LOGS, file), text);
