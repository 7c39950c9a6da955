// Says a run's figures at its end, and warns where they cannot be trusted.

import { are, count, plural } from '../plural.js';
import { escapeControls } from '../printable.js';
import { isFallback } from '../scored.js';
import { THINK_CLOSE, THOUGHT_TAGS, tagStatus } from '../segment/span.js';
import { type Figures, type Histogram, median } from './figures.js';
import { asksForUniform, oneSidedCredit } from './warnings.js';

/** What is to be known of the policy that made the figures. */
export interface PolicyFacts {
  /** its folder, as the user named it */
  readonly path: string;
  /** whether it is the one that ships with the program */
  readonly isEmbedded: boolean;
  /** tokens of its vocabulary */
  readonly vocab: number;
  /** exit template: close and open */
  readonly exit: string;
}

/** Something that a user should know of; the code is for programs. */
export interface Warning {
  readonly code: string;
  readonly message: string;
}

/** Of the traces, this share has to be affected before a warning is worth it: a few odd ones are in every data set. */
const WORTH_A_WARNING = 0.1;

/** From this share of the traces on, a run whose σ is uniform is GRPO under another name. */
const MOSTLY = 0.5;
/** What mends the commonest reason for that, where a flag does. */
const CURES: Readonly<Record<string, string>> = {
  'uniform:no-baseline': '--map group=<column> names the groups; --baseline takes a number, too',
  'reward:unknown': '--map reward=<column> names the rewards',
  'uniform:flat-values': 'another policy, or another --estimator, may tell the states apart',
};

/** What of a run's configuration says why σ is as it is. */
export interface MadeBy {
  readonly rule?: unknown;
  /** `group`, `value`, a number, or `auto` where that is the group's mean */
  readonly baseline?: unknown;
  /** what the user says that the policy thinks between */
  readonly thoughtTags?: readonly [open: string, close: string] | undefined;
  /** whether the policy itself has written the traces */
  readonly isSampled?: boolean;
}

/** What the numbers of a run are worth, for programs; null where nothing is known. */
export function figureRecord(figures: Figures, policy?: PolicyFacts) {
  const { credited, fallbacks, uniform } = figures;
  const share = (part: number) => (credited === 0 ? null : part / credited);
  return {
    ...(policy && { policy: policy.path, guessing_logprob: -Math.log(policy.vocab) }),
    mean_logprob: meanLogprob(figures) ?? null,
    median_value_range: median(figures.value_ranges) ?? null,
    median_sigma_gain: median(figures.gains) ?? null,
    ...(figures.sampled_exits > 0 && { lost_fraction: lostFraction(figures) }),
    uniform_share: share(fallbacks),
    uniform_in_effect_share: share(uniform),
  };
}

/** The same as lines for people. @param valueName v̂, or log v̂ for `joint` */
export function figureLines(figures: Figures, policy?: PolicyFacts, valueName = 'v̂'): string[] {
  const told = figureRecord(figures, policy);
  const codes = Object.entries(figures.status);
  const lines: string[] = [];
  if (told.mean_logprob !== null) {
    const name = policy === undefined ? '' : `policy ${policyName(policy)}: `;
    const { guessing_logprob: guess, median_value_range: range } = told;
    const guessing = guess === undefined ? '' : ` (guessing: ${shortNumber(guess)})`;
    const values = range === null ? '' : `, median range of ${valueName} ${shortNumber(range)}`;
    lines.push(`${name}mean log p ${shortNumber(told.mean_logprob)} a token${guessing}${values}`);
  }
  if (told.lost_fraction !== undefined)
    lines.push(`samples cut or without a verdict: ${percent(told.lost_fraction)}`);
  if (told.uniform_share !== null && told.uniform_in_effect_share !== null) {
    const byFallback = `${percent(told.uniform_share)}${listCodes(codes.filter(([code]) => isFallback(code)))}`;
    lines.push(`σ uniform by fallback: ${byFallback}; in effect: ${percent(told.uniform_in_effect_share)}`);
  }
  if (told.median_sigma_gain !== null)
    lines.push(
      `σ makes a trace's gradient ${shortNumber(told.median_sigma_gain)} times as large, in the median (docs/trainers.md)`,
    );
  const others = codes.filter(([code]) => !isFallback(code));
  if (others.length > 0) lines.push(`also in status:${listCodes(others)}`);
  return lines;
}

/**
 * Where the figures say that the run means nothing, or little.
 * @param policy absent where none has run
 * @param config of the run: of the rule `uniform` nobody is told that σ is so
 */
export function figureWarnings(figures: Figures, policy?: PolicyFacts, config: MadeBy = {}): Warning[] {
  const mostly = asksForUniform(config.rule) ? undefined : mostlyUniform(figures, config);
  const oneSided = oneSidedCredit(figures);
  return [
    ...(policy === undefined ? [] : policyWarnings(figures, policy, config)),
    ...statusWarnings(figures.status),
    ...(mostly === undefined ? [] : [{ code: 'mostly_uniform', message: mostly }]),
    ...(oneSided === undefined ? [] : [{ code: 'one_sided', message: `${oneSided} (docs/sigma-rules.md)` }]),
  ];
}

/** Where the policy cannot be the one that wrote the traces, or is asked in the wrong words. */
function policyWarnings(
  figures: Figures,
  policy: PolicyFacts,
  { thoughtTags, isSampled }: MadeBy,
): Warning[] {
  const { mean_logprobs: means, closed_thoughts: closed } = figures;
  const traces = total(means);
  // where none has been read by it, nothing is to be said of it
  if (traces === 0) return [];
  const isMany = (n: number) => n > 0 && n >= WORTH_A_WARNING * traces;
  const warnings: Warning[] = [];
  const guessing = -Math.log(policy.vocab);
  // nearer to guessing than to certainty: what a policy has sampled itself is far above that
  const guessed = total(means, (mean) => mean <= guessing / 2);
  if (isMany(guessed)) {
    const what = `${count(guessed)} of ${plural(traces, 'trace')} ${are(guessed)}`;
    const logprobs = `mean log p ${shortNumber(meanLogprob(figures) ?? 0)} a token, guessing gives ${shortNumber(guessing)}`;
    warnings.push(
      policy.isEmbedded
        ? {
            code: 'unlikely_traces',
            message: `${what} foreign to the bundled policy, which knows two toy tasks (${logprobs}): its numbers mean nothing there; rredcot policy build <checkpoint> -o <folder> makes a policy of the model that wrote them, --policy <folder> uses it`,
          }
        : {
            code: 'unlikely_traces',
            message: `${what} little better than guessed by ${escapeControls(policy.path)} (${logprobs}): ${isSampled ? 'it does not know such prompts, or is asked in other words' : 'did this policy write these traces? --policy <folder> names another'}`,
          },
    );
  }
  for (const tags of new Set([...THOUGHT_TAGS, ...(thoughtTags ? [thoughtTags] : [])])) {
    const [, close] = tags;
    const n = close === THINK_CLOSE ? closed : (figures.status[tagStatus('', tags, '').join()] ?? 0);
    if (!isMany(n) || policy.exit.includes(close)) continue;
    warnings.push({
      code: 'exit_template',
      message: `in ${count(n)} of ${plural(traces, 'trace')} the thought ends with ${close}, and the policy's exit template (${JSON.stringify(policy.exit)}) does not: it asks for the answer inside the thought; rredcot policy build --exit-template gives another`,
    });
  }
  return warnings;
}

/** What a status says that concerns the whole dump: each is told once, and with how many. */
const TOLD: Readonly<Record<string, string>> = {
  'completion:has-prompt':
    'begin with their prompt, which is scored as a part of the thought: --map completion=<path> names what the policy wrote',
  'prompt:raw-question':
    'have a raw question for their prompt, and the policy has a chat template: if it was asked by it, give messages with --map prompt=<path>, or prompt_ids',
  'thought:reopened':
    'open the thought with a tag that their prompt ends with already: the policy read it once, so take it out of one of them',
};

/** @param status how many traces have each code */
function statusWarnings(status: Figures['status']): Warning[] {
  return Object.entries(TOLD).flatMap(([code, what]) => {
    const n = status[code] ?? 0;
    return n === 0 ? [] : [{ code, message: `${plural(n, 'trace')} ${what}` }];
  });
}

/** Where σ is uniform in most traces: the commonest reason, which is a status or, where few have one, the rule. */
function mostlyUniform(figures: Figures, config: MadeBy): string | undefined {
  const { credited, fallbacks, uniform, status } = figures;
  const most = Math.max(fallbacks, uniform);
  if (most === 0 || most < MOSTLY * credited) return undefined;
  const what = `σ is uniform in ${count(most)} of ${plural(credited, 'trace')}, which is no credit at all`;
  const codes = Object.entries(status).filter(([code]) => isFallback(code));
  if (2 * fallbacks < most)
    return `${what}; ${fallbacks === 0 ? 'none' : count(fallbacks)} by fallback: a large --tau, or values that hardly move, leave every token about the same`;
  const [code, n] = codes.reduce((most, each) => (each[1] > most[1] ? each : most));
  if (code === 'uniform:flat-values' && (lostFraction(figures) ?? 0) >= MOSTLY)
    return `${what}: most samples were cut or could not be judged, and count nothing; more --mc-max-tokens, or --stop <text|id> where the policy names no end token`;
  const known = code === 'uniform:small-return' ? smallReturns(figures, config) : CURES[code];
  const cure = known === undefined ? '' : `: ${known}`;
  return `${what}; ${count(n)} have ${code}${cure} (docs/output.md#statuses)`;
}

/** Why so many rewards are their baseline: groups are blamed where it is their mean, and where what was rejected is not in it. */
function smallReturns({ rejects, credited }: Figures, { baseline }: MadeBy): string | undefined {
  if (typeof baseline === 'number')
    return `their reward is the baseline ${baseline}; --baseline takes another`;
  if (baseline === 'value')
    return 'their value at the start is their reward already; --baseline group takes the mean of the group';
  if (isManyRejected(total(rejects), credited))
    return 'of many groups a part was rejected, and what is left of them is all alike';
  return 'groups whose rewards are all alike have nothing to share out, whatever the rule';
}

/** More than one row in twenty rejected is more than a few odd ones. */
export function isManyRejected(rejects: number, traces: number): boolean {
  return rejects > REJECTED * (rejects + traces);
}

const REJECTED = 0.05;

/** Codes and how often they occur, in alphabetical order, in brackets. */
export function listCodes(counts: Iterable<readonly [code: string, n: number]>): string {
  const entries = [...counts].sort(([a], [b]) => (a < b ? -1 : 1)).map(([code, n]) => `${code} ${count(n)}`);
  return entries.length === 0 ? '' : ` (${entries.join(', ')})`;
}

function policyName({ path, isEmbedded }: PolicyFacts): string {
  return isEmbedded ? 'bundled' : escapeControls(path);
}

/** Of the samples of Monte Carlo values; undefined where there are none. */
function lostFraction({ sampled_exits: exits, lost_shares: shares }: Figures): number | undefined {
  return exits > 0 ? shares / exits : undefined;
}

function meanLogprob({ logprob_sum: sum, scored_tokens: tokens }: Figures): number | undefined {
  return tokens === 0 ? undefined : sum / tokens;
}

/** Traces of a histogram, or those of some of its bins. */
function total(histogram: Histogram, isMeant: (bin: number) => boolean = () => true): number {
  return Object.entries(histogram).reduce((sum, [bin, n]) => sum + (isMeant(Number(bin)) ? n : 0), 0);
}

/** Two digits behind the point, or two digits of what is smaller. */
function shortNumber(x: number): string {
  const text = Math.abs(x) >= 0.1 ? x.toFixed(2) : String(Number(x.toPrecision(2)));
  return text.replace('-', '−');
}

function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}
