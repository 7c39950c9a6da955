// Presets of what trainers and their agents dump.

import { describeValue } from '../../printable.js';
import { type Columns, type FieldRule, objectIn } from './fields.js';
import { isDialogue } from './messages.js';
import { at, groupBy, listAt, mismatch, type Preset, rule, ruleForEach, shortHash } from './preset.js';

type EpisodeTrace = Columns & { readonly nodes: readonly Columns[] };

/** The traces of an episode, as their graphs of messages have them. */
function episodeTraces(columns: Columns): readonly EpisodeTrace[] {
  const traces = columns.traces;
  if (!Array.isArray(traces) || traces.length === 0)
    return mismatch(`traces is ${describeValue(traces)}, expected those of an episode that was run`);
  const bad = traces.findIndex((trace) => !Array.isArray(trace?.nodes) || trace.nodes.length === 0);
  return bad < 0 ? traces : mismatch(`traces[${bad}].nodes has no message, expected the ids of a trace`);
}

/** Ids before the first that a mask has, and those from it to the last; undefined where it has none. */
function sampledIn(ids: readonly unknown[], mask: readonly unknown[]) {
  const bits = mask.map(Number);
  const [start, end] = [bits.indexOf(1), bits.lastIndexOf(1) + 1];
  if (start < 0) return undefined;
  const own = bits.slice(start, end);
  // nothing where the policy wrote all of it: the trace has one turn
  const gaps = own.every((bit) => bit === 1) ? null : own;
  return { prompt: ids.slice(0, start), completion: ids.slice(start, end), mask: gaps };
}

type SampledPart = keyof NonNullable<ReturnType<typeof sampledIn>>;

/** The ids of a trace, put together of what each node adds. @throws Mismatch for one of several branches */
function sampledOf({ nodes }: EpisodeTrace, n: number) {
  const branch = nodes.findIndex(({ parent }, i) => (parent ?? -1) !== i - 1);
  if (branch >= 0)
    return mismatch(`traces[${n}].nodes[${branch}] is a branch, expected one conversation a trace`);
  const list = (name: string) => nodes.flatMap((node) => (node[name] ?? []) as unknown[]);
  const [ids, mask] = [list('token_ids'), list('mask')];
  const found = ids.length === mask.length ? sampledIn(ids, mask) : undefined;
  const lengths = `${ids.length} token_ids and ${mask.length} of mask`;
  return found ?? mismatch(`traces[${n}] has ${lengths}, expected sampled ids`);
}

function ofTraces(text: string, value: (trace: EpisodeTrace, n: number) => unknown): FieldRule {
  return ruleForEach(`traces[].${text}`, (columns) => episodeTraces(columns).map(value));
}

const partOf = (text: string, part: SampledPart) =>
  ofTraces(`nodes[].${text}`, (trace, n) => sampledOf(trace, n)[part]);

/** The sum of what was weighed in, as verifiers makes a trace's reward; null where nothing was. */
function weighedReward({ rewards }: Columns): unknown {
  const found = Object.values((rewards ?? {}) as Record<string, Columns | null>).flatMap((each) =>
    each === null ? [] : Number(each.score) * Number(each.weight ?? 1),
  );
  return found.length === 0 ? null : total(found);
}

/** An object, which may be written as JSON. */
function objectOf(value: unknown) {
  if (typeof value !== 'string') return value as Columns;
  const expected = 'expected a call of a tool or its arguments';
  return (
    (objectIn(value) as Columns | undefined) ?? mismatch(`${value.slice(0, 40)} is no JSON, ${expected}`)
  );
}

const objectsIn = (value: unknown) => (Array.isArray(value) ? value : []).map(objectOf);

/** Its messages with calls as chat templates read them, not as texts of {id, name, arguments}. */
function withCalls(completion: unknown): unknown {
  if (!isDialogue(completion)) return completion;
  return (completion as readonly Columns[]).map(({ tool_calls: calls, ...message }) => {
    const read = objectsIn(calls).map(({ id, name, arguments: args, ...more }) => {
      return { id, type: 'function', function: { name, arguments: objectOf(args) }, ...more };
    });
    return read.length === 0 ? message : { ...message, tool_calls: read };
  });
}

/** SkyRL has a number a trajectory, or one a token, which it adds up. */
const total = (reward: unknown): unknown =>
  Array.isArray(reward) ? reward.reduce((sum: number, each) => sum + Number(each), 0) : reward;

/** The prompts of a batch, of which each row is a whole trajectory. */
function wholePrompts(columns: Columns): readonly unknown[] {
  const prompts = listAt(columns, 'prompt_token_ids', 'lists of ids');
  const { is_last_step: last } = columns;
  const step = Array.isArray(last) ? last.indexOf(false) : -1;
  return step < 0
    ? prompts
    : mismatch(`is_last_step[${step}] is false, expected whole trajectories and not their steps`);
}

const SKYRL = { name: 'skyrl', what: "SkyRL's GeneratorOutput and evaluations" };

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

/** The ids of a padded NeMo-RL row. */
function sampledTokens(columns: Columns) {
  const ids = unwrappedList(columns.token_ids);
  const mask = unwrappedList(columns.token_loss_mask);
  if (!Array.isArray(ids) || !Array.isArray(mask) || ids.length !== mask.length)
    return mismatch(
      `token_ids is ${describeValue(ids)} and token_loss_mask ${describeValue(mask)}, expected lists of one length`,
    );
  return sampledIn(ids, mask) ?? mismatch('token_loss_mask has no 1, so no token was sampled');
}

const tokens = (text: string, part: SampledPart) => rule(text, (columns) => sampledTokens(columns)[part]);

/** The prompt of verl's key `<uid>_<session>_<output>`. */
const VERL_KEY = /^(.+)_\d+_\d+$/;

/** Where slime's response begins in the list of all ids. */
function slimeStart({ tokens, response_length: length }: Columns): number {
  const start = Array.isArray(tokens) ? tokens.length - Number(length) : -1;
  return start >= 0 ? start : mismatch(`tokens are fewer than response_length ${String(length)}`);
}

/** One group for each prompt of a file. */
function groupInFile(path: string): FieldRule {
  return rule(
    `the file's name and a hash of ${path}`,
    (columns, { stem }) => `${stem}/${shortHash(columns[path])}`,
  );
}

const NO_REFERENCES =
  'it has no references: --map reference=<path>, or --join <file> --join-on <field=field>';

/** Dumps with columns of their own; those of agents come before others that have such columns, too. */
export const DUMPS: readonly Preset[] = [
  {
    ...{ name: 'nemo-rl', what: "NeMo-RL's train_data_step<n>.jsonl" },
    columns: ['token_ids', 'token_loss_mask'],
    fields: () => ({
      prompt_ids: tokens('token_ids before the first 1 of token_loss_mask', 'prompt'),
      completion_ids: tokens('token_ids from the first 1 of token_loss_mask to the last', 'completion'),
      completion_mask: tokens('token_loss_mask there, where it has a 0', 'mask'),
      // with dynamic sampling `rewards` has a row for every trace sampled, these for those that were kept
      reward: ['filtered_rewards', 'rewards'].map((name) =>
        rule(name, (columns) => unwrapped(columns[name])),
      ),
      group: rule(
        "the file's name and a hash of the prompt's ids",
        (columns, { stem }) => `${stem}/${shortHash(sampledTokens(columns).prompt)}`,
      ),
    }),
    notes: [NO_REFERENCES],
  },
  {
    ...{ name: 'open-instruct', what: "open-instruct's rollouts" },
    columns: ['prompt_tokens', 'response_tokens', 'reward', 'prompt_idx'],
    fields: () => ({
      ...{ prompt_ids: 'prompt_tokens', completion_ids: 'response_tokens' },
      ...{ reference: 'ground_truth', reward: 'reward', group: groupBy('step', 'prompt_idx') },
    }),
    notes: ['its right answers earn 10 by default: --reward-range 0,10'],
  },
  {
    ...{ name: 'slime', what: "slime's and miles' Sample.to_dict()" },
    columns: ['tokens', 'response_length', 'response'],
    fields: () => ({
      prompt_ids: rule('tokens but the last response_length', (columns) =>
        (columns.tokens as unknown[]).slice(0, slimeStart(columns)),
      ),
      completion_ids: rule('the last response_length of tokens', (columns) =>
        (columns.tokens as unknown[]).slice(slimeStart(columns)),
      ),
      ...{ prompt: 'prompt', completion: 'response', completion_mask: 'loss_mask' },
      sampled_logprobs: 'rollout_log_probs',
      ...{ reference: 'label', reward: 'reward', group: 'group_index' },
    }),
  },
  {
    ...{ name: 'vllm', what: "vLLM's RequestOutput" },
    columns: ['prompt_token_ids', 'outputs'],
    fits: ({ outputs }) => Array.isArray(outputs) && Array.isArray(outputs[0]?.token_ids),
    fields: () => ({
      ...{ prompt: 'prompt', prompt_ids: 'prompt_token_ids' },
      ...{ completion: 'outputs[].text', completion_ids: 'outputs[].token_ids' },
    }),
    notes: [NO_REFERENCES],
  },
  {
    ...{ name: 'tokens', what: 'token ids of prompts and completions' },
    columns: ['prompt_ids', 'completion_ids'],
    fields: () => ({
      ...{ prompt_ids: 'prompt_ids', completion_ids: 'completion_ids' },
      // as verl, slime and OpenRLHF call it; what TRL's rollout_func gives back, and what its trainer calls it
      completion_mask: 'completion_mask response_mask loss_mask action_mask env_mask tool_mask'.split(' '),
    }),
  },
  {
    ...{ name: 'verl-agent', what: "what verl's agent loops give back" },
    columns: ['prompt_ids', 'response_ids', 'response_mask'],
    fields: () => ({
      ...{ prompt_ids: 'prompt_ids', completion_ids: 'response_ids', completion_mask: 'response_mask' },
      reference:
        'reference answer ground_truth gts reward_model.ground_truth extra_fields.ground_truth'.split(' '),
      reward: ['reward_score', 'score', 'reward'],
      group: [...['group', 'uid', 'extra_fields.uid'], groupInFile('prompt_ids')],
    }),
  },
  {
    ...{ name: 'prime-rl', what: "prime-rl's and verifiers' traces.jsonl" },
    columns: ['task', 'traces'],
    fits: ({ traces }) => Array.isArray(traces),
    fields: () => ({
      id: ofTraces('id', ({ id }) => id),
      prompt_ids: partOf('token_ids before the first that mask has', 'prompt'),
      completion_ids: partOf('token_ids from the first that mask has to the last', 'completion'),
      completion_mask: partOf('mask there, where it leaves one out', 'mask'),
      reference: 'task.data.answer',
      reward: ofTraces('rewards, each score times its weight', weighedReward),
      group: ['group.id', rule('a hash of task.data', (columns) => shortHash(at(columns, 'task.data')))],
    }),
    notes: [
      'the answer is task.data.answer where the task has it under this name: --map reference=task.data.<name>',
    ],
  },
  {
    ...{ name: 'verifiers', what: "verifiers' results.jsonl" },
    columns: ['example_id', 'prompt', 'completion', 'reward'],
    fits: ({ prompt }) => isDialogue(prompt),
    fields: () => ({
      prompt: 'prompt',
      completion: rule('completion', ({ completion }) => withCalls(completion)),
      ...{ reference: 'answer', reward: 'reward', group: 'example_id' },
      tools: rule('tool_defs', ({ tool_defs: defs }) => {
        const found = objectsIn(defs).map((each) => ({ type: 'function', function: each }));
        return found.length === 0 ? undefined : found;
      }),
    }),
  },
  {
    ...SKYRL,
    columns: ['prompt_token_ids', 'response_ids', 'loss_masks', 'rewards'],
    fields: () => ({
      prompt_ids: ruleForEach('prompt_token_ids[]', wholePrompts),
      ...{ completion_ids: 'response_ids[]', completion_mask: 'loss_masks[]' },
      sampled_logprobs: 'rollout_logprobs[]',
      reward: ruleForEach('rewards[], of tokens their sum', ({ rewards }) =>
        Array.isArray(rewards) ? rewards.map(total) : [],
      ),
      group: [
        'trajectory_ids[].instance_id',
        ruleForEach('the row and a hash of prompt_token_ids[]', (columns, row) =>
          wholePrompts(columns).map((ids) => `${row.stem}/${row.row}/${shortHash(ids)}`),
        ),
      ],
    }),
    notes: [NO_REFERENCES],
  },
  {
    ...SKYRL,
    columns: ['input_prompt', 'output_response', 'score', 'env_extras'],
    fields: () => ({
      ...{ prompt: 'input_prompt', completion: 'output_response' },
      reference: 'env_extras.reward_spec.ground_truth',
      reward: rule('score, of tokens their sum', ({ score }) => total(score)),
      group: groupInFile('input_prompt'),
    }),
    notes: ['it has no mask: what tools said is text among the thought'],
  },
  {
    ...{ name: 'verl-rollout', what: "verl's rollout_data_dir/<step>.jsonl" },
    columns: ['input', 'output', 'score', 'step'],
    fields: () => ({
      ...{ prompt: 'input', completion: 'output', reference: 'gts' },
      reward: ['acc', 'score'],
      group: [
        rule('step and the prompt that uid begins with', ({ step, uid }) => {
          const [, prompt] = VERL_KEY.exec(typeof uid === 'string' ? uid : '') ?? [];
          return prompt === undefined ? undefined : `${String(step)}/${prompt}`;
        }),
        groupBy('step', 'input'),
      ],
    }),
    notes: [STRIPPED],
  },
  {
    ...{ name: 'trl-completions', what: "TRL's completions/completions_<step>.parquet" },
    columns: ['step', 'prompt', 'completion', 'advantage'],
    fields: () => ({
      ...{ prompt: 'prompt', completion: 'completion' },
      reference: ['golden_answer', 'answer', 'ground_truth', 'solution'],
      reward: ['accuracy_reward', 'reasoning_accuracy_reward'],
      group: groupBy('step', 'prompt'),
    }),
    notes: [
      STRIPPED,
      'a reward stands in the column of its function: --map reward=<column> where it is not accuracy_reward',
      "an answer is there only where a reward function called log_extra('golden_answer', …)",
    ],
  },
  {
    name: 'openrlhf',
    what: 'prompts, responses and the rewards of a reward model, as OpenRLHF wrote them',
    columns: ['input', 'output', 'reward'],
    fits: ({ input, output }) => typeof input === 'string' && typeof output === 'string',
    fields: () => ({
      ...{ prompt: 'input', completion: 'output', reward: 'reward' },
      group: groupInFile('input'),
    }),
    notes: [
      "its rewards are a reward model's, on a scale of its own: --reward-range <lowest,highest>",
      NO_REFERENCES,
    ],
  },
];
