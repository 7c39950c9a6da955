// Presets of data sets: chains that come cut into steps, with labels or values of each, and whole solutions.

import { describeValue } from '../../printable.js';
import { codePoints } from '../../scored.js';
import type { Columns } from './fields.js';
import { withThought } from './messages.js';
import {
  at,
  boxedIn,
  joinedSteps,
  listAt,
  mismatch,
  type Preset,
  rule,
  ruleForEach,
  textAt,
  textsAt,
} from './preset.js';

const NO_REFERENCES = 'it has no references: --join <file with the answers>, or --map reference=<path>';

const VERDICTS: Readonly<Record<string, number>> = { correct: 1, incorrect: 0, solution: 1, found_error: 0 };

const verdictAt = (path: string, text = path) =>
  rule(text, (columns) => VERDICTS[String(at(columns, path))] ?? null);

/** The steps that the labeller went on from; at the last one, where nothing was chosen, the model's own. */
function chosenSteps(columns: Columns): string[] {
  return listAt(columns, 'label.steps').map((step, k) => {
    const human: unknown = step?.human_completion?.text ?? step?.human_completion;
    const chosen: unknown = step?.completions?.[step?.chosen_completion ?? 0]?.text;
    const text = step?.chosen_completion == null ? (human ?? chosen) : chosen;
    return typeof text === 'string'
      ? text
      : mismatch(`label.steps[${k}] has neither a chosen completion nor a human one`);
  });
}

const STEP_END = 'ки';

/** Math-Shepherd's text: the problem, then lines that each end in a mark. */
function shepherdSteps(columns: Columns): { problem: string; steps: readonly string[] } {
  const [, problem = '', chain] = /^(.*?)\s*\b(Step 1:.*)$/s.exec(textAt(columns, 'input')) ?? [];
  if (chain === undefined) return mismatch('input has no "Step 1:"');
  const steps = chain.split(STEP_END).map((step) => step.trim());
  return { problem, steps: steps.filter((step) => step !== '') };
}

const SHEPHERD = { name: 'math-shepherd', what: 'peiyi9979/Math-Shepherd and trl-lib/math_shepherd' };

/** Ends of the chunks in the solution they were cut from; the cutting changed white space here and there. */
function chunkEnds(columns: Columns): number[] {
  const solution = textAt(columns, 'base_solution.solution');
  let unit = 0;
  let end = 0;
  return listAt(columns, 'chunks').map((item, k) => {
    const chunk: unknown = item?.chunk;
    const found = typeof chunk === 'string' ? findLoosely(solution, chunk, unit) : null;
    if (found === null) return mismatch(`chunks[${k}] is not in base_solution.solution where it should be`);
    end += codePoints(solution.slice(unit, found));
    unit = found;
    return end;
  });
}

/** Where a text ends that is looked for from `from` on; failing that, whatever its white space is. */
function findLoosely(text: string, wanted: string, from: number): number | null {
  const start = text.indexOf(wanted, from);
  if (start >= 0) return start + wanted.length;
  const letters = Array.from(wanted.replaceAll(/\s/g, ''), (letter) =>
    letter.replace(/[\\^$.*+?()[\]{}|/-]/, '\\$&'),
  );
  const pattern = new RegExp(letters.join('\\s*'), 'g');
  pattern.lastIndex = from;
  return letters.length > 0 && pattern.test(text) ? pattern.lastIndex : null;
}

const PROCESSBENCH: Preset = {
  name: 'processbench',
  what: 'Qwen/ProcessBench',
  columns: ['problem', 'steps', 'final_answer_correct', 'label'],
  fields: () => ({
    ...{ id: 'id', prompt: 'problem' },
    ...joinedSteps('steps', '\n\n', (columns) => textsAt(columns, 'steps')),
    reward: 'final_answer_correct',
  }),
  notes: [NO_REFERENCES, 'label is the first wrong step, counted from 0; -1 where there is none'],
};

export const STEPS: readonly Preset[] = [
  {
    name: 'thought-anchors',
    what: 'Thought Anchors: base solutions with the Monte Carlo value of each chunk',
    columns: ['problem', 'base_solution', 'chunks'],
    fields: () => ({
      ...{ id: 'id', prompt: 'base_solution.prompt', completion: 'base_solution.solution' },
      segment_char_ends: rule('chunks[].chunk in base_solution.solution', chunkEnds),
      values: rule('chunks[].accuracy, then base_solution.is_correct', (columns) => [
        ...listAt(columns, 'chunks').map((item) => item?.accuracy),
        Number(at(columns, 'base_solution.is_correct')),
      ]),
      ...{ reference: 'problem.gt_answer', solution: 'problem.gt_solution' },
      reward: 'base_solution.is_correct',
    }),
    notes: [
      'a row is problem.json, base_solution.json and chunks_labeled.json of one folder, under the keys problem, base_solution, chunks',
      'chunks[i].accuracy is the value before chunk i, of the model that wrote the chain; --estimator given takes them, and the outcome as the value after the last chunk, which nobody has sampled',
    ],
  },
  {
    ...{ name: 'bigbench-mistake', what: 'BIG-Bench Mistake' },
    columns: ['input', 'steps', 'target', 'answer', 'mistake_index'],
    fields: () => ({
      prompt: 'input',
      ...joinedSteps('steps', '\n', (columns) => textsAt(columns, 'steps')),
      reference: 'target',
      reward: rule('answer = target', ({ answer, target }) => answer === target),
    }),
    notes: ['mistake_index is the first wrong step, counted from 0; null where there is none'],
  },
  {
    // columns of ProcessBench, and `domain`; but its labels count from 1
    ...PROCESSBENCH,
    ...{ name: 'gr-ben', what: 'GR-Ben' },
    columns: [...PROCESSBENCH.columns, 'domain'],
    notes: [NO_REFERENCES, 'label is the first wrong step, counted from 1; -1 where there is none'],
  },
  PROCESSBENCH,
  {
    ...{ name: 'prmbench', what: 'hitsmy/PRMBench_Preview' },
    columns: ['modified_question', 'modified_process', 'error_steps'],
    fields: () => ({
      ...{ id: 'idx', prompt: 'modified_question' },
      ...joinedSteps('modified_process', '\n', (columns) => textsAt(columns, 'modified_process')),
      reward: rule('error_steps: none', ({ error_steps: wrong }) =>
        Array.isArray(wrong) ? !wrong.length : null,
      ),
    }),
    notes: [NO_REFERENCES, 'error_steps are counted from 1; the reward is whether there is none'],
  },
  {
    ...{ name: 'mr-gsm8k', what: 'dvlab-research/MR-GSM8K' },
    columns: ['question', 'model_output_steps', 'model_output_solution_first_error_step'],
    fields: () => ({
      ...{ id: 'uuid', prompt: 'question' },
      ...joinedSteps('model_output_steps', '\n', (columns) => textsAt(columns, 'model_output_steps')),
      ...{ reference: 'ground_truth_answer', solution: 'ground_truth_solution' },
      reward: verdictAt('model_output_answer_correctness'),
    }),
    notes: ['model_output_solution_first_error_step is counted from 1; N/A where there is none'],
  },
  {
    ...{ name: 'prm800k', what: 'openai/prm800k, phase1 and phase2' },
    columns: ['question', 'label', 'labeler'],
    fits: ({ label }) => Array.isArray((label as Columns | null)?.steps),
    fields: () => ({
      prompt: 'question.problem',
      ...joinedSteps("label.steps' chosen completions", '\n', chosenSteps),
      ...{ reference: 'question.ground_truth_answer', solution: 'question.ground_truth_solution' },
      reward: verdictAt('label.finish_reason', 'label.finish_reason: solution 1, found_error 0'),
    }),
    notes: ['a chain with a wrong step ends there: it has no answer'],
  },
  {
    ...SHEPHERD,
    columns: ['input', 'label', 'task'],
    fits: ({ input }) => typeof input === 'string' && input.includes(STEP_END),
    fields: () => ({
      prompt: rule('input before "Step 1:"', (columns) => shepherdSteps(columns).problem),
      ...joinedSteps(
        `input from "Step 1:" on, without ${STEP_END}`,
        '\n',
        (columns) => shepherdSteps(columns).steps,
      ),
      reward: rule("the last step's + or -", (columns) => {
        const mark = /([+-])\s*$/.exec(textAt(columns, 'label'))?.[1];
        return mark === undefined ? null : mark === '+';
      }),
    }),
    notes: [NO_REFERENCES, "the reward is the last step's label, where the chain is complete"],
  },
  {
    ...SHEPHERD,
    columns: ['prompt', 'completions', 'labels'],
    fits: ({ completions, labels }) =>
      Array.isArray(completions) && Array.isArray(labels) && completions.length === labels.length,
    fields: () => ({
      prompt: 'prompt',
      ...joinedSteps('completions', '\n', (columns) => textsAt(columns, 'completions')),
      reward: rule("the last step's label", ({ labels }) => (Array.isArray(labels) ? labels.at(-1) : null)),
    }),
    notes: [NO_REFERENCES, "the reward is the last step's label, where the chain is complete"],
  },
];

const S1K = [
  ['gemini_thinking_trajectory', 'gemini_attempt'],
  ['deepseek_thinking_trajectory', 'deepseek_attempt'],
] as const;

const NUMINAMATH = {
  name: 'numinamath-cot',
  what: 'AI-MO/NuminaMath-CoT and NuminaMath-1.5',
  fields: () => ({
    ...{ prompt: 'problem', completion: 'solution' },
    ...{ reference: ['answer', boxedIn('solution')], solution: 'solution' },
  }),
  notes: ['its solutions are references themselves: a trace without a box and an answer is rejected'],
};

const OPENTHOUGHTS = { name: 'openthoughts', what: 'open-thoughts/OpenThoughts-114k, OpenThoughts3-1.2M' };

const ROLES: Readonly<Record<string, string>> = { human: 'user', gpt: 'assistant' };

/** A dialogue of {from, value} as messages. */
function turns({ conversations: list, system }: Columns) {
  const expected = '{from, value} of a human, then of the model';
  const wrong = (found: unknown) =>
    mismatch(`conversations is ${describeValue(found)}, expected ${expected}`);
  if (!Array.isArray(list) || list.length < 2) return wrong(list);
  const messages = list.map((turn) => {
    if (typeof turn?.from !== 'string' || typeof turn?.value !== 'string') return wrong(turn);
    return { role: ROLES[turn.from] ?? turn.from, content: turn.value };
  });
  return typeof system === 'string' && system !== ''
    ? [{ role: 'system', content: system }, ...messages]
    : messages;
}

const DEEPMATH = ['r1_solution_1', 'r1_solution_2', 'r1_solution_3'];

const GSM8K = ['6b_finetuning', '6b_verification', '175b_finetuning', '175b_verification'];
const GSM8K_ANSWER = /(?:^|\n)A: *([^\n]*)\s*$/;

export const SOLUTIONS: readonly Preset[] = [
  {
    ...{ name: 'openr1', what: 'open-r1/OpenR1-Math-220k' },
    columns: ['problem', 'answer', 'generations', 'correctness_math_verify'],
    fields: () => ({
      ...{ id: 'uuid', group: 'uuid', prompt: 'problem', completion: 'generations[]', reference: 'answer' },
      solution: 'solution',
      reward: ruleForEach('correctness_math_verify[], else correctness_llama[]', (columns) => {
        const { correctness_math_verify: verified, correctness_llama: judged } = columns;
        const marks = [verified, judged].filter((list) => Array.isArray(list));
        return listAt(columns, 'generations').map(
          (_, i) => marks.map((list) => list[i]).find((mark) => mark != null) ?? null,
        );
      }),
    }),
    notes: ['a generation that was cut off (is_reasoning_complete) is a trace like any other'],
  },
  {
    ...{ name: 'gsm8k-solutions', what: 'example_model_solutions.jsonl of openai/grade-school-math' },
    columns: ['question', 'ground_truth', ...GSM8K],
    fields: () => ({
      prompt: 'question',
      completion: ruleForEach('the four models’ solution', (columns) =>
        GSM8K.map((name) => at(columns, `${name}.solution`)),
      ),
      reward: ruleForEach('the four models’ is_correct', (columns) =>
        GSM8K.map((name) => at(columns, `${name}.is_correct`)),
      ),
      reference: rule(
        'ground_truth after "A:"',
        (columns) => GSM8K_ANSWER.exec(textAt(columns, 'ground_truth'))?.[1],
      ),
      solution: rule('ground_truth before "A:"', (columns) =>
        textAt(columns, 'ground_truth').replace(GSM8K_ANSWER, ''),
      ),
    }),
    notes: ['the four solutions of a question, by four models, are one group'],
  },
  {
    ...OPENTHOUGHTS,
    columns: ['problem', 'deepseek_reasoning', 'deepseek_solution', 'ground_truth_solution'],
    fields: () => ({
      prompt: 'problem',
      completion: rule('<think> deepseek_reasoning </think> deepseek_solution', (columns) =>
        withThought(textAt(columns, 'deepseek_reasoning'), textAt(columns, 'deepseek_solution')),
      ),
      ...{ reference: boxedIn('ground_truth_solution'), solution: 'ground_truth_solution' },
    }),
    notes: [
      'only solutions with a box have an answer: code and puzzles are rejected without --map reference=<path>',
    ],
  },
  {
    ...{ name: 's1k', what: 'simplescaling/s1K-1.1, and s1K' },
    columns: ['question', 'solution', ...S1K.flat()],
    fields: () => ({
      prompt: 'question',
      completion: ruleForEach('both models’ thinking_trajectory and attempt', (columns) =>
        S1K.map(([thought, answer]) => withThought(textAt(columns, thought), textAt(columns, answer))),
      ),
      reference: 'solution',
    }),
    notes: ['the two traces of a question, by two models, are one group'],
  },
  {
    ...{ name: 's1k', what: 'simplescaling/s1K' },
    columns: ['question', 'solution', 'thinking_trajectories', 'attempt'],
    fields: () => ({
      prompt: 'question',
      completion: rule('thinking_trajectories and attempt', (columns) =>
        withThought(textsAt(columns, 'thinking_trajectories').join('\n'), textAt(columns, 'attempt')),
      ),
      reference: 'solution',
    }),
  },
  {
    ...{ name: 'synthetic-1', what: 'PrimeIntellect/SYNTHETIC-1' },
    columns: ['problem_id', 'prompt', 'llm_response', 'score', 'verification_info'],
    fields: () => ({
      ...{ id: 'response_id', group: 'problem_id', prompt: 'prompt', completion: 'llm_response' },
      reward: 'score',
      reference: ['verification_info.ground_truth', 'verification_info.answer', 'gold_standard_solution'],
    }),
  },
  {
    ...{ name: 'openmathreasoning', what: 'nvidia/OpenMathReasoning' },
    columns: ['problem', 'generated_solution', 'expected_answer'],
    fields: () => ({ prompt: 'problem', completion: 'generated_solution', reference: 'expected_answer' }),
    notes: [
      'traces of one problem are no group: most wrong ones were left out, and a mean reward of 1 makes σ uniform',
    ],
  },
  {
    ...{ name: 'deepmath', what: 'zwhe99/DeepMath-103K' },
    columns: ['question', 'final_answer', ...DEEPMATH],
    fields: () => ({
      prompt: 'question',
      completion: ruleForEach(DEEPMATH.join(', '), (columns) => DEEPMATH.map((name) => columns[name])),
      reference: 'final_answer',
    }),
    notes: ['the three solutions of a row are meant to be right: use --baseline value, or σ is uniform'],
  },
  { ...NUMINAMATH, columns: ['problem', 'solution', 'messages', 'source'] },
  { ...NUMINAMATH, columns: ['problem', 'solution', 'solution_is_valid', 'source'] },
  {
    ...OPENTHOUGHTS,
    columns: ['conversations'],
    fits: ({ conversations }) => Array.isArray(conversations) && typeof conversations[0]?.value === 'string',
    fields: () => ({
      prompt: rule('system, and conversations but the last', (columns) => turns(columns).slice(0, -1)),
      completion: rule('the last of conversations', (columns) => turns(columns).at(-1)?.content),
    }),
    notes: [
      'it has no references: take the metadata configuration, or --join <file> --join-on <field=field>',
      'the 114k edition opens and closes thoughts with <|begin_of_thought|> and <|end_of_thought|>, which are known',
    ],
  },
];
