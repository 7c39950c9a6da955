// What the paper says of attributions and of a reward model, and further features of the calibrated value, as they were seen here: their parts of the page.
import { finder, table, two, withInterval } from './figures.mjs';
import { OF_MODEL, OF_POLICY } from './prm-study.mjs';

const three = (x) => (Number.isFinite(x) ? x.toFixed(3).replace(/^0\./, '.') : '');
const code = (name) => `\`${name}\``;

/** Whether an interval lies on one side of 0. */
const isSure = ({ low, high } = {}) => low > 0 || high < 0;

/** The paper's figure 4 in words, each held against the run's own numbers. */
export function attributionSection({ comparison, among }) {
  const names = Object.keys(among);
  const others = [...new Set(names.flatMap((name) => ['attention', 'loo', 'pr', 'surprise', name]))];
  const figure = (a, b) => {
    const pair = names.includes(a) ? [a, b] : [b, a];
    return finder(among[pair[0]], pair[0])('pearson', pair[1]);
  };
  const rows = names.map((name) => [
    code(name),
    ...others.map((other) => (other === name ? '' : withInterval(figure(name, other)))),
  ]);
  return `### What the paper says of attributions

Pearson inside traces of the credits with each other:

${table(['', ...others.map(code)], rows)}

${agreement(figure('gradient', 'loo'), figure('gradient', 'pr'))} ${nearer(comparison)}
`;
}

function agreement(withLoo, withPr) {
  const told = `\`gradient\` and \`loo\` go together at ${withInterval(withLoo)}, \`gradient\` and \`pr\` at ${withInterval(withPr)}`;
  const doAgree = isSure(withLoo) && withLoo.value > 0;
  const isMost = withLoo.value > (withPr?.value ?? Number.NaN);
  if (doAgree && isMost) return `**Gradient and LOO agree with each other**, as in the paper: ${told}.`;
  return `**Otherwise than in the paper**, gradient and LOO ${doAgree ? 'agree, but no more than gradient does with `pr`' : 'do not agree beyond chance'}: ${told}.`;
}

/** `pr` is the paper's estimator without a thought in the bank, `joint` its formula in full. */
const OURS = ['pr', 'joint', 'joint-log'];
const THEIRS = ['loo', 'gradient'];

function nearer(comparison) {
  const pearson = finder(comparison);
  const at = (name, last) => pearson('pearson', name, 'all', last)?.value;
  const best = (last) => Math.max(...THEIRS.map((name) => at(name, last) ?? Number.NEGATIVE_INFINITY));
  return OURS.filter((name) => at(name, 1) !== undefined)
    .map((name) => {
      const [late, whole] = [0.25, 1].map((last) => at(name, last) - best(last));
      const isMost = late > whole;
      const how = [
        whole > 0 ? 'nearer to Monte Carlo than both' : 'not nearer to Monte Carlo than both',
        late > 0 ? 'nearer in the last quarter' : 'not nearer in the last quarter',
      ];
      const verdict =
        whole > 0 && late > 0
          ? `as in the paper, ${isMost ? 'most of all late' : 'though not most of all late'}`
          : 'otherwise than in the paper';
      const numbers = [1, 0.25]
        .map(
          (last) =>
            `${two(at(name, last))} against ${THEIRS.map((other) => two(at(other, last))).join(' and ')}`,
        )
        .join(', in the last quarter ');
      return `\`${name}\` is ${how.join(' over all of the trace, ')} (${numbers}, ${THEIRS.join(' and ')}): ${verdict}.`;
    })
    .join(' ');
}

const OF_POLICY_TITLES = { answer: 'answer', thought: 'solution' };

/** The paper's figures 5 and 6. */
export function prmSection({ policy, prm }) {
  if (!prm) return '';
  const rows = OF_POLICY.flatMap((of) =>
    OF_MODEL.map(({ title, name }) => [
      OF_POLICY_TITLES[of],
      title,
      ...['all', 'right', 'wrong'].map((traces) => withInterval(prm.find(of, name, 'pearson', traces))),
      withInterval(prm.find(of, name, 'spearman')),
      withInterval(prm.find(of, name, 'pooled_pearson')),
    ]),
  );
  const known = OF_MODEL.map(({ title, name }) => [
    title,
    withInterval(prm.known[name].auc),
    withInterval(prm.known[name].hit),
  ]);
  return `### A reward model beside the policy's own NLL

The paper's figures 5 and 6: how the reward model's score of a segment, and its change, go with what the segment does to the policy's log-probability of the reference answer, and of the
reference's own solution with its answer behind it (\`joint-log\`): the fall of their NLL. Pearson inside traces, of all, right and wrong ones:

${table(['the policy: NLL of the', 'reward model', 'all', 'right', 'wrong', 'Spearman', 'pooled Pearson'], rows)}

${OF_POLICY.map((of) => ofPolicy(prm, of)).join(' ')} ${ofReference(prm)}

${OF_POLICY.map((of) => `![Reward model and NLL of the ${OF_POLICY_TITLES[of]}](fidelity-${policy.name}-prm-${of}.svg)`).join('\n\n')}

Known wrong lines, by score and by its change:

${table(['', 'ROC AUC', 'hit@1'], known)}
`;
}

function ofPolicy(prm, of) {
  const [right, wrong] = ['right', 'wrong'].map((traces) => prm.find(of, 'prm_score', 'pearson', traces));
  const told = (figure) => `${isSure(figure) ? '' : 'not surely '}${two(figure?.value)}`;
  return `With the ${OF_POLICY_TITLES[of]}'s NLL the score goes at ${told(right)} on right traces and ${told(wrong)} on wrong ones.`;
}

function ofReference(prm) {
  const gain = Math.max(
    ...OF_POLICY.map((of) =>
      Math.abs(
        prm.find(of, 'prm_reference_score', 'pearson').value - prm.find(of, 'prm_score', 'pearson').value,
      ),
    ),
  );
  return `The reference in the reward model's prompt changes these figures by ${two(gain)} at most.`;
}

/** Beside the default by so much, on every policy, or it is no help. */
const HELP = 0.02;

/** @param studies of all policies: the default follows from what helps on each */
export function featureSection(measured) {
  const { features } = measured;
  const [plain] = features;
  const rows = features.map(({ text, looksAhead, leftOut, loss, level, pearson, sign, worst }) => [
    text === '' ? 'none' : `${code(text)}${looksAhead ? ' (looks ahead)' : ''}`,
    three(leftOut),
    three(loss),
    two(level),
    withInterval(pearson),
    withInterval(sign),
    withInterval(worst),
  ]);
  const ahead = features.filter(({ looksAhead }) => looksAhead);
  const fooled = ahead.filter(
    ({ pearson, leftOut }) => pearson.value < plain.pearson.value - HELP && leftOut < plain.leftOut,
  );
  return `### Further features of the calibrated value

\`calibrate --features\`: the nine features that are always there, and these besides; fitted to the ${measured.fit} traces of other groups.

${table(['', 'log loss, groups left out', 'log loss, judged', 'level error', 'Δ Pearson inside traces', 'sign of large changes', "worst segment is Monte Carlo's"], rows)}

${helpful(features)} ${ahead.map(({ text }) => code(text)).join(', ')} are made of the whole trace. ${
    fooled.length === 0
      ? 'None of them was seen to do harm here.'
      : `With ${fooled.map(({ text }) => code(text)).join(' and ')} the log loss falls, and the differences are farther from Monte Carlo's.`
  }
`;
}

function helpful([plain, ...others]) {
  const by = others
    .filter(({ looksAhead, pearson }) => !looksAhead && pearson.value > plain.pearson.value + HELP)
    .map(({ text, pearson }) => `${code(text)} (${two(pearson.value)} after ${two(plain.pearson.value)})`);
  return by.length === 0
    ? `Nothing that looks no further than its state brings ${HELP} more of Pearson.`
    : `What looks no further than its state and brings ${HELP} more of Pearson: ${by.join(', ')}.`;
}

/** What the default set is, and why. */
export function defaultFeatures(measured) {
  const helps = ({ features: [plain, ...others] }) =>
    others
      .filter(({ looksAhead, pearson }) => !looksAhead && pearson.value > plain.pearson.value + HELP)
      .map(({ text }) => text);
  const [first = [], ...rest] = measured.map(helps);
  const everywhere = first.filter((text) => rest.every((own) => own.includes(text)));
  const needs = 'A reward model or a prover is a second model, which the owner of a policy may not have';
  return `**Further features of the calibrated value**: ${everywhere.length === 0 ? 'none helps on every policy of this page' : `${everywhere.map(code).join(', ')} helped on every policy of this page`}. ${needs}: the default set is what every scored file has.`;
}
