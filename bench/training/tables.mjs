// Logs of training runs in, tables in Markdown out.
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
const LEVELS = { sparse: [0.65, 0.7, 0.75], dense: [0.8, 0.85, 0.9] };
const shown = (value) => (Number.isFinite(value) ? value.toFixed(0) : '–');
const withInterval = ({ mean: m, half }, digits = 3) =>
  `${m.toFixed(digits)}${Number.isFinite(half) ? ` ± ${half.toFixed(digits)}` : ''}`;

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

/** Mean of paired differences with its interval, and the exact p; nothing for fewer than two pairs. */
function tested(differences) {
  if (differences.length < 2) return ' | ';
  return `${withInterval(interval(differences))} | ${signFlip(differences).toFixed(3)}`;
}

/** Whether an arm is as good at 70 % of the steps as plain GRPO is at the end, as plain GRPO is there, and at the end itself: a row an arm, paired by seed. */
export function comparisonTable(logs) {
  const [plain, ...others] = byArm(logs);
  if (plain?.arm !== 'uniform' || others.length === 0) return '';
  const against = (bySeed, measure) =>
    tested(
      [...bySeed]
        .filter(([seed]) => plain.bySeed.has(seed))
        .map(([seed, run]) => measure(run, plain.bySeed.get(seed))),
    );
  const heads = [
    'accuracy at 70 % of the steps less plain GRPO’s at the end',
    'at 70 % of the steps, less plain GRPO’s there',
    'at the end, less plain GRPO’s',
    'area under the curve, less plain GRPO’s',
  ];
  return [
    `| arm | ${heads.map((head) => `${head} | p |`).join(' ')}`,
    `| --- |${' --- | --- |'.repeat(heads.length)}`,
    `| uniform, itself | ${against(plain.bySeed, (a, b) => a.early - b.final)} |${'  |'.repeat(6)}`,
    ...others.map(({ arm, bySeed }) => {
      const cells = [
        against(bySeed, (a, b) => a.early - b.final),
        against(bySeed, (a, b) => a.early - b.early),
        against(bySeed, (a, b) => a.final - b.final),
        against(bySeed, (a, b) => area(a.curve) - area(b.curve)),
      ];
      return `| ${arm} | ${cells.join(' | ')} |`;
    }),
  ].join('\n');
}

/** Steps of which a run's last traces are. */
const LAST = 10;

/** A row an arm: accuracy at the end, area under its curve, how long its last traces are, how many have no σ of their own, the tool's share of a step. */
export function summaryTable(logs) {
  const lines = [
    `| arm | seeds | final accuracy | area under the curve | tokens a trace in the last ${LAST} steps | traces with uniform σ | tool's share of a step |`,
    '| --- | --- | --- | --- | --- | --- | --- |',
  ];
  const { problems, copies } = logs[0].arguments;
  for (const { arm, bySeed } of byArm(logs)) {
    const runs = [...bySeed.values()];
    const all = runs.flatMap(({ steps }) => steps);
    const share = mean(all.map(({ seconds: { tool, all } }) => tool / all));
    const lengths = runs.map(({ steps }) => {
      const before = steps.at(-LAST - 1)?.tokens ?? 0;
      return (steps.at(-1).tokens - before) / Math.min(LAST, steps.length) / problems / copies;
    });
    const statuses = all.flatMap((step) => Object.entries(step.statuses));
    const total = statuses.reduce((sum, [, n]) => sum + n, 0);
    const uniform = statuses.reduce((sum, [code, n]) => sum + (isUniform(code) ? n : 0), 0);
    lines.push(
      `| ${arm} | ${runs.length} | ${withInterval(interval(runs.map(({ final }) => final)))} | ${withInterval(interval(runs.map(({ curve }) => area(curve))))} | ${mean(lengths).toFixed(0)} | ${total === 0 ? '' : percent(uniform / total)} | ${percent(share)} |`,
    );
  }
  return lines.join('\n');
}

/** Whether a trace with this status was trained on as in plain GRPO. */
const isUniform = (code) => code.startsWith('uniform:') || code === 'rejected';
const percent = (share) => `${(100 * share).toFixed(0)} %`;

/** A share of plain GRPO's steps or tokens; – where the level is never reached. */
const asShare = (share) => {
  if (!Number.isFinite(share) || share < 0) return '–';
  return share > 2 ? '> 200 %' : percent(share);
};

const told = ({ value, low, high }, text) =>
  `${text(value)}${Number.isNaN(low) ? '' : ` [${text(low)}, ${text(high)}]`}`;

/**
 * When the mean curve over the seeds first gets to levels of accuracy and to plain GRPO's final one, and as a share of what plain GRPO
 * takes, paired by seed; intervals are over seeds, p by exchange of the arms within seeds. A row an arm.
 */
export function levelsTable(logs) {
  const [plain, ...others] = byArm(logs);
  if (plain?.arm !== 'uniform') return '';
  const levels = LEVELS[logs[0].arguments.density];
  const heads = [
    'arm',
    ...levels.flatMap((level) => [`steps to ${level.toFixed(2)}`, 'of plain GRPO’s']),
    `tokens to ${levels.at(-1).toFixed(2)}, of plain GRPO’s`,
    'steps to plain GRPO’s final accuracy',
  ];
  const lines = [`| ${heads.join(' | ')} |`, `| ${heads.map(() => '---').join(' | ')} |`];
  for (const { arm, bySeed } of [plain, ...others]) {
    const seeds = [...bySeed.keys()].filter((seed) => plain.bySeed.has(seed));
    const curveOf = (runs, drawn) => meanCurve(drawn.map((seed) => runs.get(seed).curve));
    const finalOf = (drawn) => mean(drawn.map((seed) => plain.bySeed.get(seed).final));
    const stepsTo = (level) =>
      told(
        overSeeds(seeds, (drawn) => reaches(curveOf(bySeed, drawn), level(drawn))),
        shown,
      );
    // who never gets there takes all its steps at least
    const atLeast = (curve, level, by) => Math.min(reaches(curve, level, by), curve.at(-1)[by]);
    const pairs = seeds.map((seed) => [bySeed, plain.bySeed].map((runs) => runs.get(seed).curve));
    const shareOf = (level, by) => {
      const share = overSeeds(
        seeds,
        (drawn) =>
          reaches(curveOf(bySeed, drawn), level, by) / atLeast(curveOf(plain.bySeed, drawn), level, by),
      );
      const p = exchange(pairs, (runs) => atLeast(meanCurve(runs), level, by));
      const isTested = bySeed !== plain.bySeed && seeds.length > 1;
      return `${told(share, asShare)}${isTested ? `, p = ${p.toFixed(3)}` : ''}`;
    };
    const cells = [
      ...levels.flatMap((level) => [stepsTo(() => level), shareOf(level, 'step')]),
      shareOf(levels.at(-1), 'tokens'),
      stepsTo(finalOf),
    ];
    lines.push(`| ${arm} | ${cells.join(' | ')} |`);
  }
  return lines.join('\n');
}
