// Logs of training runs in, tables in Markdown out.
import { area, interval, mean, median, reaches, signFlip, smoothed } from './statistics.mjs';

const LEVELS = [0.75, 0.85, 0.9];
const shown = (value, digits = 2) => (Number.isFinite(value) ? value.toFixed(digits) : '–');
const withInterval = ({ mean: m, half }, digits = 3) =>
  `${m.toFixed(digits)}${Number.isFinite(half) ? ` ± ${half.toFixed(digits)}` : ''}`;

/** Runs of each arm by seed: {arm, bySeed: Map<seed, {curve, final, logs}>}[], plain GRPO first. */
export function byArm(logs) {
  const found = new Map();
  for (const log of logs) {
    const { arm, seed } = log.arguments;
    if (!found.has(arm)) found.set(arm, new Map());
    found
      .get(arm)
      .set(seed, { curve: smoothed(log.looks), final: log.looks.at(-1).held_out, steps: log.steps });
  }
  return [...found]
    .map(([arm, bySeed]) => ({ arm, bySeed }))
    .sort((a, b) => Number(b.arm === 'uniform') - Number(a.arm === 'uniform'));
}

/** A row an arm, each against plain GRPO with the same seeds. */
export function summaryTable(logs) {
  const arms = byArm(logs);
  const plain = arms.find(({ arm }) => arm === 'uniform')?.bySeed;
  const level = plain && mean([...plain.values()].map(({ final }) => final));
  const lines = [
    `| arm | seeds | final accuracy | area under the curve | area less plain GRPO's | p | steps to ${LEVELS.map((l) => l.toFixed(2)).join(' / ')} | steps to plain GRPO's final ${level === undefined ? '' : level.toFixed(3)} | tool's share of a step |`,
    '| --- | --- | --- | --- | --- | --- | --- | --- | --- |',
  ];
  for (const { arm, bySeed } of arms) {
    const runs = [...bySeed.values()];
    const areas = runs.map(({ curve }) => area(curve));
    const pairs = [...bySeed].filter(([seed]) => plain?.has(seed));
    const differences = pairs.map(([seed, { curve }]) => area(curve) - area(plain.get(seed).curve));
    const against = arm !== 'uniform' && pairs.length > 1;
    const seconds = runs.flatMap(({ steps }) => steps.map((step) => step.seconds));
    const share = mean(seconds.map(({ tool, all }) => tool / all));
    lines.push(
      `| ${arm} | ${runs.length} | ${withInterval(interval(runs.map(({ final }) => final)))} | ${withInterval(interval(areas))} | ${against ? withInterval(interval(differences)) : ''} | ${against ? signFlip(differences).toFixed(3) : ''} | ${LEVELS.map((l) => shown(median(runs.map(({ curve }) => reaches(curve, l))), 0)).join(' / ')} | ${level === undefined ? '' : shown(median(runs.map(({ curve }) => reaches(curve, level))), 0)} | ${(100 * share).toFixed(0)} % |`,
    );
  }
  return lines.join('\n');
}
