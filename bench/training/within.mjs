// `node bench/training/within.mjs`: writes the tables of examples/grpo/within.md, as CSV, from stage 0 and the training logs of credit inside the segment,
// and of every arm with σ from values one figure over all pairs of runs that there are.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { LEVELS } from './figures.mjs';
import { LOGS, runsOf } from './logs.mjs';
import { area, interval, mean, reaches, signFlip, smoothed, wholeLooks } from './statistics.mjs';

/** A number in as many digits as a table needs; nothing for none. */
const cell = (value, digits = 3) => (Number.isFinite(value) ? value.toFixed(digits) : '');
/** Names with commas are quoted. */
const csv = (heads, rows) =>
  `${[heads.split(','), ...rows].map((line) => line.map((each) => (String(each).includes(',') ? `"${each}"` : each)).join(',')).join('\n')}\n`;

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
  return csv(
    'arm,blocks of 64 groups,cosine,less plain GRPO,low,high,less share calibrated,low,high,groups of plain GRPO,limit,norm (× plain GRPO),cosine of a step,norm of a large step (× median),sigma_gain mean,sigma_gain median',
    rows,
  );
}

const key = ({ arguments: { arm, seed } }) => `${arm}/${seed}`;
/** Steps to where the smoothed curve first reaches the level; all of them where it never does. */
const stepsTo = (log, level) =>
  Math.max(1, Math.min(reaches(smoothed(log.looks), level), log.arguments.steps));

/** What is told of a run and plain GRPO's of the same seed: shares of its steps, to its own end and to a level that is the same for all; and differences. */
function pairOf(log, plain, level) {
  const [early, last] = wholeLooks(log.looks).map(({ held_out }) => held_out);
  const [plainEarly, end] = wholeLooks(plain.looks).map(({ held_out }) => held_out);
  return {
    share: stepsTo(log, end) / stepsTo(plain, end),
    level: stepsTo(log, level) / stepsTo(plain, level),
    early: early - plainEarly,
    end: last - end,
    area: area(smoothed(log.looks)) - area(smoothed(plain.looks)),
  };
}

/** Runs that have one of plain GRPO beside them: [run, plain GRPO's][] */
function paired(logs) {
  const found = new Map(logs.map((log) => [key(log), log]));
  return logs.flatMap((log) => {
    const plain = found.get(`uniform/${log.arguments.seed}`);
    return plain === undefined ? [] : [[log, plain]];
  });
}

/** A mean of pairs and its p by an exact sign-flip test; of shares the geometric one. */
function tested(values, isShare = false) {
  const measured = isShare ? values.map(Math.log) : values;
  const middle = isShare ? Math.exp(mean(measured)) : mean(measured);
  return [cell(middle), values.length > 1 ? cell(signFlip(measured)) : ''];
}

/**
 * A row a run; then a row an arm: the geometric means of its shares of plain GRPO's steps, means of its differences, and p of each.
 * @param logs of one task and setting
 */
export function trainingTable(logs) {
  const rows = [];
  const byArm = new Map();
  const top = LEVELS[logs[0].arguments.density].at(-1);
  for (const [log, plain] of paired(logs)) {
    const { arm, seed, clip } = log.arguments;
    const [early, last] = wholeLooks(log.looks).map(({ held_out }) => held_out);
    const figures = pairOf(log, plain, top);
    const entropies = log.steps.filter(({ entropy }) => entropy !== undefined);
    rows.push([
      arm === 'uniform' ? 'plain GRPO' : arm,
      seed,
      cell(stepsTo(log, wholeLooks(plain.looks).at(-1).held_out), 0),
      cell(figures.share),
      cell(stepsTo(log, top), 0),
      cell(early),
      cell(last),
      cell(area(smoothed(log.looks))),
      ...[0, 0.5, 1].map((part) => cell(entropies[Math.round(part * (entropies.length - 1))]?.entropy)),
      cell(mean(log.steps.map(({ norm }) => norm))),
      cell(mean(log.steps.map(({ norm }) => Number(clip !== null && norm > clip)))),
      cell(mean(log.steps.map(({ sigma_gain }) => sigma_gain ?? Number.NaN)), 1),
      log.looks.at(-1).tokens,
    ]);
    if (arm !== 'uniform') byArm.set(arm, [...(byArm.get(arm) ?? []), figures]);
  }
  const summary = [...byArm].map(([arm, pairs]) => {
    const of = (name) => pairs.map((each) => each[name]);
    return [
      arm,
      pairs.length,
      ...tested(of('share'), true),
      ...tested(of('level'), true),
      ...['early', 'end', 'area'].flatMap((name) => tested(of(name))),
    ];
  });
  return {
    runs: csv(
      `arm,seed,steps to plain GRPO’s end,share,steps to ${top},accuracy at 70 % of the steps,at the end,area,entropy at first,at half,at the end,mean norm,steps cut,sigma_gain,tokens`,
      rows,
    ),
    arms: csv(
      `arm,seeds,share of plain GRPO’s steps,p,share of its steps to ${top},p,at 70 % of the steps less plain GRPO,p,at the end,p,area,p`,
      summary,
    ),
  };
}

/** Every sweep with a task's weak policy, whatever its steps, its rate's course and its clipping. */
const SWEEPS = {
  sparse: ['sparse', 'sparse-clipped', 'within-sparse', 'within-falling', 'within-again'],
  dense: ['dense', 'within-dense', 'within-dense-falling', 'within-dense-capped'],
};
const POOLED = ['share calibrated', 'share pr', 'within calibrated', 'within pr', 'within calibrated capped'];

/** One figure over all pairs of a task that an arm has, so that no claim rests on the best sweep: shares of steps with 95 % intervals, differences, p. */
export function pooledTable(task, sweeps) {
  const middle = LEVELS[task][1];
  const pairs = sweeps.flatMap((logs) => paired(logs));
  const rows = POOLED.flatMap((name) => {
    const own = pairs.filter(([log]) => log.arguments.arm === name);
    if (own.length === 0) return [];
    const figures = own.map(([log, plain]) => pairOf(log, plain, middle));
    const spread = (values, turn = (x) => x) => {
      const { mean: value, half } = interval(values);
      return [value, value - half, value + half].map((x) => cell(turn(x)));
    };
    const shares = (of) => {
      const logarithms = figures.map((each) => Math.log(each[of]));
      return [...spread(logarithms, Math.exp), cell(signFlip(logarithms))];
    };
    const less = (of) => [
      ...spread(figures.map((each) => each[of])),
      tested(figures.map((each) => each[of]))[1],
    ];
    return [[name, own.length, ...shares('level'), ...shares('share'), ...less('area'), ...less('end')]];
  });
  return csv(
    `arm,pairs,share of plain GRPO’s steps to ${middle},low,high,p,to plain GRPO’s end,low,high,p,area less plain GRPO’s,low,high,p,accuracy at the end less,low,high,p`,
    rows,
  );
}

const TASKS = [
  ...['sparse', 'dense', 'minus', 'reach', 'falling', 'again'],
  ...['dense-falling', 'dense-capped', 'single'],
];

/** What the comparison with plain GRPO's own end says of each sweep, with the arms exchanged too, and where there is nothing to gain: of runs of plain GRPO beside those of other seeds. */
export function measureTable(sweeps) {
  const rows = sweeps.flatMap(([name, logs]) => {
    const share = ([log, plain]) => pairOf(log, plain, 1).share;
    const isPlain = ([{ arguments: made }]) => made.arm === 'uniform';
    const plain = logs.filter((log) => isPlain([log]));
    const others = plain.flatMap((log) =>
      plain.filter((other) => other !== log).map((other) => [log, other]),
    );
    const told = (pairs) => tested(pairs.map(share), true);
    const beside = Math.exp(mean(others.map((pair) => Math.log(share(pair)))));
    const arms = new Set(logs.map((log) => log.arguments.arm).filter((arm) => arm !== 'uniform'));
    return [
      [name, 'plain GRPO of other seeds', others.length, cell(beside), '', '', ''],
      ...[...arms].map((arm) => {
        const pairs = paired(logs).filter(([log]) => log.arguments.arm === arm);
        return [name, arm, pairs.length, ...told(pairs), ...told(pairs.map(([log, other]) => [other, log]))];
      }),
    ];
  });
  return csv('sweep,arm,pairs,share of plain GRPO’s steps to its own end,p,the arms exchanged,p', rows);
}

/** All tables: {file in examples/grpo/logs: text}. */
export function tables() {
  const made = {};
  for (const task of TASKS) {
    const stage = join(LOGS, `stage0-within-${task}.json`);
    if (existsSync(stage))
      made[`stage0-within-${task}.csv`] = stageZeroTable(JSON.parse(readFileSync(stage, 'utf8')));
    if (!existsSync(join(LOGS, `within-${task}`))) continue;
    const { runs: each, arms } = trainingTable(runsOf(`within-${task}`));
    made[`within-${task}-runs.csv`] = each;
    made[`within-${task}.csv`] = arms;
  }
  const trained = TASKS.filter((task) => existsSync(join(LOGS, `within-${task}`)));
  made['measure.csv'] = measureTable(trained.map((task) => [task, runsOf(`within-${task}`)]));
  for (const [task, sweeps] of Object.entries(SWEEPS))
    made[`pooled-${task}.csv`] = pooledTable(
      task,
      sweeps.filter((name) => existsSync(join(LOGS, name))).map(runsOf),
    );
  return made;
}

if (process.argv[1] === import.meta.filename)
  for (const [file, text] of Object.entries(tables())) writeFileSync(join(LOGS, file), text);
