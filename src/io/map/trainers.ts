// Presets of what trainers dump, and of the plain formats that they read.

import { describeValue } from '../arrow/json.js';
import { AGENTS, gapped } from './agents.js';
import { completionText, isDialogue, parseMessages, severalTurns } from './messages.js';
import { groupBy, mismatch, type Preset, preset, rule, shortHash } from './preset.js';
import type { Columns } from './sources.js';

const STRIPPED =
  "its writer left out special tokens, so the prompt's chat template and the end token are gone: give the prompts with --join <data set>";

/** NeMo-RL writes batches of one: a value may stand in a list of its own. */
function unwrapped(value: unknown): unknown {
  return Array.isArray(value) && value.length === 1 ? value[0] : value;
}

/** A list of numbers, in a list of its own or not: a list of one number is no list of lists. */
function unwrappedList(value: unknown): unknown {
  return Array.isArray(value) && Array.isArray(value[0]) ? unwrapped(value) : value;
}

/** The sampled tokens of a padded NeMo-RL row: from the first one in its mask to the last one. */
function sampledTokens(columns: Columns) {
  const ids = unwrappedList(columns.token_ids);
  const mask = unwrappedList(columns.token_loss_mask);
  if (!Array.isArray(ids) || !Array.isArray(mask) || ids.length !== mask.length)
    return mismatch(
      `token_ids is ${describeValue(ids)} and token_loss_mask ${describeValue(mask)}, expected lists of one length`,
    );
  const start = mask.findIndex((bit) => Number(bit) === 1);
  const end = mask.findLastIndex((bit) => Number(bit) === 1) + 1;
  if (start < 0) return mismatch('token_loss_mask has no 1, so no token was sampled');
  return { ids: ids as readonly unknown[], bits: mask.slice(start, end).map(Number), start, end };
}

const nemoRl = preset({
  name: 'nemo-rl',
  what: "NeMo-RL's train_data_step<n>.jsonl",
  columns: ['token_ids', 'token_loss_mask'],
  fields: {
    prompt_ids: rule('token_ids before the first 1 of token_loss_mask', (columns) => {
      const { ids, start } = sampledTokens(columns);
      return ids.slice(0, start);
    }),
    completion_ids: rule('token_ids from the first 1 of token_loss_mask to the last', (columns) => {
      const { ids, start, end } = sampledTokens(columns);
      return ids.slice(start, end);
    }),
    completion_mask: rule('token_loss_mask there, where it has a 0', (columns) =>
      gapped(sampledTokens(columns).bits),
    ),
    // with dynamic sampling `rewards` has a row for every trace sampled, these for those that were kept
    reward: ['filtered_rewards', 'rewards'].map((name) => rule(name, (columns) => unwrapped(columns[name]))),
    group: rule("the file's name and a hash of the prompt's ids", (columns, row) => {
      const { ids, start } = sampledTokens(columns);
      return `${row.stem}/${shortHash(ids.slice(0, start))}`;
    }),
  },
  notes: ['it has no references: --map reference=<path>, or --join <file> --join-on <field=field>'],
});

const tokens = preset({
  name: 'tokens',
  what: 'token ids of prompts and completions',
  columns: ['prompt_ids', 'completion_ids'],
  fields: {
    ...{ prompt_ids: 'prompt_ids', completion_ids: 'completion_ids' },
    // as verl, slime and OpenRLHF call it; what TRL's rollout_func gives back, and what its trainer calls it
    completion_mask: [
      ...['completion_mask', 'response_mask', 'loss_mask', 'action_mask', 'env_mask', 'tool_mask'],
    ],
  },
});

/** The prompt of verl's key `<uid>_<session>_<output>`. */
const VERL_KEY = /^(.+)_\d+_\d+$/;

const verlRollout = preset({
  name: 'verl-rollout',
  what: "verl's rollout_data_dir/<step>.jsonl",
  columns: ['input', 'output', 'score', 'step'],
  fields: {
    prompt: 'input',
    completion: 'output',
    reference: 'gts',
    reward: ['acc', 'score'],
    group: [
      rule('step and the prompt that uid begins with', ({ step, uid }) => {
        const [, prompt] = VERL_KEY.exec(typeof uid === 'string' ? uid : '') ?? [];
        return prompt === undefined ? undefined : `${String(step)}/${prompt}`;
      }),
      groupBy('step', 'input'),
    ],
  },
  notes: [STRIPPED],
});

const trlCompletions = preset({
  name: 'trl-completions',
  what: "TRL's completions/completions_<step>.parquet",
  columns: ['step', 'prompt', 'completion', 'advantage'],
  fields: {
    prompt: 'prompt',
    completion: 'completion',
    reference: ['golden_answer', 'answer', 'ground_truth', 'solution'],
    reward: ['accuracy_reward', 'reasoning_accuracy_reward'],
    group: groupBy('step', 'prompt'),
  },
  notes: [
    STRIPPED,
    'a reward stands in the column of its function: --map reward=<column> where it is not accuracy_reward',
    "an answer is there only where a reward function called log_extra('golden_answer', …)",
  ],
});

const openrlhf = preset({
  name: 'openrlhf',
  what: "OpenRLHF's batch_inference --eval_task rm",
  columns: ['input', 'output', 'reward'],
  fits: ({ input, output }) => typeof input === 'string' && typeof output === 'string',
  fields: {
    prompt: 'input',
    completion: 'output',
    reward: 'reward',
    group: rule("the file's name and a hash of input", ({ input }, row) => `${row.stem}/${shortHash(input)}`),
  },
  notes: [
    "its rewards are a reward model's, on a scale of its own: --reward-range <lowest,highest>",
    'it has no references: --map reference=<path>, or --join <file> --join-on <field=field>',
  ],
});

/** The messages up to the assistant's last, which is the completion; of several turns up to the user's last. */
function lastTurn({ messages }: Columns): {
  readonly prompt: readonly unknown[];
  readonly completion: unknown;
} {
  if (!Array.isArray(messages)) return mismatch(`messages is ${describeValue(messages)}, expected messages`);
  const parsed = parseMessages(messages);
  if ('problem' in parsed) return mismatch(`messages${parsed.problem}`);
  const behindUser = parsed.findLastIndex(({ role }) => role === 'user') + 1;
  const own = messages.slice(behindUser);
  if (behindUser > 0 && severalTurns(own)) return { prompt: messages.slice(0, behindUser), completion: own };
  const completion = completionText(messages.slice(-1));
  return completion === null
    ? mismatch(`the last of messages is of the ${parsed.at(-1)?.role}, expected the assistant's`)
    : { prompt: messages.slice(0, -1), completion };
}

const CHAT = { name: 'chat', what: 'dialogues of {role, content}' };

const chat = preset({
  ...CHAT,
  columns: ['prompt', 'completion'],
  fits: ({ prompt }) => isDialogue(prompt),
  fields: { prompt: 'prompt', completion: 'completion' },
});

const chatMessages = preset({
  ...CHAT,
  columns: ['messages'],
  fits: ({ messages, completion }) => isDialogue(messages) && completion === undefined,
  fields: {
    prompt: rule('messages, all but the last', (columns) => lastTurn(columns).prompt),
    completion: rule('the last of messages', (columns) => lastTurn(columns).completion),
  },
});

const promptCompletion = preset({
  name: 'prompt-completion',
  what: 'prompts and completions as text',
  columns: ['prompt', 'completion'],
  fits: ({ prompt, completion }) => typeof prompt === 'string' && typeof completion === 'string',
  fields: { prompt: 'prompt', completion: 'completion' },
});

/** Dumps with columns of their own. */
export const DUMPS: readonly Preset[] = [
  ...[nemoRl, tokens, ...AGENTS, verlRollout, trlCompletions, openrlhf],
];

/** Formats that others may look like: recognised last. */
export const PLAIN_ROWS: readonly Preset[] = [chat, chatMessages, promptCompletion];
