// Draws the numbers of scored traces as lines of a terminal, for `summary`.
import { count, percent, plural, shortNumber } from '../plural.js';
import { escapeControls } from '../printable.js';
import { codes, unitOf } from './counts.js';
import type { Distribution, FileNumbers } from './gathered.js';
import { spark } from './lines.js';
import type { Warning } from './warnings.js';

/** What is told of a scored file, in a terminal and on its page. */
export interface FileStats {
  readonly numbers: FileNumbers;
  readonly warnings: readonly Warning[];
  readonly valueName: string;
}

/** The distributions that are shown, in their order. */
export function shownDistributions(numbers: FileNumbers, valueName: string) {
  const { distributions: of, values } = numbers;
  const levels = (['right', 'wrong'] as const).flatMap((side) => [
    [`${valueName} at start, ${side}`, values?.[side].start] as const,
    [`${valueName} at end, ${side}`, values?.[side].end] as const,
  ]);
  const all: readonly (readonly [name: string, of: Distribution | undefined])[] = [
    ...levels,
    [`range of ${valueName}`, of.value_range],
    ['σ: effective tokens / T', of.sigma_ess_share],
    ['σ: effective tokens', of.sigma_ess],
    ['σ: largest weight', of.sigma_max_weight],
    ['σ: gain of the gradient', of.sigma_gain],
    ['mean log p a token', of.mean_logprob],
    ['mean entropy a token', of.mean_entropy],
    ['tokens a trace', of.tokens],
    ['segments a trace', of.segments],
    ['tokens a segment', of.segment_tokens],
  ];
  const unit = unitOf(numbers);
  return all.flatMap(([name, found]) =>
    found === undefined || found.n === 0 ? [] : [{ name: name.replace('token', unit), of: found }],
  );
}

const NAME_WIDTH = 28;
const LABEL_NOISE_SHOWN = 5;

/** The lines of `summary`. */
export function drawNumbers(path: string, { numbers, valueName, warnings }: FileStats): string[] {
  const { credited, calibration, label_noise: noise, positions, unreadable } = numbers;
  const { uniform_by_fallback: fallbacks, below_noise: below } = numbers;
  const share = (n: number) => (credited === 0 ? '–' : percent(n / credited));
  const lines = [
    `${escapeControls(path)}: ${plural(numbers.traces, 'trace')} (${numbers.right} right, ${numbers.wrong} wrong, ${numbers.unknown} unknown), ${plural(numbers.tokens, unitOf(numbers))}`,
    named('status', codes(numbers.status)),
    named('σ uniform', `by fallback ${share(fallbacks)}, in effect ${share(numbers.uniform_in_effect)}`),
    ...(below === null ? [] : [named('below the noise', `${percent(below)} of the segments`)]),
    ...warnings.map(({ message }) => named('! warning', escapeControls(message))),
    ...(Object.keys(unreadable).length > 0 ? [named('not readable', codes(unreadable))] : []),
  ];
  const rest = `σ in the rows and by place below: of ${plural(credited - fallbacks, 'trace')}, without ${count(fallbacks)} whose σ is uniform by fallback`;
  if (fallbacks > 0) lines.push(named('', rest));
  lines.push('', columns('', ['5 %', 'median', '95 %', 'largest']));
  for (const { name, of } of shownDistributions(numbers, valueName))
    lines.push(columns(name, [of.p05, of.median, of.p95, of.max].map(known)));
  lines.push('');
  const { value_end: curve } = calibration;
  if (curve !== null) {
    const told =
      curve.n === 0
        ? 'not to be compared with rewards'
        : `its tenths are off by ${known(curve.error)} from their mean reward on average, mean squared error of a trace ${known(curve.brier)} (${plural(curve.n, 'trace')})`;
    lines.push(named(`${valueName} at the end`, told));
  }
  for (const side of ['right', 'wrong'] as const) {
    const list = positions[side];
    if (list === null) continue;
    const most = Math.max(...list);
    const text = `${spark(list, 0, most)}  first to last, largest ${most.toFixed(2)}`;
    lines.push(named(`σ·T by place, ${side}`, text));
  }
  if (noise === null) return lines;
  const what = `${noise.count} of ${plural(noise.of, 'trace')}: ${valueName} is ${noise.threshold} or more from the reward at every exit`;
  return [
    ...lines,
    named('suspected label noise', what),
    ...noise.traces.slice(0, LABEL_NOISE_SHOWN).map(({ id, row, reward, disagreement }) => {
      return named('', `${escapeControls(id)} (row ${row}): reward ${reward}, off by ${known(disagreement)}`);
    }),
  ];
}

function named(name: string, text: string): string {
  return `${name.padEnd(NAME_WIDTH)}${text}`;
}

function columns(name: string, cells: readonly string[]): string {
  return named(name, cells.map((cell) => cell.padStart(10)).join(''));
}

function known(x: number | null): string {
  if (x === null) return '–';
  return Number.isInteger(x) ? String(x).replace('-', '−') : shortNumber(x);
}
