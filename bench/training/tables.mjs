// Logs of training runs in, tables in Markdown out.
import { median } from '../measure.mjs';
import { area, interval, mean, reaches, signFlip, smoothed, wholeLooks } from './statistics.mjs';

const LEVELS = [0.65, 0.7, 0.75];
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

/** A row an arm: accuracy, area, and when it gets to levels of accuracy, in steps and in generated tokens (medians over seeds). */
export function summaryTable(logs) {
  const arms = byArm(logs);
  const plain = arms.find(({ arm }) => arm === 'uniform')?.bySeed;
  const level = plain === undefined ? [] : [mean([...plain.values()].map(({ final }) => final))];
  const levels = [...LEVELS, ...level];
  const heads = levels.map((l, n) =>
    n < LEVELS.length ? l.toFixed(2) : `plain GRPO’s final ${l.toFixed(3)}`,
  );
  const lines = [
    `| arm | seeds | final accuracy | area under the curve | steps to ${heads.join(' / ')} | thousand tokens to them | tool's share of a step |`,
    '| --- | --- | --- | --- | --- | --- | --- |',
  ];
  for (const { arm, bySeed } of arms) {
    const runs = [...bySeed.values()];
    const when = (by, scale) =>
      levels.map((l) => shown(median(runs.map(({ curve }) => reaches(curve, l, by))) / scale)).join(' / ');
    const seconds = runs.flatMap(({ steps }) => steps.map((step) => step.seconds));
    lines.push(
      `| ${arm} | ${runs.length} | ${withInterval(interval(runs.map(({ final }) => final)))} | ${withInterval(interval(runs.map(({ curve }) => area(curve))))} | ${when('step', 1)} | ${when('tokens', 1000)} | ${(100 * mean(seconds.map(({ tool, all }) => tool / all))).toFixed(0)} % |`,
    );
  }
  return lines.join('\n');
}
