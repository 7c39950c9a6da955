// What a process reward model says of segments in, how it goes with the NLL changes of answer and solution out: the paper's figures 5 and 6.
import { finder } from './figures.mjs';
import { differences, thoughtsOf, valuesOf } from './traces.mjs';

/** What the policy says of each state, whose change is held against the reward model. */
export const OF_POLICY = ['answer', 'thought'];
export const OF_MODEL = [
  ['score', 'prm', false],
  ['change of the score', 'prm', true],
  ['score, reference in the prompt', 'prm_reference', false],
  ['change of the score, reference in the prompt', 'prm_reference', true],
].map(([title, model, isChange]) => ({
  title,
  model,
  isChange,
  name: `${model}_${isChange ? 'change' : 'score'}`,
}));
/** A right step and a wrong one have no place in common with 0: what is flat or first is left to `compare`. */
const MEASURES = ['pearson', 'spearman', 'pooled_pearson'];

/**
 * @param base rows of `pr`; their references are what the answer's NLL is of
 * @param solution rows of `joint-log`: the reference's own solution behind each state, and its answer
 * @param prm, reference rows of the reward model, without and with the reference in its prompt
 * @param compared writes credits to a file and compares them
 * @returns figures: (measure, of the policy, of the model, traces); points of the plots; known: known wrong lines, with the reference
 */
export function prmStudy({ base, solution, prm, reference }, compared) {
  const logOf = (row) => row.reference_logprobs.map((exit) => Math.log(sum(exit.map(Math.exp))));
  const scores = (rows) => rows.map((row) => thoughtsOf(row).map(({ value }) => value));
  const credits = {
    answer: base.map((row) => differences(logOf(row))),
    thought: solution.map((row) => differences(valuesOf(row))),
    prm_score: scores(prm),
    prm_change: prm.map((row) => differences(valuesOf(row))),
    prm_reference_score: scores(reference),
    prm_reference_change: reference.map((row) => differences(valuesOf(row))),
  };
  const told = OF_POLICY.map((name) => {
    const flags = ['--truth', name, '--label', 'first_wrong=mistake'];
    return [name, compared('prm-study.jsonl', credits, ...flags)];
  });
  const figures = told.flatMap(([of, comparison]) => {
    const figure = finder(comparison, of);
    return OF_MODEL.flatMap(({ name }) =>
      MEASURES.flatMap((measure) =>
        ['all', 'right', 'wrong'].map((traces) => ({
          of,
          name,
          measure,
          traces,
          figure: figure(measure, name, traces),
        })),
      ),
    );
  });
  const label = finder(told[0][1], 'first_wrong');
  return {
    find: (of, name, measure, traces = 'all') =>
      figures.find((f) => f.of === of && f.name === name && f.measure === measure && f.traces === traces)
        ?.figure,
    known: Object.fromEntries(
      OF_MODEL.map(({ name }) => [name, { auc: label('auc', name), hit: label('hit_at_1', name) }]),
    ),
    points: (of, name) =>
      [true, false].map((isRight) => ({
        name: isRight ? 'right traces' : 'wrong traces',
        points: base.flatMap((row, i) =>
          row.reward > 0.5 === isRight ? credits[of][i].map((x, k) => [x, credits[name][i][k]]) : [],
        ),
      })),
  };
}

const sum = (list) => list.reduce((all, x) => all + x, 0);
