// Says what stands against trusting a run, or a scored file: its numbers, its rejects, and the names of its traces: ids that come twice, groups of
// several prompts, completions under several ids.

import { hash } from 'node:crypto';
import type { PolicyFacts } from '../model/onnx/folder.js';
import { are, count, plural, shortNumber } from '../plural.js';
import { escapeControls } from '../printable.js';
import { BYTES, isFallback } from '../scored.js';
import { THINK_CLOSE, THOUGHT_TAGS, tagStatus } from '../segment/span.js';
import type { RejectTally, RunNumbers } from './counts.js';
import type { FileNumbers } from './gathered.js';

/** Something that a user should know of; the code is for programs. */
export interface Warning {
  readonly code: string;
  readonly message: string;
}

/** What is known of how a run was made. */
export interface MadeBy {
  /** absent where none has run, or its folder is not known */
  readonly policy?: PolicyFacts | undefined;
  /** tokens of its vocabulary; undefined where nothing tells */
  readonly vocab?: number | undefined;
  /** a name, or a list of them, of which the first is that of σ */
  readonly rule?: unknown;
  /** of values that were fitted to rewards */
  readonly calibration?: unknown;
  /** what the user says that the policy thinks between */
  readonly thoughtTags?: readonly [open: string, close: string] | undefined;
}

/** A few odd traces are in every data set: from this share on a warning is worth it. */
const MANY = 0.1;
/** From this share of the traces on, a run whose σ is uniform is GRPO under another name. */
const MOSTLY = 0.5;
/** From this difference of shares on credit is of one side; and so many traces a side tell a share. */
const ONE_SIDED = 0.5;
const ENOUGH = 16;
/** More rejects than this share are more than a few odd ones. */
const REJECTED = 0.05;

/** What a status says that concerns the whole dump: each is told once, and with how many. */
const OF_STATUS: Readonly<Record<string, string>> = {
  [BYTES]:
    'have text and no token ids, and what is called a token of them is a byte: --policy <the policy that wrote them> counts its tokens',
  'baseline:turned':
    'earned more than they were expected to and less than their group, or the other way round, so that a trainer with a group baseline would move them the wrong way: --baseline group',
  'completion:has-prompt':
    'begin with their prompt, which is scored as a part of the thought: --map completion=<path> names what the policy wrote',
  'completion:messages-as-text':
    'are messages written as text, and scored as that text: --map completion=<path>[0].content enters JSON, or write the column as a list of {role, content}',
  'prompt:raw-question':
    'have a raw question for their prompt, and the policy has a chat template: if it was asked by it, give messages with --map prompt=<path>, or prompt_ids',
  'thought:reopened':
    'open the thought with a tag that their prompt ends with already: the policy read it once, so take it out of one of them',
};

/** What mends the commonest reasons of a uniform σ, or says where they come from. */
const CURES: Readonly<Record<string, string>> = {
  'uniform:no-baseline': '--map group=<column> names the groups; --baseline takes a number, too',
  'uniform:no-references': '--map reference=<column> names the reference answers',
  'reward:unknown': '--map reward=<column> names the rewards',
  'uniform:flat-values': 'another policy, or another --estimator, may tell the states apart',
  'uniform:noise': 'no value moved by more than the answers are off: float32 is off by less',
  'uniform:small-return':
    'their reward is their baseline, as in groups that are all right or all wrong, where there is nothing to share out',
};

/** All that the numbers say against the run. */
export function warningsOf(
  numbers: RunNumbers & Partial<Pick<FileNumbers, 'values' | 'label_noise'>>,
  made: MadeBy = {},
): Warning[] {
  const { credited, status, values, label_noise: noise } = numbers;
  const { 'reward:disputed': disputed = 0 } = status;
  const [right, wrong] = [values?.right.end.median ?? null, values?.wrong.end.median ?? null];
  const told: readonly (readonly [code: string, message: string | false | undefined])[] = [
    ['unlikely_traces', unlikelyTraces(numbers, made)],
    ['other_sampler', otherSampler(numbers)],
    [
      'unreferenced',
      made.calibration !== undefined &&
        numbers.unreferenced > 0 &&
        `${plural(numbers.unreferenced, 'trace')} had no reference answer: their values are made of rewards and of what the policy said of the thought alone; --map reference=<column> names answers, if there are any`,
    ],
    ...exitTemplates(numbers, made).map((message) => ['exit_template', message] as const),
    ...Object.entries(OF_STATUS).map(([code, what]) => {
      return [code, status[code] !== undefined && `${plural(status[code], 'trace')} ${what}`] as const;
    }),
    [
      'disputed_rewards',
      disputed > 0 &&
        disputed >= MOSTLY * credited &&
        `${count(disputed)} of ${plural(credited, 'trace')} have a reward of 0 and answer as their reference, or of 1 and answer otherwise: --map reward=<column> and reference=<column> name those of these completions, and not of errors`,
    ],
    // of the rule `uniform` nobody is told that σ is so
    ['mostly_uniform', [made.rule].flat()[0] !== 'uniform' && mostlyUniform(numbers)],
    ['one_sided', oneSidedCredit(numbers)],
    [
      'values_do_not_tell',
      right !== null &&
        wrong !== null &&
        right <= wrong &&
        `at the end of the thought right traces have no higher value than wrong ones (medians ${right.toFixed(3)} and ${wrong.toFixed(3)}): look at references and exit template`,
    ],
    [
      'label_noise',
      noise != null &&
        noise.count > MANY * noise.of &&
        `the reward fits no value of ${count(noise.count)} of ${count(noise.of)} traces: wrong labels, references in other words, or values that mean nothing`,
    ],
  ];
  return told.flatMap(([code, message]) => (message ? [{ code, message }] : []));
}

function isMany(n: number, { distributions }: RunNumbers): boolean {
  return n > 0 && n >= MANY * distributions.mean_logprob.n;
}

/** Where another policy than this one wrote the traces. */
function unlikelyTraces(numbers: RunNumbers, { policy, vocab = policy?.vocab }: MadeBy): string | undefined {
  const { unlikely: n } = numbers;
  if (!isMany(n, numbers)) return undefined;
  const { n: traces, mean } = numbers.distributions.mean_logprob;
  const what = `${count(n)} of ${plural(traces, 'trace')} ${are(n)}`;
  const guessing = vocab === undefined ? '' : `, guessing gives ${shortNumber(-Math.log(vocab))}`;
  const logprobs = `mean log p ${shortNumber(mean ?? 0)} a token${guessing}`;
  return policy?.isEmbedded
    ? `${what} foreign to the bundled policy, which knows two toy tasks (${logprobs}): its numbers mean nothing there; rredcot policy build <checkpoint> -o <folder> makes a policy of the model that wrote them, --policy <folder> uses it`
    : `${what} little better than guessed by ${escapeControls(policy?.path ?? 'the policy')} (${logprobs}): did this policy write these traces? --policy <folder> names another`;
}

/**
 * Where the rows' own log-probabilities are not this policy's. The mean difference is a divergence: of a policy's own samples about 0,
 * whatever an engine rounds (a real one in bfloat16: .0005, .0075 apart), of a temperature of .7 .022, of another checkpoint what tells them apart.
 */
const [OFF_SAMPLES, APART] = [0.01, 0.1];
function otherSampler({ sampled_above: above, sampled_apart: apart }: RunNumbers): string | undefined {
  if (above === null || apart === null || (Math.abs(above) < OFF_SAMPLES && apart < APART)) return undefined;
  return `the rows' own log-probabilities lie ${shortNumber(above)} nats a token above the policy's in the mean, ${shortNumber(apart)} from them: another checkpoint wrote these traces, or it did at another temperature; --policy <folder> names the one that did`;
}

/** Where the policy is asked for the answer inside the thought. */
function exitTemplates(numbers: RunNumbers, { policy, thoughtTags }: MadeBy): string[] {
  if (policy === undefined) return [];
  const { n: traces } = numbers.distributions.mean_logprob;
  return [...new Set([...THOUGHT_TAGS, ...(thoughtTags ? [thoughtTags] : [])])].flatMap((tags) => {
    const [, close] = tags;
    const code = tagStatus('', tags, '').join();
    const n = close === THINK_CLOSE ? numbers.closed_thoughts : (numbers.status[code] ?? 0);
    if (!isMany(n, numbers) || policy.exit.includes(close)) return [];
    return `in ${count(n)} of ${plural(traces, 'trace')} the thought ends with ${close}, and the policy's exit template (${JSON.stringify(policy.exit)}) does not: it asks for the answer inside the thought; rredcot policy build --exit-template gives another`;
  });
}

/** Where σ is uniform in most traces: the commonest reason, which is a status or, where few have one, the rule. */
function mostlyUniform(numbers: RunNumbers): string | undefined {
  const { credited, uniform_by_fallback: fallbacks, uniform_in_effect: uniform } = numbers;
  const most = Math.max(fallbacks, uniform);
  if (most === 0 || most < MOSTLY * credited) return undefined;
  const what = `σ is uniform in ${count(most)} of ${plural(credited, 'trace')}, which is no credit at all`;
  if (2 * fallbacks < most)
    return `${what}; ${fallbacks === 0 ? 'none' : count(fallbacks)} by fallback: a large --tau, or values that hardly move, leave every token about the same`;
  const [code, n] = Object.entries(numbers.status).find(([code]) => isFallback(code)) as [string, number];
  const cure = CURES[code] === undefined ? '' : `: ${CURES[code]}`;
  return `${what}; ${count(n)} have ${code}${cure} (docs/output.md#statuses)`;
}

/**
 * Where right traces, those above their baseline, have σ of their rule and wrong ones are uniform, or the other way round: what decides nothing is then
 * moved by the one side and not moved back by the other (docs/training.md). Traces whose return is about 0 move nothing, and are left out.
 */
function oneSidedCredit({ returns, uneven }: RunNumbers): string | undefined {
  if (returns.right < ENOUGH || returns.wrong < ENOUGH) return undefined;
  const uniform = { right: 1 - uneven.right / returns.right, wrong: 1 - uneven.wrong / returns.wrong };
  if (Math.abs(uniform.right - uniform.wrong) < ONE_SIDED) return undefined;
  const [most, least] =
    uniform.right > uniform.wrong ? (['right', 'wrong'] as const) : (['wrong', 'right'] as const);
  const percent = (side: 'right' | 'wrong') => `${Math.round(100 * uniform[side])} %`;
  return `σ is uniform in effect in ${percent(most)} of the ${most} traces and ${percent(least)} of the ${least} ones: such credit trained worse than none in a small experiment; look at the values before you train on it (docs/sigma-rules.md)`;
}

/** Where more than one trace in twenty was rejected. @param traces of the whole */
export function rejectWarning({ total, counts: [most] }: RejectTally, traces: number): Warning[] {
  if (most === undefined || total <= REJECTED * (total + traces)) return [];
  const message = `${count(total)} of ${plural(total + traces, 'trace')} were rejected, most of them (${count(most.count)}) with ${most.code}, first ${onOneLine(most.first)}`;
  return [{ code: 'many_rejected', message }];
}

const SHOWN_CHARACTERS = 240;

/** A reject's place and reason, as far as a line has room for them. */
export function onOneLine(text: string): string {
  const line = escapeControls(text.replace(/\s+/g, ' '));
  return line.length <= SHOWN_CHARACTERS ? line : `${line.slice(0, SHOWN_CHARACTERS)} …`;
}

// ------ names of traces

/** What of a trace is looked at. */
export interface Named {
  readonly id: string;
  readonly group?: string | undefined;
  /** the same for traces of one prompt; null where nobody knows it */
  readonly prompt: string | null;
  /** the same for traces of one completion; absent where a trace's completion does not matter */
  readonly completion?: string | undefined;
}

/**
 * Remembers the ids, groups and prompts of traces, in some 400 bytes a trace at most, and what stands against them.
 * @param isGrouped something follows of a trace's group: a group of which nothing does may hold anything
 */
export function seenNames(isGrouped: boolean) {
  // by 72 bits of a hash; a set of Node holds 16 million: there is one for each beginning
  const sets = new Map<string, Set<string>>();
  const isNew = (...names: readonly string[]): boolean => {
    const key = hash('sha1', names.join('\0'), 'base64').slice(0, 12);
    const set = sets.get(key.slice(0, 1)) ?? new Set();
    sets.set(key.slice(0, 1), set);
    return set.size < set.add(key).size;
  };
  const same = { traces: 0, first: '' };
  const mixed = { traces: 0, first: '' };
  const alike = { traces: 0, first: '' };
  const split = { traces: 0, first: '' };
  let grouped = 0;
  return {
    /** @param isWritten whether the trace is one of the output, where an id counts */
    add({ id, group, prompt, completion }: Named, isWritten = true): void {
      const isNewId = !isWritten || isNew('id', id);
      if (!isNewId) note(same, id);
      if (!isGrouped || group === undefined || prompt === null) return;
      const isNewGroup = isNew('group', group);
      const isNewPair = isNew('prompt', group, prompt);
      if (isNewPair && !isNewGroup) note(mixed, group);
      grouped++;
      if (isNewPair && !isNew('asked', prompt)) note(split, group);
      // of one id it is the same trace, which has been told
      if (completion !== undefined && !isNew('completion', group, prompt, completion) && isNewId)
        note(alike, id);
    },
    warnings(): Warning[] {
      const has = (n: number) => `${plural(n, 'trace')} ${n === 1 ? 'has' : 'have'}`;
      const told = [
        [
          'same_id',
          same.traces,
          `${has(same.traces)} the id of an earlier one, first ${JSON.stringify(same.first)}: what joins rows by id mixes them, and verify finds them; --map id=<column> names a column that tells them apart`,
        ],
        [
          'mixed_groups',
          mixed.traces,
          `${plural(mixed.traces, 'prompt')} ${are(mixed.traces)} in a group with other prompts, first in ${JSON.stringify(mixed.first)}: what follows of a group, such as its mean reward, is meant for completions of one prompt; --map group=<column> names one that holds a prompt together`,
        ],
        // of several epochs a prompt has several groups, of several completions each
        [
          'split_prompts',
          split.traces < MOSTLY * grouped ? 0 : split.traces,
          `${plural(split.traces, 'group')} ${split.traces === 1 ? 'has' : 'have'} the prompt of an earlier one, first ${JSON.stringify(split.first)}: no mean is that of a prompt's completions, and what is fitted without a group has seen its prompt; --map group=<column> names one that holds a prompt together`,
        ],
        [
          'same_completion',
          alike.traces,
          `${has(alike.traces)} the completion of an earlier one of the same group and prompt, first ${JSON.stringify(alike.first)}: they are one peer, and none of each other, which counts once where nobody would draw it twice (docs/method.md); where they are one trace under several ids, leave the others out`,
        ],
      ] as const;
      return told.flatMap(([code, n, message]) => (n > 0 ? [{ code, message }] : []));
    },
  };
}

function note(found: { traces: number; first: string }, name: string): void {
  if (found.traces++ === 0) found.first = name;
}
