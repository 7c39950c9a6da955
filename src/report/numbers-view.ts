// Draws the numbers of a scored file as lines for a terminal.
import { count, plural } from '../plural.js';
import { escapeControls } from '../printable.js';
import type { Distribution, ReliabilityCurve } from './gathered.js';
import { spark } from './lines.js';
import type { RunStats } from './warnings.js';

const NAME_WIDTH = 28;

export function drawNumbers(path: string, { numbers, valueName, throughput, warnings }: RunStats): string[] {
  const { distributions: of, credited, values, calibration, label_noise: noise, positions } = numbers;
  const share = (n: number) => (credited === 0 ? '–' : `${((100 * n) / credited).toFixed(1)} %`);
  const codes = (counts: Readonly<Record<string, number>>) =>
    Object.entries(counts)
      .map(([code, n]) => `${escapeControls(code)} ${n}`)
      .join(', ');
  const lines = [
    `${escapeControls(path)}: ${plural(numbers.traces, 'trace')} (${numbers.right} right, ${numbers.wrong} wrong, ${numbers.unknown} unknown), ${plural(numbers.tokens, 'token')}`,
    named('status', codes(numbers.status)),
    named(
      'σ uniform',
      `by fallback ${share(numbers.uniform_by_fallback)}, in effect ${share(numbers.uniform_in_effect)}`,
    ),
  ];
  for (const { text } of warnings) lines.push(named('! warning', escapeControls(text)));
  if (Object.keys(numbers.unreadable).length > 0)
    lines.push(named('not readable', codes(numbers.unreadable)));
  if (throughput !== undefined)
    lines.push(
      named('throughput', `${Math.round(throughput.tokens / Math.max(throughput.seconds, 1e-3))} tokens/s`),
    );
  if (numbers.uniform_by_fallback > 0)
    lines.push(
      named(
        '',
        `σ in the rows and by place below: of ${plural(credited - numbers.uniform_by_fallback, 'trace')}, without ${count(numbers.uniform_by_fallback)} whose σ is uniform by fallback`,
      ),
    );
  lines.push('', columns('', ['5 %', 'median', '95 %', 'largest']));
  const rows: [string, Distribution][] = [
    [`range of ${valueName}`, of.value_range],
    ['mean log p a token', of.mean_logprob],
    ['mean entropy a token', of.mean_entropy],
    ['σ: effective tokens / T', of.sigma_ess_share],
    ['σ: largest weight', of.sigma_max_weight],
    ['σ: gain of the gradient', of.sigma_gain],
    ['tokens a trace', of.tokens],
    ['segments a trace', of.segments],
    ['tokens a segment', of.segment_tokens],
  ];
  if (values !== null)
    for (const side of ['right', 'wrong'] as const)
      rows.push(
        [`${valueName} at start, ${side}`, values[side].start],
        [`${valueName} at end, ${side}`, values[side].end],
      );
  for (const [name, { n, p05, median, p95, max }] of rows)
    if (n > 0) lines.push(columns(name, [p05, median, p95, max].map(short)));
  lines.push('');
  if (calibration.value_end !== null) lines.push(curve(`${valueName} at the end`, calibration.value_end));
  for (const side of ['right', 'wrong'] as const) {
    const list = positions[side];
    if (list !== null)
      lines.push(
        named(
          `σ·T by place, ${side}`,
          `${spark(list, 0, Math.max(...list))}  first to last, largest ${Math.max(...list).toFixed(2)}`,
        ),
      );
  }
  if (noise !== null) {
    lines.push(
      named(
        'suspected label noise',
        `${noise.count} of ${plural(noise.of, 'trace')}: ${valueName} is ${noise.threshold} or more from the reward at every exit`,
      ),
    );
    for (const { id, row, reward, disagreement } of noise.traces.slice(0, 5))
      lines.push(
        named('', `${escapeControls(id)} (row ${row}): reward ${reward}, off by ${disagreement.toFixed(3)}`),
      );
  }
  return lines;
}

function named(name: string, text: string): string {
  return `${name.padEnd(NAME_WIDTH)}${text}`;
}

function columns(name: string, cells: readonly string[]): string {
  return named(name, cells.map((cell) => cell.padStart(10)).join(''));
}

function curve(name: string, { n, error, brier }: ReliabilityCurve): string {
  if (n === 0) return named(name, 'not to be held against rewards');
  return named(
    name,
    `its tenths are off by ${short(error)} from their mean reward on average, mean squared error of a trace ${short(brier)} (${plural(n, 'trace')})`,
  );
}

function short(x: number | null): string {
  if (x === null) return '–';
  const text = Math.abs(x) >= 100 ? x.toFixed(0) : Math.abs(x) >= 10 ? x.toFixed(1) : x.toFixed(3);
  return text.replace('-', '−');
}
