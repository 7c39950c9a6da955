// What was found on published chains in, its part of the page out; where nothing was, the page says so.
import { finder, table, two, withInterval } from './figures.mjs';

export function chainsSection(chains) {
  if (chains === 'left out') return '';
  if (chains === null)
    return `## Published chains

**Skipped**: the published chains were not beside the project when this page was written.
`;
  const { anchors, labelled } = chains;
  return `## Published chains

${anchors.comparison.traces} chains of DeepSeek-R1-Distill-Llama-8B with a Monte Carlo value before every sentence ([Thought Anchors](https://www.thought-anchors.com)): \`--estimator given --segmenter given\` gives the
source's own \`resampling_importance_accuracy\` back on ${anchors.pairs.toLocaleString('en')} pairs of neighbouring sentences, to within ${anchors.farthest.toExponential(0)}. Against it, the change of what the model answers
when it is made to answer there (\`forced\`, a published column), and \`uniform\`:

${anchorsTable(anchors.comparison)}

Chains of PaLM 2 with a human label of the first wrong step (BIG-Bench Mistake), read by the bundled policy and its reward model (\`models/prm\`), which know neither the tasks nor the style; the program
warns that they are foreign to it. What is left are methods that need no policy of the task, and how far they carry: length (\`uniform\`), surprise, entropy, a judgement of the steps' form.

${labelled.map(labelledTable).join('\n\n')}
`;
}

function anchorsTable(comparison) {
  const figure = finder(comparison, 'resampling_importance');
  return table(
    [
      '',
      'Δ Pearson inside traces',
      'Spearman inside',
      'pooled Pearson',
      'sign of large changes',
      'worst segment',
    ],
    [
      ['`uniform`', 'uniform'],
      ['`forced`', 'forced_importance'],
      ['`given`', 'given'],
    ].map(([title, name]) => [
      title,
      withInterval(figure('pearson', name)),
      withInterval(figure('spearman', name)),
      withInterval(figure('pooled_pearson', name)),
      withInterval(figure('sign_of_large', name)),
      withInterval(figure('worst_segment', name, 'wrong')),
    ]),
  );
}

const CREDITS = [
  ['`uniform`', 'uniform'],
  ['`pr`', 'pr'],
  ['σ by `surprise`', 'sigma_surprise'],
  ['σ by `entropy`', 'sigma_entropy'],
  ...['surprise', 'prm'].map((name) => [`\`${name}\``, name]),
];

function labelledTable({ name, flat, comparison }) {
  const figure = finder(comparison, 'first_wrong');
  const rows = CREDITS.map(([title, credit]) => [
    title,
    withInterval(figure('auc', credit)),
    withInterval(figure('hit_at_1', credit)),
  ]);
  const guess = figure('hit_at_1', 'uniform')?.chance;
  return `\`${name}\`: ${comparison.traces} chains; the values of ${flat} of them do not move by .001 anywhere.

${table(['', 'ROC AUC', 'hit@1'], [...rows, ['guessing', '.50', two(guess)]])}`;
}
