// Logs of training runs in, tables in Markdown out.
import {
  area,
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

/** Whether an arm is as good at 70 % of the steps as plain GRPO is at the end, and at the end itself: a row an arm, paired by seed. */
export function comparisonTable(logs) {
  const [plain, ...others] = byArm(logs);
  if (plain?.arm !== 'uniform' || others.length === 0) return '';
  const against = (bySeed, measure) =>
    tested(
      [...bySeed]
        .filter(([seed]) => plain.bySeed.has(seed))
        .map(([seed, run]) => measure(run, plain.bySeed.get(seed))),
    );
  return [
    '| arm | accuracy at 70 % of the steps less plain GRPO’s at the end | p | at the end, less plain GRPO’s | p | area under the curve, less plain GRPO’s | p |',
    '| --- | --- | --- | --- | --- | --- | --- |',
    ...others.map(
      ({ arm, bySeed }) =>
        `| ${arm} | ${against(bySeed, (a, b) => a.early - b.final)} | ${against(bySeed, (a, b) => a.final - b.final)} | ${against(bySeed, (a, b) => area(a.curve) - area(b.curve))} |`,
    ),
  ].join('\n');
}

/** A row an arm: accuracy at the end, area under its curve, the tool's share of a step. */
export function summaryTable(logs) {
  const lines = [
    "| arm | seeds | final accuracy | area under the curve | tool's share of a step |",
    '| --- | --- | --- | --- | --- |',
  ];
  for (const { arm, bySeed } of byArm(logs)) {
    const runs = [...bySeed.values()];
    const seconds = runs.flatMap(({ steps }) => steps.map((step) => step.seconds));
    const share = mean(seconds.map(({ tool, all }) => tool / all));
    lines.push(
      `| ${arm} | ${runs.length} | ${withInterval(interval(runs.map(({ final }) => final)))} | ${withInterval(interval(runs.map(({ curve }) => area(curve))))} | ${(100 * share).toFixed(0)} % |`,
    );
  }
  return lines.join('\n');
}

/** A share of plain GRPO's steps or tokens; – where the level is never reached. */
const asShare = (share) => {
  if (!Number.isFinite(share) || share < 0) return '–';
  return share > 2 ? '> 200 %' : `${(100 * share).toFixed(0)} %`;
};

const told = ({ value, low, high }, text) =>
  `${text(value)}${Number.isNaN(low) ? '' : ` [${text(low)}, ${text(high)}]`}`;

/**
 * When the mean curve over the seeds first gets to levels of accuracy and to plain GRPO's final one, and as a share of what plain GRPO
 * takes, paired by seed; intervals are over seeds. A row an arm.
 * @param cosines of arms at fixed parameters, by arm: plain GRPO's over an arm's is the share of steps that they foretell
 */
export function levelsTable(logs, cosines = undefined) {
  const [plain, ...others] = byArm(logs);
  if (plain?.arm !== 'uniform') return '';
  const levels = LEVELS[logs[0].arguments.density];
  const heads = [
    'arm',
    ...levels.flatMap((level) => [`steps to ${level.toFixed(2)}`, 'of plain GRPO’s']),
    `tokens to ${levels.at(-1).toFixed(2)}, of plain GRPO’s`,
    ...(cosines ? ['share foretold by the cosines'] : []),
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
    const shareOf = (level, by) =>
      told(
        overSeeds(seeds, (drawn) => {
          const own = reaches(curveOf(bySeed, drawn), level, by);
          const curve = curveOf(plain.bySeed, drawn);
          // where plain GRPO never gets there it takes all its steps at least
          return own / Math.min(reaches(curve, level, by), curve.at(-1)[by]);
        }),
        asShare,
      );
    const cells = [
      ...levels.flatMap((level) => [stepsTo(() => level), shareOf(level, 'step')]),
      shareOf(levels.at(-1), 'tokens'),
      ...(cosines ? [arm in cosines ? asShare(cosines.uniform / cosines[arm]) : ''] : []),
      stepsTo(finalOf),
    ];
    lines.push(`| ${arm} | ${cells.join(' | ')} |`);
  }
  return lines.join('\n');
}
