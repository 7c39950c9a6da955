// Draws the numbers of scored traces as lines for a terminal: those of `summary`, and the few with which a run ends.
import type { PolicyFacts } from '../model/onnx/folder.js';
import { count, plural } from '../plural.js';
import { escapeControls } from '../printable.js';
import { isFallback } from '../scored.js';
import type { RejectTally, RunNumbers, Tally } from './counts.js';
import type { Distribution } from './gathered.js';
import { spark } from './lines.js';
import { duration, type ProgressTotals } from './progress.js';
import { shortNumber } from './trace-record.js';
import { onOneLine, type Warning } from './warnings.js';

/** What is told of a scored file, in a terminal and on its page. */
export interface RunStats {
  readonly numbers: RunNumbers;
  readonly warnings: readonly Warning[];
  readonly valueName: string;
  /** of the run that scored; undefined where nothing tells */
  readonly throughput:
    | { readonly seconds: number; readonly traces: number; readonly tokens: number }
    | undefined;
}

/** The distributions that are shown, in their order. */
export function shownDistributions({ distributions: of, values }: RunNumbers, valueName: string) {
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
  return all.flatMap(([name, found]) => (found === undefined || found.n === 0 ? [] : [{ name, of: found }]));
}

export function tokensPerSecond({ tokens, seconds }: Pick<ProgressTotals, 'tokens' | 'seconds'>): number {
  return Math.round(tokens / Math.max(seconds, 1e-3));
}

const NAME_WIDTH = 28;
const LABEL_NOISE_SHOWN = 5;

/** The lines of `summary`. */
export function drawNumbers(path: string, { numbers, valueName, throughput, warnings }: RunStats): string[] {
  const { credited, calibration, label_noise: noise, positions, unreadable } = numbers;
  const { uniform_by_fallback: fallbacks } = numbers;
  const share = (n: number) => (credited === 0 ? '–' : percent(n / credited));
  const lines = [
    `${escapeControls(path)}: ${plural(numbers.traces, 'trace')} (${numbers.right} right, ${numbers.wrong} wrong, ${numbers.unknown} unknown), ${plural(numbers.tokens, 'token')}`,
    named('status', codes(numbers.status)),
    named('σ uniform', `by fallback ${share(fallbacks)}, in effect ${share(numbers.uniform_in_effect)}`),
    ...warnings.map(({ message }) => named('! warning', escapeControls(message))),
    ...(Object.keys(unreadable).length > 0 ? [named('not readable', codes(unreadable))] : []),
    ...(throughput === undefined ? [] : [named('throughput', `${tokensPerSecond(throughput)} tokens/s`)]),
  ];
  if (fallbacks > 0)
    lines.push(
      named(
        '',
        `σ in the rows and by place below: of ${plural(credited - fallbacks, 'trace')}, without ${count(fallbacks)} whose σ is uniform by fallback`,
      ),
    );
  lines.push('', columns('', ['5 %', 'median', '95 %', 'largest']));
  for (const { name, of } of shownDistributions(numbers, valueName))
    lines.push(columns(name, [of.p05, of.median, of.p95, of.max].map(known)));
  lines.push('');
  const { value_end: curve } = calibration;
  if (curve !== null)
    lines.push(
      named(
        `${valueName} at the end`,
        curve.n === 0
          ? 'not to be compared with rewards'
          : `its tenths are off by ${known(curve.error)} from their mean reward on average, mean squared error of a trace ${known(curve.brier)} (${plural(curve.n, 'trace')})`,
      ),
    );
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
  return x === null ? '–' : shortNumber(x);
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}

/** Codes and how often they occur. */
function codes(tally: Tally): string {
  const all = Object.entries(tally).map(([code, n]) => `${escapeControls(code)} ${count(n)}`);
  return all.join(', ');
}

/** What the numbers of a run are worth, for programs; null where nothing is known. */
export function endRecord({ credited, distributions: of, ...numbers }: RunNumbers, policy?: PolicyFacts) {
  const share = (part: number) => (credited === 0 ? null : part / credited);
  return {
    ...(policy && { policy: policy.path, guessing_logprob: -Math.log(policy.vocab) }),
    mean_logprob: of.mean_logprob.mean,
    median_value_range: of.value_range.median,
    median_sigma_gain: of.sigma_gain.median,
    ...(of.lost_fraction.n > 0 && { lost_fraction: of.lost_fraction.mean }),
    uniform_share: share(numbers.uniform_by_fallback),
    uniform_in_effect_share: share(numbers.uniform_in_effect),
  };
}

/** Of the commonest codes, the first reject's reason is shown. */
const SHOWN_REASONS = 3;

/** The same for people, and why traces were rejected. @param valueName v̂, or log v̂ for `joint` */
export function endLines(
  numbers: RunNumbers,
  { total, counts }: RejectTally,
  policy?: PolicyFacts,
  valueName = 'v̂',
): string[] {
  const told = endRecord(numbers, policy);
  const { status, unreadable } = numbers;
  const listed = (tally: Tally, isMeant: (code: string) => boolean) => {
    const found = codes(Object.fromEntries(Object.entries(tally).filter(([code]) => isMeant(code))));
    return found === '' ? '' : ` (${found})`;
  };
  const lines: string[] = [];
  if (told.mean_logprob !== null) {
    const name = policy && `policy ${policy.isEmbedded ? 'bundled' : escapeControls(policy.path)}: `;
    const { guessing_logprob: guess, median_value_range: range } = told;
    const guessing = guess === undefined ? '' : ` (guessing: ${shortNumber(guess)})`;
    const values = range === null ? '' : `, median range of ${valueName} ${shortNumber(range)}`;
    lines.push(`${name ?? ''}mean log p ${shortNumber(told.mean_logprob)} a token${guessing}${values}`);
  }
  if (told.lost_fraction) lines.push(`samples cut or without a verdict: ${percent(told.lost_fraction)}`);
  if (told.uniform_share !== null && told.uniform_in_effect_share !== null)
    lines.push(
      `σ uniform by fallback: ${percent(told.uniform_share)}${listed(status, isFallback)}; in effect: ${percent(told.uniform_in_effect_share)}`,
    );
  if (told.median_sigma_gain !== null)
    lines.push(
      `σ makes a trace's gradient ${shortNumber(told.median_sigma_gain)} times as large, in the median (docs/trainers.md)`,
    );
  const others = listed(status, (code) => code !== 'ok' && !isFallback(code));
  if (others !== '') lines.push(`also in status:${others}`);
  if (total === 0) return lines;
  const reasons = counts.slice(0, SHOWN_REASONS).map(({ first }) => `  ${onOneLine(first)}`);
  return [...lines, `rejected: ${count(total)}${listed(unreadable, () => true)}`, ...reasons];
}

/** How much a run has done, and how fast. */
export function sizeLine({ traces, tokens, seconds }: ProgressTotals): string {
  const speed = ` (${count(tokensPerSecond({ tokens, seconds }))} tokens/s)`;
  const size = plural(traces, 'trace') + (tokens > 0 ? `, ${plural(tokens, 'token')}` : '');
  return `${size} in ${duration(seconds)}${tokens > 0 ? speed : ''}`;
}
