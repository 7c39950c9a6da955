// What fidelity has measured in, the text of docs/fidelity.md out.
import { availableParallelism, cpus } from 'node:os';

const two = (x) => (x === null || x === undefined ? '' : x.toFixed(2).replace(/^(-?)0\./, '$1.'));
const withInterval = ({ value, low, high } = {}) =>
  value === null || value === undefined ? '' : `${two(value)} [${two(low)}, ${two(high)}]`;

/** A cell for each method; those that are best of what generates nothing are bold. */
function table(head, rows) {
  return [
    `| ${head.join(' | ')} |`,
    `|${head.map(() => '---').join('|')}|`,
    ...rows.map((row) => `| ${row.join(' | ')} |`),
  ].join('\n');
}

/** The names that mean something here: the file's own differences and sums of the first method are told under its name. */
const isOwn = (name) => ['delta', 'sigma', 'sigma_share'].includes(name) || /:(delta|sigma)$/.test(name);

export function methodsOf({ figures }) {
  return [...new Set(figures.filter(({ of }) => of === 'mc').map(({ credit }) => credit))].filter(
    (name) => !isOwn(name),
  );
}

export const finder =
  ({ figures }) =>
  (measure, credit, traces = 'all', last = 1) =>
    figures.find(
      (f) => f.measure === measure && f.credit === credit && f.traces === traces && f.last === last,
    );

function section({ policy, comparison, levels, seconds, tokens, calibration, fit, half }) {
  const figure = finder(comparison);
  const methods = methodsOf(comparison);
  const { traces, right, wrong, segments, ceiling } = comparison;
  const main = table(
    [
      '',
      'level error',
      'Δ Pearson inside traces',
      'Spearman inside',
      'pooled Pearson',
      'pooled Spearman',
      'sign of large changes',
    ],
    methods.map((name) => [
      `\`${name}\``,
      two(levels[name]),
      withInterval(figure('pearson', name)),
      two(figure('spearman', name)?.value),
      two(figure('pooled_pearson', name)?.value),
      two(figure('pooled_spearman', name)?.value),
      withInterval(figure('sign_of_large', name)),
    ]),
  );
  const late = table(
    ['Δ Pearson inside traces', 'last ¼', 'last ½', 'last ¾', 'all', 'right', 'wrong'],
    methods.map((name) => [
      `\`${name}\``,
      ...[0.25, 0.5, 0.75, 1].map((last) => two(figure('pearson', name, 'all', last)?.value)),
      two(figure('pearson', name, 'right')?.value),
      two(figure('pearson', name, 'wrong')?.value),
    ]),
  );
  const labels = comparison.figures.filter(
    ({ of, credit }) => of === 'first_wrong' && !isOwn(credit) && !credit.startsWith('mc_'),
  );
  const auc = (name) => labels.find((f) => f.measure === 'auc' && f.credit === name);
  const hit = (name) => labels.find((f) => f.measure === 'hit_at_1' && f.credit === name);
  const known = table(
    ['', "worst segment of wrong traces is Monte Carlo's", 'first wrong line: ROC AUC', 'hit@1'],
    [...methods, 'mc'].map((name) => [
      `\`${name}\``,
      name === 'mc' ? '' : withInterval(figure('worst_segment', name, 'wrong')),
      withInterval(auc(name)),
      withInterval(hit(name)),
    ]),
  );
  const cost = table(
    ['', 'seconds', 'of `pr`'],
    Object.entries(seconds).map(([name, s]) => [`\`${name}\``, s.toFixed(0), (s / seconds.pr).toFixed(1)]),
  );
  const { log_loss: loss, stands_back: back } = calibration;
  return `## ${policy.title}

${traces} traces, ${right} right and ${wrong} wrong, ${segments} segments, ${tokens.toLocaleString('en')} tokens. The truth is the mean of two runs of ${half} completions at every exit;
the ceiling, the root of its reliability, is **${withInterval(ceiling ?? undefined)}**. The calibration was fitted to ${fit} traces of other groups${back === null ? '' : `, and stands back (${back})`}; its log losses: ${Object.entries(
    loss ?? {},
  )
    .map(([name, x]) => `${name} ${x?.toFixed?.(3) ?? x}`)
    .join(', ')}.

${main}

${late}

![Pearson by the last part of the trace](fidelity-${policy.name}.svg)

${known}

Seconds on this machine, start included:

${cost}
`;
}

/** The page. @param measured what was measured of each policy */
export function fidelityPage(measured) {
  return `# How near the values are to Monte Carlo

Written by \`npm run fidelity\` on ${cpus()[0].model.trim()}, ${availableParallelism()} cores, Node ${process.version}: numbers and plots are those of that run.

A value is held against what it stands for: the share of completions from a state that win, sampled from the policy itself. Every trace is cut at its lines, all methods
have the same segments, and no group is both fitted to and judged. Correlations are those of differences of neighbouring states inside a trace (pooled ones
mix in which traces won); brackets are 95 % of a bootstrap over traces. Large changes are those of .2 and more. [compare.md](compare.md) says how each figure is made.

Both policies are toys of 0.8 M parameters whose tasks are known line by line. What is measured here holds for them.

${measured.map(section).join('\n')}`;
}
