// The logs of examples/grpo/logs in; all figures of them, the measured part of docs/training.md and its charts out.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { table } from '../fidelity/figures.mjs';
import { chart } from '../fidelity/plot.mjs';
import { ROOT } from '../fidelity/program.mjs';
import { byArm, csvOf, LEVELS, sweepFigures } from './figures.mjs';
import { LOGS, runsOf } from './logs.mjs';
import { mean, meanCurve, wholeLooks } from './statistics.mjs';

const DENSITIES = ['sparse', 'dense'];
/** Folders of sweeps by the density of their task: as they are, and with clipped gradients. */
const SWEEPS = [
  ['sparse', 'sparse'],
  ['sparse-clipped', 'sparse'],
  ['dense', 'dense'],
];

const fixed = (value, digits = 2) =>
  value
    .toFixed(digits)
    .replace(/^(-?)0\./, '$1.')
    .replace('-', '−');
const signed = (value) => `${value < 0 ? '−' : '+'}${fixed(Math.abs(value), 3)}`;

/** Groups: a limit or an efficiency of fewer says nothing. */
const FEW = 100;

/** Of a gradient with that cosine the square of the part along the reference over that of all beside it; none for one that points away. */
const signalToNoise = (cosine) => Math.max(0, cosine) ** 2 / (1 - cosine ** 2);

/** The variance of a block's gradient over the square of its mean; none where the mean points nowhere that is known. */
const variance = ({ cosine, limit }) =>
  limit === null || cosine <= 0 ? undefined : (limit / cosine) ** 2 - 1;

/** Figures at fixed parameters of one density. @param mark behind the density in the file's name */
function stageZero(density, mark = '') {
  const found = JSON.parse(readFileSync(join(LOGS, `stage0-${density}${mark}.json`), 'utf8'));
  const { arms, groups, reference_groups, halves_cosine, wrong } = found;
  const plain = arms.uniform;
  const of = (arm) => (figure, value, more) => ({ arm, figure, value, ...more });
  const about = of('');
  return [
    about('groups', groups),
    about('blocks', plain.blocks),
    about('reference_groups', reference_groups),
    about('halves_cosine', halves_cosine),
    ...Object.entries(wrong).map(([operator, share]) => about(`wrong ${operator}`, share)),
    ...Object.entries(arms).flatMap(([arm, figures]) => {
      const own = of(arm);
      const {
        cosine,
        limit,
        gain,
        gain_interval: [low, high],
      } = figures;
      const rows = [own('cosine', cosine)];
      if (arm !== 'uniform') rows.push(own('gain', gain, { low, high }));
      if (groups < FEW) return rows;
      const noise = variance(figures);
      rows.push(own('efficiency', signalToNoise(cosine) / signalToNoise(plain.cosine)));
      if (noise !== undefined) rows.push(own('variance', noise / variance(plain)));
      if (limit !== null) rows.push(own('limit', limit));
      const byReturn = found.return?.arms[arm].limit;
      if (byReturn != null) rows.push(own('limit_by_return', byReturn));
      return rows;
    }),
  ];
}

/** What runs of one folder may differ in. */
const VARIES = ['arm', 'seed', 'rate'];

/** Runs of one sweep, all of the committed weak policy and alike but for arm, seed and rate. */
function sweep(name) {
  const logs = runsOf(name);
  alike(name, logs);
  return logs;
}

/** @throws Error where a run is of another sweep, is not whole, or is there twice: a tuning has an arm at several rates, a sweep at one */
export function alike(name, logs) {
  const seen = new Set();
  const rates = new Map();
  const wanted = settingsOf(logs[0]);
  for (const log of logs) {
    const { arm, seed, rate, density, steps, weights } = log.arguments;
    const run = `${name}: ${arm}, seed ${seed}, rate ${rate}`;
    if (settingsOf(log) !== wanted) throw new Error(`${run}: found ${settingsOf(log)}, expected ${wanted}`);
    if (weights !== weakPolicy(density)) throw new Error(`${run}: is of another weak policy`);
    if (log.looks.at(-1)?.step !== steps) throw new Error(`${run}: has no look at its last step`);
    if (seen.has(run)) throw new Error(`${run}: is there twice`);
    seen.add(run);
    const known = rates.get(arm) ?? rate;
    if (!name.startsWith('tuning') && known !== rate) throw new Error(`${run}: others have ${known}`);
    rates.set(arm, known);
  }
}

/** What runs of one sweep have alike. */
const settingsOf = (log) =>
  JSON.stringify(Object.entries(log.arguments).filter(([key]) => !VARIES.includes(key)));

const weakPolicy = (density) =>
  createHash('sha256')
    .update(readFileSync(join(ROOT, `examples/grpo/weak-${density}.safetensors`)))
    .digest('hex');

function curves(name, logs) {
  const lines = byArm(logs).map(({ arm, bySeed }) => ({
    name: arm,
    curve: meanCurve([...bySeed.values()].map((run) => run.curve)),
  }));
  const draw = (by, label, scale) => {
    const high = Math.max(...lines.map(({ curve }) => curve.at(-1)[by] / scale));
    const ticks = Array.from({ length: 5 }, (_, n) => (n * high) / 4).map((v) => [v, v.toFixed(0)]);
    return chart({
      title: `${name}: accuracy on held-out problems, mean over seeds`,
      x: { label, low: 0, high, ticks },
      y: { label: 'accuracy', low: 0.5, high: 1, ticks: [0.5, 0.6, 0.7, 0.8, 0.9, 1] },
      lines: lines.map(({ name: arm, curve }) => ({
        name: arm === 'uniform' ? 'plain GRPO' : arm,
        isDashed: arm === 'uniform',
        points: curve.map((point) => [point[by] / scale, point.accuracy]),
      })),
    });
  };
  return [
    [`training-${name}-steps.svg`, draw('step', 'steps', 1)],
    [`training-${name}-tokens.svg`, draw('tokens', 'thousand generated tokens', 1000)],
  ];
}

/** Accuracy by arm and learning rate: the mean of the looks at all held-out problems. {arm: [rate, accuracy, runs][]} */
function tried(logs) {
  const found = {};
  for (const arm of new Set(logs.map((log) => log.arguments.arm))) {
    const own = logs.filter((log) => log.arguments.arm === arm);
    const rates = [...new Set(own.map((log) => log.arguments.rate))].sort((a, b) => a - b);
    found[arm] = rates.map((rate) => {
      const looks = own
        .filter((log) => log.arguments.rate === rate)
        .map((log) => mean(wholeLooks(log.looks).map(({ held_out }) => held_out)));
      return [rate, mean(looks), looks.length];
    });
  }
  return found;
}

/** The learning rate of each arm that did best in the tuning of a density: {arm: rate}. */
export function tunedRates(density) {
  const best = Object.entries(tried(sweep(`tuning-${density}`))).map(([arm, rates]) => [
    arm,
    rates.reduce((a, b) => (b[1] > a[1] ? b : a))[0],
  ]);
  return Object.fromEntries(best);
}

/** Accuracy by arm and learning rate, with seeds that no other run has. */
const tuning = (density) =>
  Object.entries(tried(sweep(`tuning-${density}`))).flatMap(([arm, own]) =>
    own.flatMap(([rate, accuracy, runs]) => [
      { arm, figure: `accuracy at ${rate}`, value: accuracy },
      { arm, figure: `runs at ${rate}`, value: runs },
    ]),
  );

/** Runs with a sweep's seeds at another rate beside the sweep's own, and both against plain GRPO at that rate. */
function rates(density) {
  const named = (logs, nameOf) =>
    logs.map((log) => ({ ...log, arguments: { ...log.arguments, arm: nameOf(log.arguments) } }));
  const withRate = ({ arm, rate }) => `${arm}, ${rate}`;
  const others = sweep(`rates-${density}`);
  const own = sweep(density).filter((log) => ['uniform', 'share calibrated'].includes(log.arguments.arm));
  const plain = ({ arm }) => arm === 'uniform';
  const turned = [
    ...named(others, (run) => (plain(run) ? run.arm : withRate(run))),
    ...named(
      own.filter((log) => !plain(log.arguments)),
      withRate,
    ),
  ];
  return {
    [`rates-${density}`]: sweepFigures([...own, ...named(others, withRate)]),
    [`rates-${density} against plain GRPO at ${others[0].arguments.rate}`]: sweepFigures(turned),
  };
}

/** What traces are made of after some steps, of single runs with the first seed of the tuning. */
function faults() {
  const lines = readFileSync(join(LOGS, 'faults.jsonl'), 'utf8').trimEnd().split('\n');
  return lines.flatMap((line) => {
    const { arm, rate, steps, readable, wrong_operations, operations, fillers, ...found } = JSON.parse(line);
    const figures = {
      ...{ traces: found.traces, right: found.right, not_readable: found.traces - readable },
      ...{ operations: operations / readable, operations_wrong: wrong_operations / operations },
      ...{ fillers: fillers / readable, mistake_known: found.mistake_known },
      mistake_unknown: found.mistake_unknown,
    };
    return Object.entries(figures).map(([figure, value]) => ({
      arm: `${arm}, ${rate}, step ${steps}`,
      figure,
      value,
    }));
  });
}

/** Runs whose traces another policy scored. */
const foreign = () =>
  sweep('foreign').flatMap(({ arguments: { arm, seed }, looks }) => {
    const [early, last] = wholeLooks(looks).map(({ held_out }) => held_out);
    return [
      { arm: `${arm}, seed ${seed}`, figure: 'early', value: early },
      { arm: `${arm}, seed ${seed}`, figure: 'end', value: last },
    ];
  });

/** All figures, by what they are of. */
function allFigures() {
  const found = {};
  for (const density of DENSITIES) {
    found[`fixed-${density}`] = stageZero(density);
    found[`fixed-${density}-mc`] = stageZero(density, '-mc');
  }
  for (const [name] of SWEEPS) found[name] = sweepFigures(sweep(name));
  found.foreign = foreign();
  for (const density of DENSITIES) Object.assign(found, rates(density));
  for (const density of DENSITIES) found[`tuning-${density}`] = tuning(density);
  found.faults = faults();
  return found;
}

/** Arms of the page's tables; the CSV has all. */
const AT_FIXED =
  'oracle decisions; share exact; share calibrated; share pr; share siblings; segment calibrated; rudder calibrated, group; entropy; surprise; uniform; oracle; rudder pr, value; signed pr; shuffled calibrated'.split(
    '; ',
  );

const finder = (figures) => (arm, name) => figures.find((each) => each.arm === arm && each.figure === name);
const titleOf = (arm) => (arm === 'uniform' ? '**plain GRPO**' : arm);

function fixedTable(found) {
  const [sparse, dense] = DENSITIES.map((density) => finder(found[`fixed-${density}`]));
  const gain = (get, arm) => {
    const own = get(arm, 'gain');
    return own === undefined ? '' : `${signed(own.value)} [${signed(own.low)}, ${signed(own.high)}]`;
  };
  const efficiency = (get, arm) => get(arm, 'efficiency').value.toFixed(2);
  return table(
    [
      'arm',
      "sparse: cosine less plain GRPO's",
      'efficiency',
      "dense: cosine less plain GRPO's",
      'efficiency',
    ],
    AT_FIXED.toSorted((a, b) => sparse(b, 'cosine').value - sparse(a, 'cosine').value).map((arm) => [
      titleOf(arm),
      ...[sparse, dense].flatMap((get) => [gain(get, arm), efficiency(get, arm)]),
    ]),
  );
}

const percent = (x) => (Number.isFinite(x) ? `${(100 * x).toFixed(0)} %` : '–');

/** Every arm of every sweep against plain GRPO: when it gets to the middle level, its area and its end. */
function trainingTable(found) {
  const plusMinus = ({ value, high, p }) =>
    `${signed(value)} ± ${fixed(high - value, 3)}, p = ${fixed(p, 3)}`;
  const rows = SWEEPS.flatMap(([name, density]) => {
    const get = finder(found[name]);
    const arms = new Set(found[name].map(({ arm }) => arm));
    arms.delete('uniform');
    return [...arms].map((arm) => {
      const { value, low, high, p } = get(arm, `steps_to_${LEVELS[density][1].toFixed(2)}_share`);
      const share = `${percent(value)} [${percent(low)}, ${percent(high)}], p = ${fixed(p, 3)}`;
      return [
        name,
        arm,
        share,
        ...['area_less_area', 'end_less_end'].map((each) => plusMinus(get(arm, each))),
      ];
    });
  });
  const [sparse, dense] = DENSITIES.map((density) => fixed(LEVELS[density][1]));
  return table(
    [
      'sweep',
      'arm',
      `steps to ${sparse} (dense: ${dense}), of plain GRPO's`,
      'area under the curve',
      'accuracy at the end',
    ],
    rows,
  );
}

/** The measured part of the page, its charts, and all figures as CSV: {text, charts: [file, svg][], csv}. */
export function measured() {
  const found = allFigures();
  const charts = SWEEPS.flatMap(([name]) => curves(name, sweep(name)));
  const text = `### At fixed parameters\n\n${fixedTable(found)}\n\n### In training\n\n${trainingTable(found)}`;
  const all = Object.entries(found).flatMap(([from, figures]) => figures.map((each) => ({ from, ...each })));
  return { text, charts, csv: csvOf(all, ['from']) };
}
