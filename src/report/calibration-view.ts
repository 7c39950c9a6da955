// A calibration as lines for the terminal: what it was fitted to, its log losses, its weights, its reliability curve.
import type { CalibrationFile } from '../estimate/calibration.js';
import { WHY } from '../estimate/fit/fit.js';
import { count, plural } from '../plural.js';
import type { Log } from './log.js';

type LossName = keyof NonNullable<CalibrationFile['log_loss']>;

const LOSSES: readonly (readonly [LossName, string])[] = [
  ['calibrated', 'calibrated'],
  ['value', 'v̂ as it is'],
  ['group_mean', "mean reward of the group's others"],
  ['constant', 'mean reward of the other folds'],
];

const BAR_WIDTH = 30;

/** The lines, without colours. */
function drawCalibration(file: CalibrationFile): string[] {
  const { traces, states, groups, group_marks: marks, mean_reward: mean } = file;
  const isMore = marks === null ? 'more than ' : '';
  const lines = [
    `${plural(traces, 'trace')} of ${isMore}${plural(groups, 'group')}, ${plural(states, 'state')}, mean reward ${fixed(mean)}`,
  ];
  if (file.log_loss !== null) {
    lines.push('', 'log loss on groups that the weights have not seen, nats a trace');
    for (const [name, title] of LOSSES)
      if (file.estimator !== 'none' || !name.startsWith('value'))
        lines.push(`  ${title.padEnd(34)} ${fixed(file.log_loss[name])}`);
  }
  const weights = file.weights?.at(-1);
  if (weights !== undefined) {
    lines.push('', 'weights, for one standard deviation');
    for (const [f, name] of file.features.entries())
      lines.push(`  ${name.padEnd(34)} ${signed(weights[f + 1] as number)}`);
  }
  if (file.reliability !== null) {
    lines.push('', '   value    states  mean V  reward  (· where V has it)');
    for (const { from, to, states: n, value, reward } of file.reliability) {
      const range = `${from.toFixed(1)}–${to.toFixed(1)}`;
      const numbers = `${count(n).padStart(8)}  ${fixed(value).padStart(6)}  ${fixed(reward).padStart(6)}`;
      lines.push(`  ${range} ${numbers}  ${bar(value, reward)}`.trimEnd());
    }
  }
  return lines;
}

/** The reward as a bar, with a dot where the value says it should end. */
function bar(value: number | null, reward: number | null): string {
  if (value === null || reward === null) return '';
  const filled = Math.round(reward * BAR_WIDTH);
  const at = Math.min(BAR_WIDTH - 1, Math.floor(value * BAR_WIDTH));
  const cells = Array.from({ length: BAR_WIDTH }, (_, n) => (n === at ? '·' : n < filled ? '█' : ' '));
  return cells.join('').trimEnd();
}

function fixed(x: number | null): string {
  return x === null ? '–' : x.toFixed(3);
}

function signed(x: number): string {
  return `${x < 0 ? '−' : '+'}${Math.abs(x).toFixed(3)}`;
}

/** Tells what a calibration is worth. */
export function tellCalibration(file: CalibrationFile, output: string, log: Log): void {
  log.text(() => `\n${drawCalibration(file).join('\n')}\n`);
  const { uses, why, traces, groups, log_loss, estimator } = file;
  if (why !== null)
    log.warn(
      'calibration_stands_back',
      `${WHY[why]}: with it, --estimator calibrated ${estimator === 'none' ? 'has no values' : `leaves the values of ${estimator} as they are (status value:uncalibrated)`}`,
    );
  log.record('calibrated', { traces, groups, uses, why, log_loss, output });
}
