// Presets of data sets that hold whole solutions: one or several traces a problem.

import { describeValue } from '../arrow/json.js';
import { withThought } from './messages.js';
import { at, boxedIn, mismatch, type Preset, preset, rule, ruleForEach, textAt } from './preset.js';

const openr1 = preset({
  name: 'openr1',
  what: 'open-r1/OpenR1-Math-220k',
  columns: ['problem', 'answer', 'generations', 'correctness_math_verify'],
  fields: {
    id: 'uuid',
    group: 'uuid',
    prompt: 'problem',
    completion: 'generations[]',
    reference: 'answer',
    solution: 'solution',
    reward: ruleForEach('correctness_math_verify[], else correctness_llama[]', (columns) => {
      const { generations, correctness_math_verify: verified, correctness_llama: judged } = columns;
      const marks = [verified, judged].filter((list) => Array.isArray(list)) as unknown[][];
      if (!Array.isArray(generations))
        return mismatch(`generations is ${describeValue(generations)}, expected a list`);
      return generations.map((_, i) => marks.map((list) => list[i]).find((mark) => mark != null) ?? null);
    }),
  },
  notes: ['a generation that was cut off (is_reasoning_complete) is a trace like any other'],
});

const numinamath = {
  name: 'numinamath-cot',
  what: 'AI-MO/NuminaMath-CoT and NuminaMath-1.5',
  fields: {
    prompt: 'problem',
    completion: 'solution',
    reference: ['answer', boxedIn('solution')],
    solution: 'solution',
  },
  notes: ['its solutions are references themselves: a trace without a box and an answer is rejected'],
};

const numinamathCot = preset({ ...numinamath, columns: ['problem', 'solution', 'messages', 'source'] });
const numinamath15 = preset({
  ...numinamath,
  columns: ['problem', 'solution', 'solution_is_valid', 'source'],
});

const OPENTHOUGHTS = { name: 'openthoughts', what: 'open-thoughts/OpenThoughts-114k, OpenThoughts3-1.2M' };

const openthoughtsMetadata = preset({
  ...OPENTHOUGHTS,
  columns: ['problem', 'deepseek_reasoning', 'deepseek_solution', 'ground_truth_solution'],
  fields: {
    prompt: 'problem',
    completion: rule('<think> deepseek_reasoning </think> deepseek_solution', (columns) =>
      withThought(textAt(columns, 'deepseek_reasoning'), textAt(columns, 'deepseek_solution')),
    ),
    reference: boxedIn('ground_truth_solution'),
    solution: 'ground_truth_solution',
  },
  notes: [
    'only solutions with a box have an answer: code and puzzles are rejected without --map reference=<path>',
  ],
});

/** A dialogue of {from, value}: who asked, and what. */
function turns(columns: Readonly<Record<string, unknown>>): readonly { from: string; value: string }[] {
  const list = at(columns, 'conversations');
  const wrong = (found: unknown): never =>
    mismatch(
      `conversations is ${describeValue(found)}, expected {from, value} of a human, then of the model`,
    );
  if (!Array.isArray(list) || list.length < 2) return wrong(list);
  for (const turn of list)
    if (typeof turn?.from !== 'string' || typeof turn?.value !== 'string') return wrong(turn);
  return list;
}

const ROLES: Readonly<Record<string, string>> = { human: 'user', gpt: 'assistant' };

const openthoughtsConversations = preset({
  ...OPENTHOUGHTS,
  columns: ['conversations'],
  fits: ({ conversations }) => Array.isArray(conversations) && typeof conversations[0]?.value === 'string',
  fields: {
    prompt: rule('system, and conversations but the last', (columns) => {
      const { system } = columns;
      const asked = turns(columns)
        .slice(0, -1)
        .map(({ from, value }) => ({ role: ROLES[from] ?? from, content: value }));
      return typeof system === 'string' && system !== ''
        ? [{ role: 'system', content: system }, ...asked]
        : asked;
    }),
    completion: rule('the last of conversations', (columns) => turns(columns).at(-1)?.value),
  },
  notes: [
    'it has no references: take the metadata configuration, or --join <file> --join-on <field=field>',
    'the 114k edition opens and closes thoughts with <|begin_of_thought|> and <|end_of_thought|>, which are known',
  ],
});

const openmathreasoning = preset({
  name: 'openmathreasoning',
  what: 'nvidia/OpenMathReasoning',
  columns: ['problem', 'generated_solution', 'expected_answer'],
  fields: { prompt: 'problem', completion: 'generated_solution', reference: 'expected_answer' },
  notes: [
    'traces of one problem are no group: most wrong ones were left out, and a mean reward of 1 makes σ uniform',
  ],
});

const DEEPMATH = ['r1_solution_1', 'r1_solution_2', 'r1_solution_3'];

const deepmath = preset({
  name: 'deepmath',
  what: 'zwhe99/DeepMath-103K',
  columns: ['question', 'final_answer', ...DEEPMATH],
  fields: {
    prompt: 'question',
    completion: ruleForEach(DEEPMATH.join(', '), (columns) => DEEPMATH.map((name) => columns[name])),
    reference: 'final_answer',
  },
  notes: ['the three solutions of a row are meant to be right: use --baseline value, or σ is uniform'],
});

const GSM8K = ['6b_finetuning', '6b_verification', '175b_finetuning', '175b_verification'];
const GSM8K_ANSWER = /(?:^|\n)A: *([^\n]*)\s*$/;

const gsm8kSolutions = preset({
  name: 'gsm8k-solutions',
  what: 'example_model_solutions.jsonl of openai/grade-school-math',
  columns: ['question', 'ground_truth', ...GSM8K],
  fields: {
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
  },
  notes: ['the four solutions of a question, by four models, are one group'],
});

/** Data sets of whole solutions. */
export const SOLUTIONS: readonly Preset[] = [
  openr1,
  gsm8kSolutions,
  openthoughtsMetadata,
  openmathreasoning,
  deepmath,
  numinamathCot,
  numinamath15,
  openthoughtsConversations,
];
