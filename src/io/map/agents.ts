// Presets of what agents' trainers dump: traces of several turns, as token ids with a mask or as messages.

import { describeValue } from '../arrow/json.js';
import { isDialogue } from './messages.js';
import { at, mismatch, type Preset, preset, rule, ruleForEach, shortHash } from './preset.js';
import type { Columns } from './sources.js';

/** Nothing where the policy wrote all of it: the trace has one turn. */
export function gapped(bits: readonly unknown[]): readonly unknown[] | null {
  return bits.every((bit) => Number(bit) === 1) ? null : bits;
}

const verlAgent = preset({
  name: 'verl-agent',
  what: "what verl's agent loops give back",
  columns: ['prompt_ids', 'response_ids', 'response_mask'],
  fields: {
    ...{ prompt_ids: 'prompt_ids', completion_ids: 'response_ids', completion_mask: 'response_mask' },
    reference: ['reference', 'ground_truth', 'gts', 'reward_model.ground_truth', 'extra_fields.ground_truth'],
    reward: ['reward_score', 'score', 'reward'],
    group: [
      ...['group', 'uid', 'extra_fields.uid'],
      rule("the file's name and a hash of prompt_ids", ({ prompt_ids: ids }, row) => {
        return `${row.stem}/${shortHash(ids)}`;
      }),
    ],
  },
});

/** The traces of an episode, as their graphs of messages have them. */
function episodeTraces(columns: Columns): readonly (Columns & { readonly nodes: readonly Columns[] })[] {
  const traces = columns.traces;
  if (!Array.isArray(traces) || traces.length === 0)
    return mismatch(`traces is ${describeValue(traces)}, expected those of an episode that was run`);
  const bad = traces.findIndex((trace) => !Array.isArray(trace?.nodes) || trace.nodes.length === 0);
  return bad < 0 ? traces : mismatch(`traces[${bad}].nodes has no message, expected the ids of a trace`);
}

/**
 * The ids of a trace, put together of what each node adds: all before the first sampled one, and those from it to the last.
 * @throws Mismatch for one of several branches
 */
function sampledOf({ nodes }: { readonly nodes: readonly Columns[] }, n: number) {
  const branch = nodes.findIndex(({ parent }, i) => (parent ?? -1) !== i - 1);
  if (branch >= 0)
    return mismatch(`traces[${n}].nodes[${branch}] is a branch, expected one conversation a trace`);
  const list = (name: string) => nodes.flatMap((node) => (node[name] ?? []) as unknown[]);
  const [ids, mask] = [list('token_ids'), list('mask')];
  const start = mask.indexOf(true);
  if (start < 0 || ids.length !== mask.length)
    return mismatch(
      `traces[${n}] has ${ids.length} token_ids and ${mask.length} of mask, expected sampled ids`,
    );
  const end = mask.lastIndexOf(true) + 1;
  const [completion, own] = [ids.slice(start, end), gapped(mask.slice(start, end))];
  return { prompt: ids.slice(0, start), completion, mask: own };
}

/** The sum of what was weighed in, as verifiers makes a trace's reward; null where nothing was. */
function weighedReward({ rewards }: Columns): number | null {
  const found = Object.values((rewards ?? {}) as Record<string, Columns | null>).filter(
    (each) => each !== null,
  );
  return found.length === 0
    ? null
    : found.reduce((sum, { score, weight }) => sum + Number(score) * Number(weight ?? 1), 0);
}

const primeRl = preset({
  name: 'prime-rl',
  what: "prime-rl's and verifiers' traces.jsonl",
  columns: ['task', 'traces'],
  fits: ({ traces }) => Array.isArray(traces),
  fields: {
    id: ruleForEach('traces[].id', (columns) => episodeTraces(columns).map(({ id }) => id)),
    prompt_ids: ruleForEach('traces[].nodes[].token_ids before the first that mask has', (columns) =>
      episodeTraces(columns).map((trace, n) => sampledOf(trace, n).prompt),
    ),
    completion_ids: ruleForEach(
      'traces[].nodes[].token_ids from the first that mask has to the last',
      (columns) => episodeTraces(columns).map((trace, n) => sampledOf(trace, n).completion),
    ),
    completion_mask: ruleForEach('traces[].nodes[].mask there, where it leaves one out', (columns) =>
      episodeTraces(columns).map((trace, n) => sampledOf(trace, n).mask),
    ),
    reference: 'task.data.answer',
    reward: ruleForEach('traces[].rewards, each score times its weight', (columns) =>
      episodeTraces(columns).map(weighedReward),
    ),
    group: ['group.id', rule('a hash of task.data', (columns) => shortHash(at(columns, 'task.data')))],
  },
  notes: [
    'the answer is task.data.answer where the task has it under this name: --map reference=task.data.<name>',
  ],
});

/** Objects of a list, which may be written as JSON each. */
function objectsIn(value: unknown): readonly Columns[] {
  return (Array.isArray(value) ? value : []).map((each) =>
    typeof each === 'string' ? fromText(each) : each,
  );
}

function fromText(text: string): Columns {
  try {
    return JSON.parse(text) as Columns;
  } catch {
    return mismatch(`${text.slice(0, 40)} is no JSON, expected a call of a tool or its arguments`);
  }
}

/** Its messages with calls as chat templates read them, not as texts of {id, name, arguments}. */
function withCalls(completion: unknown): unknown {
  if (!isDialogue(completion)) return completion;
  return (completion as readonly Columns[]).map(({ tool_calls: calls, ...message }) => {
    const read = objectsIn(calls).map(({ id, name, arguments: args, ...more }) => {
      const given = typeof args === 'string' ? fromText(args) : args;
      return { id, type: 'function', function: { name, arguments: given }, ...more };
    });
    return read.length === 0 ? message : { ...message, tool_calls: read };
  });
}

const verifiers = preset({
  name: 'verifiers',
  what: "verifiers' results.jsonl",
  columns: ['example_id', 'prompt', 'completion', 'reward'],
  fits: ({ prompt }) => isDialogue(prompt),
  fields: {
    prompt: 'prompt',
    completion: rule('completion', ({ completion }) => withCalls(completion)),
    ...{ reference: 'answer', reward: 'reward', group: 'example_id' },
    tools: rule('tool_defs', ({ tool_defs: defs }) => {
      const found = objectsIn(defs).map((each) => ({ type: 'function', function: each }));
      return found.length === 0 ? undefined : found;
    }),
  },
});

/** SkyRL has a number a trajectory, or one a token, which it adds up. */
const total = (reward: unknown): unknown =>
  Array.isArray(reward) ? reward.reduce((sum: number, each) => sum + Number(each), 0) : reward;

/** The prompts of a batch, of which each row is a whole trajectory. */
function wholePrompts({ prompt_token_ids: prompts, is_last_step: last }: Columns): readonly unknown[] {
  if (!Array.isArray(prompts))
    return mismatch(`prompt_token_ids is ${describeValue(prompts)}, expected lists of ids`);
  const step = Array.isArray(last) ? last.indexOf(false) : -1;
  return step < 0
    ? prompts
    : mismatch(`is_last_step[${step}] is false, expected whole trajectories and not their steps`);
}

const SKYRL = { name: 'skyrl', what: "SkyRL's GeneratorOutput and evaluations" };

const skyrlBatch = preset({
  ...SKYRL,
  columns: ['prompt_token_ids', 'response_ids', 'loss_masks', 'rewards'],
  fields: {
    prompt_ids: ruleForEach('prompt_token_ids[]', wholePrompts),
    ...{ completion_ids: 'response_ids[]', completion_mask: 'loss_masks[]' },
    reward: ruleForEach('rewards[], of tokens their sum', ({ rewards }) =>
      Array.isArray(rewards) ? rewards.map(total) : [],
    ),
    group: [
      'trajectory_ids[].instance_id',
      ruleForEach('the row and a hash of prompt_token_ids[]', (columns, row) =>
        wholePrompts(columns).map((ids) => `${row.stem}/${row.row}/${shortHash(ids)}`),
      ),
    ],
  },
  notes: ['it has no references: --map reference=<path>, or --join <file> --join-on <field=field>'],
});

const skyrlEvaluation = preset({
  ...SKYRL,
  columns: ['input_prompt', 'output_response', 'score', 'env_extras'],
  fields: {
    ...{ prompt: 'input_prompt', completion: 'output_response' },
    reference: 'env_extras.reward_spec.ground_truth',
    reward: rule('score, of tokens their sum', ({ score }) => total(score)),
    group: rule("the file's name and a hash of input_prompt", ({ input_prompt: prompt }, row) => {
      return `${row.stem}/${shortHash(prompt)}`;
    }),
  },
  notes: ['it has no mask: what tools said is text among the thought'],
});

/** Recognised before others that have such columns, too. */
export const AGENTS: readonly Preset[] = [verlAgent, primeRl, verifiers, skyrlBatch, skyrlEvaluation];
