// Logs of training runs in, their figures out: {arm, figure, value, low, high, p}[], and these as CSV.
import {
  area,
  exchange,
  interval,
  mean,
  meanCurve,
  overSeeds,
  reaches,
  signFlip,
  smoothed,
  wholeLooks,
} from './statistics.mjs';

/** Accuracies between that of the weak policy and plain GRPO's final one, by the density of the task. */
export const LEVELS = {
  sparse: [0.65, 0.7, 0.75],
  dense: [0.8, 0.85, 0.9],
  minus: [0.76, 0.78, 0.8],
  single: [0.75, 0.8, 0.85],
};

/** Runs of each arm by seed, plain GRPO first: {arm, bySeed: Map<seed, {curve, early, final, steps}>}[]; early is at 70 % of the steps. */
export function byArm(logs) {
  const found = new Map();
  for (const {
    arguments: { arm, seed },
    looks,
    steps,
  } of logs) {
    if (!found.has(arm)) found.set(arm, new Map());
    const [early, last] = wholeLooks(looks).map(({ held_out }) => held_out);
    found.get(arm).set(seed, { curve: smoothed(looks), early, final: last ?? early, steps });
  }
  return [...found]
    .map(([arm, bySeed]) => ({ arm, bySeed }))
    .sort((a, b) => Number(b.arm === 'uniform') - Number(a.arm === 'uniform'));
}

/** A mean with its interval. */
function meanOf(values) {
  const { mean: value, half } = interval(values);
  return { value, low: value - half, high: value + half };
}

/** Whether an arm is as good at 70 % of the steps as plain GRPO is at the end, as plain GRPO is there, at the end itself, and in the area under the curve; paired by seed. */
export function comparison(logs) {
  const [plain, ...others] = byArm(logs);
  if (plain?.arm !== 'uniform' || others.length === 0) return [];
  const against = (arm, bySeed, figure, measure) => {
    const differences = [...bySeed]
      .filter(([seed]) => plain.bySeed.has(seed))
      .map(([seed, run]) => measure(run, plain.bySeed.get(seed)));
    if (differences.length < 2) return [];
    return [{ arm, figure, ...meanOf(differences), p: signFlip(differences) }];
  };
  const early = (a, b) => a.early - b.final;
  return [
    ...against('uniform', plain.bySeed, 'early_less_end', early),
    ...others.flatMap(({ arm, bySeed }) => [
      ...against(arm, bySeed, 'early_less_end', early),
      ...against(arm, bySeed, 'early_less_early', (a, b) => a.early - b.early),
      ...against(arm, bySeed, 'end_less_end', (a, b) => a.final - b.final),
      ...against(arm, bySeed, 'area_less_area', (a, b) => area(a.curve) - area(b.curve)),
    ]),
  ];
}

/** Steps of which a run's last traces are. */
const LAST = 10;

/** Whether a trace with this status was trained on as in plain GRPO. */
const isUniform = (code) => code.startsWith('uniform:') || code === 'rejected';

/** Of each arm: accuracy at the end, area under its curve, how long its last traces are, how many have no σ of their own, the tool's share of a step. */
export function summary(logs) {
  const { problems, copies } = logs[0].arguments;
  return byArm(logs).flatMap(({ arm, bySeed }) => {
    const runs = [...bySeed.values()];
    const all = runs.flatMap(({ steps }) => steps);
    const lengths = runs.map(({ steps }) => {
      const before = steps.at(-LAST - 1)?.tokens ?? 0;
      return (steps.at(-1).tokens - before) / Math.min(LAST, steps.length) / problems / copies;
    });
    const statuses = all.flatMap((step) => Object.entries(step.statuses));
    const total = statuses.reduce((sum, [, n]) => sum + n, 0);
    const uniform = statuses.reduce((sum, [code, n]) => sum + (isUniform(code) ? n : 0), 0);
    return [
      { arm, figure: 'seeds', value: runs.length },
      { arm, figure: 'end', ...meanOf(runs.map(({ final }) => final)) },
      { arm, figure: 'area', ...meanOf(runs.map(({ curve }) => area(curve))) },
      { arm, figure: 'last_tokens', value: mean(lengths) },
      ...(total === 0 ? [] : [{ arm, figure: 'uniform', value: uniform / total }]),
      { arm, figure: 'tool_share', value: mean(all.map(({ seconds: { tool, all } }) => tool / all)) },
    ];
  });
}

/**
 * When the mean curve over the seeds first gets to levels of accuracy and to plain GRPO's final one, and as a share of what plain GRPO
 * takes, paired by seed; Infinity where it never does. Intervals are over seeds, p by exchange of the arms within seeds.
 */
export function levels(logs) {
  const [plain, ...others] = byArm(logs);
  if (plain?.arm !== 'uniform') return [];
  const own = LEVELS[logs[0].arguments.density];
  return [plain, ...others].flatMap(({ arm, bySeed }) => {
    const seeds = [...bySeed.keys()].filter((seed) => plain.bySeed.has(seed));
    const curveOf = (runs, drawn) => meanCurve(drawn.map((seed) => runs.get(seed).curve));
    const finalOf = (drawn) => mean(drawn.map((seed) => plain.bySeed.get(seed).final));
    const stepsTo = (level) => overSeeds(seeds, (drawn) => reaches(curveOf(bySeed, drawn), level(drawn)));
    // who never gets there takes all its steps at least
    const atLeast = (curve, level, by) => Math.min(reaches(curve, level, by), curve.at(-1)[by]);
    const pairs = seeds.map((seed) => [bySeed, plain.bySeed].map((runs) => runs.get(seed).curve));
    const shareOf = (level, by) => {
      const share = overSeeds(
        seeds,
        (drawn) =>
          reaches(curveOf(bySeed, drawn), level, by) / atLeast(curveOf(plain.bySeed, drawn), level, by),
      );
      const isTested = bySeed !== plain.bySeed && seeds.length > 1;
      return isTested
        ? { ...share, p: exchange(pairs, (runs) => atLeast(meanCurve(runs), level, by)) }
        : share;
    };
    return [
      ...own.flatMap((level) => [
        { arm, figure: `steps_to_${level.toFixed(2)}`, ...stepsTo(() => level) },
        { arm, figure: `steps_to_${level.toFixed(2)}_share`, ...shareOf(level, 'step') },
      ]),
      { arm, figure: `tokens_to_${own.at(-1).toFixed(2)}_share`, ...shareOf(own.at(-1), 'tokens') },
      { arm, figure: 'steps_to_plain_end', ...stepsTo(finalOf) },
    ];
  });
}

/** All figures of a sweep. */
export const sweepFigures = (logs) => [...comparison(logs), ...levels(logs), ...summary(logs)];

const COLUMNS = ['arm', 'figure', 'value', 'low', 'high', 'p'];

/** Figures as CSV, `first` before their own columns; what is not known is empty, what is never reached inf. */
export function csvOf(figures, first = []) {
  const cell = (x) => {
    if (typeof x !== 'number') return /[",]/.test(x ?? '') ? `"${x}"` : (x ?? '');
    if (Number.isNaN(x)) return '';
    return x === Number.POSITIVE_INFINITY ? 'inf' : `${Number(x.toPrecision(4))}`;
  };
  const columns = [...first, ...COLUMNS];
  return `${[columns, ...figures.map((each) => columns.map((name) => cell(each[name])))].map((row) => row.join(',')).join('\n')}\n`;
}
