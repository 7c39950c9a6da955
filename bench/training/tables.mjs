// Logs of training runs in, tables in Markdown out.
import { median } from '../measure.mjs';
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

const LEVELS = [0.65, 0.7, 0.75];
/** the level to which an arm's steps are compared with plain GRPO's, seed by seed */
const SHARED = 0.75;
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
    "| arm | seeds | final accuracy | area under the curve | seconds a step | tool's share of them |",
    '| --- | --- | --- | --- | --- | --- |',
  ];
  for (const { arm, bySeed } of byArm(logs)) {
    const runs = [...bySeed.values()];
    const seconds = runs.flatMap(({ steps }) => steps.map((step) => step.seconds));
    const share = mean(seconds.map(({ tool, all }) => tool / all));
    lines.push(
      `| ${arm} | ${runs.length} | ${withInterval(interval(runs.map(({ final }) => final)))} | ${withInterval(interval(runs.map(({ curve }) => area(curve))))} | ${median(seconds.map(({ all }) => all)).toFixed(1)} | ${(100 * share).toFixed(0)} % |`,
    );
  }
  return lines.join('\n');
}

/** A share of the steps; none that is more than twice all of them. */
const asShare = (share) => (share >= 0 && share < 2 ? `${(100 * share).toFixed(0)} %` : '–');

/**
 * When the mean curve over the seeds first gets to levels of accuracy and to plain GRPO's final one, with intervals over seeds: a row an arm.
 * @param cosines of arms at fixed parameters, by arm: a step of given length goes as far as its cosine, so plain GRPO's over an arm's foretells the share of steps
 */
export function levelsTable(logs, cosines = undefined) {
  const [plain, ...others] = byArm(logs);
  if (plain?.arm !== 'uniform') return '';
  const heads = LEVELS.map((level) => `steps to ${level.toFixed(2)}`);
  const lines = [
    `| arm | ${heads.join(' | ')} | steps to plain GRPO’s final accuracy | steps to ${SHARED.toFixed(2)} as a share of plain GRPO’s | tokens to it likewise |${cosines ? ' foretold by the cosines |' : ''}`,
    `| --- | ${LEVELS.map(() => '---').join(' | ')} | --- | --- | --- |${cosines ? ' --- |' : ''}`,
  ];
  for (const { arm, bySeed } of [plain, ...others]) {
    const seeds = [...bySeed.keys()].filter((seed) => plain.bySeed.has(seed));
    const curveOf = (drawn) => meanCurve(drawn.map((seed) => bySeed.get(seed).curve));
    const finalOf = (drawn) => mean(drawn.map((seed) => plain.bySeed.get(seed).final));
    const told = ({ value, low, high }, text) =>
      `${text(value)}${Number.isNaN(low) ? '' : ` [${text(low)}, ${text(high)}]`}`;
    const when = (level) =>
      told(
        overSeeds(seeds, (drawn) => reaches(curveOf(drawn), level(drawn))),
        shown,
      );
    const shareOf = (by) => {
      const to = (drawn, runs) => reaches(meanCurve(drawn.map((seed) => runs.get(seed).curve)), SHARED, by);
      const ratio = (drawn) => {
        const own = to(drawn, bySeed);
        // never, whatever plain GRPO does
        return Number.isFinite(own) ? own / to(drawn, plain.bySeed) : own;
      };
      return told(overSeeds(seeds, ratio), asShare);
    };
    const cells = [
      ...LEVELS.map((level) => when(() => level)),
      when(finalOf),
      shareOf('step'),
      shareOf('tokens'),
      ...(cosines ? [arm in cosines ? asShare(cosines.uniform / cosines[arm]) : ''] : []),
    ];
    lines.push(`| ${arm} | ${cells.join(' | ')} |`);
  }
  return lines.join('\n');
}
