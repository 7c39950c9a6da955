// Suggests the next command that is worth a user's while, by a run's figures and configuration.
import type { Figures } from '../figures.js';
import { shellWord } from '../printable.js';

/** So few traces, or groups, of one kind give no fit that holds for others. */
const ENOUGH = { traces: 64, groups: 16, ofEachKind: 8 } as const;
/** Columns that `rredcot calibrate` reads. */
const READ = ['id', 'segments', 'logprobs', 'reference_logprobs', 'reference_utilities', 'reward'] as const;

/**
 * `rredcot calibrate`, where rewards are there to fit to.
 * @param isAnswerNow values are those of answering at once
 * @returns a line; undefined where there is nothing to gain, or not enough to fit to
 */
export function suggestCalibration(
  figures: Figures,
  { columns, export: form }: Readonly<Record<string, unknown>>,
  output: string,
  isAnswerNow: boolean,
): string | undefined {
  const { right = 0, wrong = 0 } = figures.rewards;
  const isEnough =
    right + wrong >= ENOUGH.traces &&
    Math.min(right, wrong) >= ENOUGH.ofEachKind &&
    Object.keys(figures.groups).length >= ENOUGH.groups;
  const isRead =
    form === undefined && (!Array.isArray(columns) || READ.every((name) => columns.includes(name)));
  const isCredit = figures.fallbacks < figures.credited;
  if (!isAnswerNow || !isEnough || !isCredit || !isRead || output === '-') return undefined;
  return `rewards are there: rredcot calibrate ${shellWord(output)} -o calibration.json fits a value on their scale (docs/calibration.md)`;
}
