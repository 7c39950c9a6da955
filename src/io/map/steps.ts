// Presets of data sets whose chains come cut into steps, with labels or values of each.

import { codePoints } from '../../scored.js';
import { describeValue } from '../arrow/json.js';
import { at, joinedSteps, mismatch, type Preset, preset, rule, textAt, textsAt } from './preset.js';
import type { Columns } from './sources.js';

const NO_REFERENCES = 'it has no references: --join <file with the answers>, or --map reference=<path>';

const processbench = preset({
  name: 'processbench',
  what: 'Qwen/ProcessBench',
  columns: ['problem', 'steps', 'final_answer_correct', 'label'],
  fields: {
    id: 'id',
    prompt: 'problem',
    ...joinedSteps('steps', '\n\n', (columns) => textsAt(columns, 'steps')),
    reward: 'final_answer_correct',
  },
  notes: [NO_REFERENCES, 'label is the first wrong step, counted from 0; -1 where there is none'],
});

/** Columns of ProcessBench, and `domain`; but its labels count from 1. */
const grBen: Preset = {
  ...processbench,
  name: 'gr-ben',
  what: 'GR-Ben',
  columns: [...processbench.columns, 'domain'],
  notes: [NO_REFERENCES, 'label is the first wrong step, counted from 1; -1 where there is none'],
};

const bigbenchMistake = preset({
  name: 'bigbench-mistake',
  what: 'BIG-Bench Mistake',
  columns: ['input', 'steps', 'target', 'answer', 'mistake_index'],
  fields: {
    prompt: 'input',
    ...joinedSteps('steps', '\n', (columns) => textsAt(columns, 'steps')),
    reference: 'target',
    reward: rule('answer = target', ({ answer, target }) => answer === target),
  },
  notes: ['mistake_index is the first wrong step, counted from 0; null where there is none'],
});

const prmbench = preset({
  name: 'prmbench',
  what: 'hitsmy/PRMBench_Preview',
  columns: ['modified_question', 'modified_process', 'error_steps'],
  fields: {
    id: 'idx',
    prompt: 'modified_question',
    ...joinedSteps('modified_process', '\n', (columns) => textsAt(columns, 'modified_process')),
    reward: rule('error_steps: none', ({ error_steps: wrong }) =>
      Array.isArray(wrong) ? !wrong.length : null,
    ),
  },
  notes: [NO_REFERENCES, 'error_steps are counted from 1; the reward is whether there is none'],
});

const CORRECTNESS: Readonly<Record<string, number>> = { correct: 1, incorrect: 0 };

const mrGsm8k = preset({
  name: 'mr-gsm8k',
  what: 'dvlab-research/MR-GSM8K',
  columns: ['question', 'model_output_steps', 'model_output_solution_first_error_step'],
  fields: {
    id: 'uuid',
    prompt: 'question',
    ...joinedSteps('model_output_steps', '\n', (columns) => textsAt(columns, 'model_output_steps')),
    reference: 'ground_truth_answer',
    solution: 'ground_truth_solution',
    reward: rule('model_output_answer_correctness', ({ model_output_answer_correctness: verdict }) => {
      return CORRECTNESS[String(verdict)] ?? null;
    }),
  },
  notes: ['model_output_solution_first_error_step is counted from 1; N/A where there is none'],
});

/** The steps that the labeller went on from; at the last one, where nothing was chosen, the model's own. */
function chosenSteps(columns: Columns): string[] {
  const steps = at(columns, 'label.steps');
  if (!Array.isArray(steps)) return mismatch(`label.steps is ${describeValue(steps)}, expected a list`);
  return steps.map((step, k) => {
    const human: unknown = step?.human_completion?.text ?? step?.human_completion;
    const chosen: unknown = step?.completions?.[step?.chosen_completion ?? 0]?.text;
    const text = step?.chosen_completion == null ? (human ?? chosen) : chosen;
    return typeof text === 'string'
      ? text
      : mismatch(`label.steps[${k}] has neither a chosen completion nor a human one`);
  });
}

const FINISHED: Readonly<Record<string, number>> = { solution: 1, found_error: 0 };

const prm800k = preset({
  name: 'prm800k',
  what: 'openai/prm800k, phase1 and phase2',
  columns: ['question', 'label', 'labeler'],
  fits: ({ label }) => Array.isArray((label as Columns | null)?.steps),
  fields: {
    prompt: 'question.problem',
    ...joinedSteps("label.steps' chosen completions", '\n', chosenSteps),
    reference: 'question.ground_truth_answer',
    solution: 'question.ground_truth_solution',
    reward: rule('label.finish_reason: solution 1, found_error 0', (columns) => {
      return FINISHED[String(at(columns, 'label.finish_reason'))] ?? null;
    }),
  },
  notes: ['a chain with a wrong step ends there: it has no answer'],
});

const STEP_END = 'ки';

/** Math-Shepherd's text: the problem, then lines that each end in a mark. */
function shepherdSteps(columns: Columns): { problem: string; steps: readonly string[] } {
  const input = textAt(columns, 'input');
  const start = /\s*\bStep 1:/.exec(input);
  if (start === null) return mismatch('input has no "Step 1:"');
  const steps = input
    .slice(start.index)
    .split(STEP_END)
    .map((step) => step.trim());
  return { problem: input.slice(0, start.index), steps: steps.filter((step) => step !== '') };
}

const SHEPHERD = { name: 'math-shepherd', what: 'peiyi9979/Math-Shepherd and trl-lib/math_shepherd' };

const mathShepherd = preset({
  ...SHEPHERD,
  columns: ['input', 'label', 'task'],
  fits: ({ input }) => typeof input === 'string' && input.includes(STEP_END),
  fields: {
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
  },
  notes: [NO_REFERENCES, "the reward is the last step's label, where the chain is complete"],
});

const mathShepherdOfTrl = preset({
  ...SHEPHERD,
  columns: ['prompt', 'completions', 'labels'],
  fits: ({ completions, labels }) =>
    Array.isArray(completions) && Array.isArray(labels) && completions.length === labels.length,
  fields: {
    prompt: 'prompt',
    ...joinedSteps('completions', '\n', (columns) => textsAt(columns, 'completions')),
    reward: rule("the last step's label", ({ labels }) => (Array.isArray(labels) ? labels.at(-1) : null)),
  },
  notes: [NO_REFERENCES, "the reward is the last step's label, where the chain is complete"],
});

/** Ends of the chunks in the solution they were cut from; the cutting changed white space here and there. */
function chunkEnds(columns: Columns): number[] {
  const solution = textAt(columns, 'base_solution.solution');
  const chunks = at(columns, 'chunks');
  if (!Array.isArray(chunks)) return mismatch(`chunks is ${describeValue(chunks)}, expected a list`);
  let unit = 0;
  let end = 0;
  return chunks.map((item, k) => {
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
  const letters = wanted.replaceAll(/\s/g, '');
  const pattern = new RegExp(
    Array.from(letters, (letter) => letter.replace(/[\\^$.*+?()[\]{}|/-]/, '\\$&')).join('\\s*'),
    'g',
  );
  pattern.lastIndex = from;
  return letters !== '' && pattern.test(text) ? pattern.lastIndex : null;
}

const thoughtAnchors = preset({
  name: 'thought-anchors',
  what: 'Thought Anchors: base solutions with the Monte Carlo value of each chunk',
  columns: ['problem', 'base_solution', 'chunks'],
  fields: {
    id: 'id',
    prompt: 'base_solution.prompt',
    completion: 'base_solution.solution',
    segment_char_ends: rule('chunks[].chunk in base_solution.solution', chunkEnds),
    values: rule('chunks[].accuracy, then base_solution.is_correct', (columns) => {
      const chunks = at(columns, 'chunks');
      const outcome = at(columns, 'base_solution.is_correct');
      return Array.isArray(chunks) ? [...chunks.map((item) => item?.accuracy), Number(outcome)] : undefined;
    }),
    reference: 'problem.gt_answer',
    solution: 'problem.gt_solution',
    reward: 'base_solution.is_correct',
  },
  notes: [
    'a row is problem.json, base_solution.json and chunks_labeled.json of one folder, under the keys problem, base_solution, chunks',
    'chunks[i].accuracy is the value before chunk i, of the model that wrote the chain; --estimator given takes them, and the outcome as the value after the last chunk, which nobody has sampled',
  ],
});

/** Data sets of steps. */
export const STEPS: readonly Preset[] = [
  thoughtAnchors,
  bigbenchMistake,
  grBen,
  processbench,
  prmbench,
  mrGsm8k,
  prm800k,
  mathShepherd,
  mathShepherdOfTrl,
];
