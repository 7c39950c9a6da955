// Says what stands against trusting the numbers of a scored file.

import { count } from '../plural.js';
import type { Histogram } from './figures.js';
import type { RunNumbers } from './run-counts.js';

/** Something that stands against a run; the code is for programs. */
export interface RunWarning {
  readonly code: string;
  readonly text: string;
}

/** What is told of a scored file, in a terminal and on its page. */
export interface RunStats {
  readonly numbers: RunNumbers;
  readonly warnings: readonly RunWarning[];
  readonly valueName: string;
  /** of the run that scored; undefined where nothing tells */
  readonly throughput:
    | { readonly seconds: number; readonly traces: number; readonly tokens: number }
    | undefined;
}

/** More of them than this is more than a few odd ones. */
const MANY = 0.1;
/** A run half of which is uniform trains as it would without. */
const MOST = 0.5;
/** nats a token, where the vocabulary is not known: what a policy wrote itself is far above */
const UNLIKELY = -3;

/**
 * Whether a mean log p a token is nearer to guessing than to certainty: of what a policy wrote itself it is far above.
 * @param vocab tokens of the policy's vocabulary; undefined where nothing tells
 */
export function isUnlikely(logprob: number | null, vocab: number | undefined): logprob is number {
  return logprob !== null && logprob <= (vocab === undefined ? UNLIKELY : -Math.log(vocab) / 2);
}

/** What is said of traces half of which have that mean log p or less. */
export function unlikelyTraces(median: number): string {
  return `half of the traces have a mean log p of ${median.toFixed(2).replace('-', '−')} a token or less: did this policy write them? Its values mean little there`;
}

/** From this difference of shares on credit is of one side; and so many traces a side tell a share. */
const ONE_SIDED = 0.5;
const ENOUGH = 16;

/**
 * What is said where right traces, those above their baseline, have σ of their rule and wrong ones are uniform, or the other way round: what decides nothing is then
 * moved by the one side and not moved back by the other (docs/training.md). Traces whose return is about 0 move nothing, and are left out.
 */
export function oneSidedCredit({
  returns,
  uneven,
}: Record<'returns' | 'uneven', Histogram>): string | undefined {
  const { right = 0, wrong = 0 } = returns;
  if (right < ENOUGH || wrong < ENOUGH) return undefined;
  const uniform = { right: 1 - (uneven.right ?? 0) / right, wrong: 1 - (uneven.wrong ?? 0) / wrong };
  if (Math.abs(uniform.right - uniform.wrong) < ONE_SIDED) return undefined;
  const [most, least] =
    uniform.right > uniform.wrong ? (['right', 'wrong'] as const) : (['wrong', 'right'] as const);
  const percent = (side: 'right' | 'wrong') => `${Math.round(100 * uniform[side])} %`;
  return `σ is uniform in effect in ${percent(most)} of the ${most} traces and ${percent(least)} of the ${least} ones: such credit trained worse than none in a small experiment; look at the values before you train on it`;
}

/** Whether the first rule of a configuration, which is that of σ, is `uniform`. @param rule a name, or a list of them */
export function asksForUniform(rule: unknown): boolean {
  return [rule].flat()[0] === 'uniform';
}

/** @param vocab as {@link isUnlikely} @param rule as {@link asksForUniform} */
export function warningsOf(numbers: RunNumbers, vocab: number | undefined, rule?: unknown): RunWarning[] {
  const { distributions, credited, uniform_in_effect: uniform, values, label_noise: noise } = numbers;
  const warnings: RunWarning[] = [];
  const add = (isSo: boolean, code: string, text: string) => {
    if (isSo) warnings.push({ code, text });
  };
  const logprob = distributions.mean_logprob.median;
  add(isUnlikely(logprob, vocab), 'unlikely_traces', unlikelyTraces(logprob ?? 0));
  add(
    credited > 0 && uniform >= MOST * credited && !asksForUniform(rule),
    'mostly_uniform',
    `σ is uniform in effect in ${count(uniform)} of ${count(credited)} traces: they train as they would without it; the statuses say why, or a large --tau does`,
  );
  const oneSided = oneSidedCredit(numbers);
  add(oneSided !== undefined, 'one_sided', oneSided ?? '');
  const [right, wrong] = [values?.right.end.median ?? null, values?.wrong.end.median ?? null];
  add(
    right !== null && wrong !== null && right <= wrong,
    'values_do_not_tell',
    `at the end of the thought right traces have no higher value than wrong ones (medians ${right?.toFixed(3)} and ${wrong?.toFixed(3)}): look at references and exit template`,
  );
  add(
    noise !== null && noise.count > MANY * noise.of,
    'label_noise',
    `the reward fits no value of ${count(noise?.count ?? 0)} of ${count(noise?.of ?? 0)} traces: wrong labels, references in other words, or values that mean nothing`,
  );
  return warnings;
}
