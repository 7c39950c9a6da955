// What a command counts of its rows and rejects as they go by, and what it says of them at the end.
import type { Counts } from '../io/write/facts.js';
import type { Target } from '../io/write/target.js';
import { type PolicyFacts, policyFacts, type TextFolder } from '../model/onnx/folder.js';
import { count, duration, percent, plural, shortNumber } from '../plural.js';
import { escapeControls } from '../printable.js';
import { type BadRow, isBad } from '../rows.js';
import { isFallback, type OutputRow } from '../scored.js';
import { codes, type RejectTally, RunCounts, type RunNumbers, type Tally, unitOf } from './counts.js';
import type { Log } from './log.js';
import { type Expected, openProgress, type ProgressTotals } from './progress.js';
import { type MadeBy, onOneLine, rejectWarning, seenNames, warningsOf } from './warnings.js';

export interface StatsOptions {
  readonly policy: TextFolder | undefined;
  /** whether what follows of a trace's group counts */
  readonly usesGroups: boolean;
  /** how values are called in the trace that is drawn at the end; undefined where there are none */
  readonly valueName?: string | undefined;
  readonly target: Target;
  /** the resolved configuration */
  readonly config: Readonly<Record<string, unknown>>;
  readonly expected: Expected;
  /** when the run began (`performance.now()`), where that is not now */
  readonly began?: number;
  /** earlier attempts have asked some of its questions */
  readonly isPartlyTimed?: boolean;
  /** what earlier attempts have counted */
  readonly before?: Pick<Counts, 'traces' | 'rejects' | 'tokens'>;
  /** its rows are computed here, not made of stored ones */
  readonly isComputed: boolean;
  /** what is recorded besides: of all that was done, and what is known from the start */
  readonly figures?: (() => Readonly<Record<string, unknown>>) | undefined;
  readonly beside?: Readonly<Record<string, unknown>>;
  /** traces of all inputs, where a limit takes fewer */
  readonly whole?: number | undefined;
  /** the first pass has looked at the traces' names */
  readonly isNamed: boolean;
  readonly log: Log;
}

/** Traces after which the figures say something. */
const ENOUGH_TO_WARN = 64;

/** What is counted of a command's share of a run. */
export type RunStats = ReturnType<typeof openStats>;

export function openStats(opts: StatsOptions) {
  const { log, target, config, whole, before = { traces: 0, rejects: 0, tokens: 0 } } = opts;
  const policy = opts.policy && policyFacts(opts.policy);
  const progress = openProgress(log, opts.expected, opts.began);
  // that values do not tell right from wrong is for `summary` to say
  const counts = new RunCounts(policy?.vocab);
  const names = opts.isNamed ? undefined : seenNames(opts.usesGroups);
  const warned = new Set<string>();
  const padded = { traces: 0, tokens: 0 };
  const isResumed = before.traces + before.rejects > 0;

  /** Everything of this share, the parts of earlier attempts included. */
  function totals() {
    const { traces, rejects, tokens } = progress.totals();
    const sums = { traces: traces + before.traces, rejects: rejects + before.rejects };
    return { ...sums, tokens: tokens + before.tokens };
  }

  function warn(isEarly: boolean): void {
    const { rule, thoughtTags, calibration } = config as MadeBy;
    for (const { code, message } of warningsOf(counts.numbers, { policy, rule, thoughtTags, calibration })) {
      // the first traces may well be of one side
      if (isEarly && code === 'one_sided') continue;
      const when = isEarly ? `after ${ENOUGH_TO_WARN} traces: ` : '';
      if (!warned.has(message)) log.warn(code, when + message);
      warned.add(message);
    }
  }

  const fromOutside = () => ({ ...opts.figures?.(), ...opts.beside, output: target.path });

  /** The record with which the log ends. */
  function doneRecord(): Record<string, unknown> {
    const { tokens_per_s, ...done } = progress.totals();
    const figures = endRecord(counts.numbers, policy);
    const speed = opts.isComputed && { tokens_per_s };
    const ofPadding = padded.traces > 0 && { padded_traces: padded.traces, padding_tokens: padded.tokens };
    return { ...done, ...speed, ...figures, ...ofPadding, ...fromOutside() };
  }

  return {
    totals,
    /** of this process, with their reasons */
    rejects: counts.rejects,
    /** Nothing is told of the progress any more. */
    end: progress.end,
    add(item: OutputRow | BadRow): void {
      if (isBad(item)) {
        progress.reject(item.ordinal);
        counts.rejects.add(item);
        return;
      }
      progress.trace(item.completionIds?.length ?? 0, item.trace.source.ordinal);
      counts.add(item);
      padded.traces += item.trace.padding === undefined ? 0 : 1;
      padded.tokens += item.trace.padding ?? 0;
      names?.add({ ...item.trace, prompt: item.promptIds?.join() ?? null, completion: undefined });
      // hours may pass until the end
      if (progress.totals().traces === ENOUGH_TO_WARN) warn(true);
    },
    /** The record of the whole run, for its summary: where an earlier attempt has made a part of it, what both can count. */
    wholeRecord(): Readonly<Record<string, unknown>> {
      if (isResumed) return { ...totals(), ...fromOutside() };
      const { seconds, tokens_per_s, ...counted } = doneRecord();
      return { ...counted, ...(!opts.isPartlyTimed && { seconds, tokens_per_s }) };
    },
    /** Tells the user what was done. */
    report(): void {
      const { numbers, rejects } = counts;
      const own = progress.totals();
      log.text(() =>
        [sizeLine(own, unitOf(numbers)), ...endLines(numbers, rejects, policy, opts.valueName)].join('\n'),
      );
      if (padded.traces > 0)
        log.info(`padding was cut off ${plural(padded.traces, 'trace')}: ${plural(padded.tokens, 'token')}`);
      warn(false);
      const rejected = rejectWarning(rejects, totals().traces);
      for (const { code, message } of [...(names?.warnings() ?? []), ...rejected]) log.warn(code, message);
      if (isResumed) log.info('these figures are of this attempt alone: rredcot summary counts them all');
      if (rejects.total > 0) log.text(() => `rejects in ${escapeControls(target.rejects)}`);
      if (target.path !== '-') log.text(() => `written to ${escapeControls(target.path)}`);
      if (whole !== undefined) log.text(() => wholeText(whole, own));
      log.record('done', doneRecord());
    },
  };
}

/** What all of the inputs would take where a limit has ended the run. @param whole their traces */
function wholeText(whole: number, { traces, rejects, seconds }: ProgressTotals): string {
  const done = Math.max(1, traces + rejects);
  return `the whole input, about ${plural(whole, 'trace')}, would take about ${duration((seconds / done) * whole)}`;
}

/** What the numbers of a run are worth, for programs; null where nothing is known. */
export function endRecord({ credited, distributions: of, ...numbers }: RunNumbers, policy?: PolicyFacts) {
  return {
    ...(policy && { policy: policy.path, guessing_logprob: -Math.log(policy.vocab) }),
    mean_logprob: of.mean_logprob.mean,
    median_value_range: of.value_range.median,
    median_sigma_gain: of.sigma_gain.median,
    ...(of.lost_fraction.mean !== null && { lost_fraction: of.lost_fraction.mean }),
    ...(numbers.below_noise !== null && { below_noise: numbers.below_noise }),
    ...(numbers.sampled_above !== null && {
      sampled_above: numbers.sampled_above,
      sampled_apart: numbers.sampled_apart,
    }),
    uniform_share: credited === 0 ? null : numbers.uniform_by_fallback / credited,
    uniform_in_effect_share: credited === 0 ? null : numbers.uniform_in_effect / credited,
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
  const { guessing_logprob: guess, median_value_range: range } = told;
  const name = policy ? `policy ${policy.isEmbedded ? 'bundled' : escapeControls(policy.path)}: ` : '';
  const guessing = guess === undefined ? '' : ` (guessing: ${shortNumber(guess)})`;
  const values = range === null ? '' : `, median range of ${valueName} ${shortNumber(range)}`;
  const others = listed(status, (code) => code !== 'ok' && !isFallback(code));
  const lines = [
    told.mean_logprob !== null &&
      `${name}mean log p ${shortNumber(told.mean_logprob)} a token${guessing}${values}`,
    numbers.sampled_above !== null &&
      numbers.sampled_apart !== null &&
      `the rows' own log p lie ${shortNumber(numbers.sampled_above)} a token above these, ${shortNumber(numbers.sampled_apart)} from them`,
    told.lost_fraction && `samples cut or without a verdict: ${percent(told.lost_fraction)}`,
    told.uniform_share !== null &&
      told.uniform_in_effect_share !== null &&
      `σ uniform by fallback: ${percent(told.uniform_share)}${listed(status, isFallback)}; in effect: ${percent(told.uniform_in_effect_share)}`,
    told.below_noise && `changes of value below the noise: ${percent(told.below_noise)} of the segments`,
    told.median_sigma_gain !== null &&
      `σ makes a trace's gradient ${shortNumber(told.median_sigma_gain)} times as large, in the median (docs/trainers.md)`,
    others !== '' && `also in status:${others}`,
  ].filter((line) => typeof line === 'string');
  if (total === 0) return lines;
  const reasons = counts.slice(0, SHOWN_REASONS).map(({ first }) => `  ${onOneLine(first)}`);
  return [...lines, `rejected: ${count(total)}${listed(unreadable, () => true)}`, ...reasons];
}

/** How much a run has done, and how fast. */
function sizeLine({ traces, tokens, seconds, tokens_per_s }: ProgressTotals, unit: string): string {
  const speed = ` (${count(tokens_per_s)} ${unit}s/s)`;
  const size = plural(traces, 'trace') + (tokens > 0 ? `, ${plural(tokens, unit)}` : '');
  return `${size} in ${duration(seconds)}${tokens > 0 ? speed : ''}`;
}
