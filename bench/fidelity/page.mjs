// What fidelity has measured in, the text of docs/fidelity.md out.
import { availableParallelism, cpus } from 'node:os';
import { finder, methodsOf, sampledOf, table, two, whole, withInterval } from './figures.mjs';
import { chainsSection } from './page-chains.mjs';
import { attributionSection, defaultFeatures, featureSection, prmSection } from './page-comparisons.mjs';
import { costSection, lengthSection, noiseSection, segmenterSection } from './page-studies.mjs';

const code = (name) => `\`${name}\``;

function mainTable({ comparison, levels }) {
  const figure = finder(comparison);
  const ceiling = comparison.ceiling?.value;
  return table(
    [
      ...['', 'level error', 'Δ Pearson inside traces', 'of the ceiling', 'Spearman inside'],
      ...['pooled Pearson', 'pooled Spearman', 'sign of large changes'],
    ],
    methodsOf(comparison).map((name) => [
      code(name),
      two(levels[name]),
      withInterval(figure('pearson', name)),
      two((figure('pearson', name)?.value ?? Number.NaN) / ceiling),
      withInterval(figure('spearman', name)),
      withInterval(figure('pooled_pearson', name)),
      withInterval(figure('pooled_spearman', name)),
      withInterval(figure('sign_of_large', name)),
    ]),
  );
}

/** They need a model that the policy's owner may not have. */
const OF_ANOTHER_MODEL = ['progress', 'prm'];

function bestLine({ comparison }) {
  const figure = finder(comparison);
  const pearson = (name) => figure('pearson', name)?.value ?? Number.NEGATIVE_INFINITY;
  const own = methodsOf(comparison).filter((name) => !OF_ANOTHER_MODEL.includes(name));
  const best = own.sort((a, b) => pearson(b) - pearson(a))[0];
  return `Best of what generates nothing: ${code(best)}, with ${two(pearson(best) / comparison.ceiling?.value)} of the ceiling.`;
}

const LASTS = [0.25, 0.5, 0.75, 1];

function lateTable(comparison, measure) {
  const figure = finder(comparison);
  return table(
    [`${measure} inside traces`, 'last ¼', 'last ½', 'last ¾', 'all', 'right', 'wrong'],
    methodsOf(comparison).map((name) => [
      code(name),
      ...LASTS.map((last) => withInterval(figure(measure.toLowerCase(), name, 'all', last))),
      two(figure(measure.toLowerCase(), name, 'right')?.value),
      two(figure(measure.toLowerCase(), name, 'wrong')?.value),
    ]),
  );
}

function worstTable(comparison) {
  const figure = finder(comparison);
  const label = finder(comparison, 'first_wrong');
  const names = methodsOf(comparison);
  const { chance } = figure('worst_segment', names[0], 'wrong') ?? {};
  const guess = label('hit_at_1', names[0])?.chance;
  return table(
    [
      '',
      "worst segment of wrong traces is Monte Carlo's",
      'known mistake: ROC AUC',
      'known mistake is the worst segment',
    ],
    [
      ...[...names, 'mc'].map((name) => [
        code(name),
        withInterval(figure('worst_segment', name, 'wrong')),
        withInterval(label('auc', name)),
        withInterval(label('hit_at_1', name)),
      ]),
      ['guessing', two(chance), '.50', two(guess)],
    ],
  );
}

/** Monte Carlo of fewer or shorter completions, and what generates nothing, all by the same half of the completions. */
function halfTable({ byHalf, levels, samples }) {
  const figure = finder(byHalf);
  const spelled = (name) =>
    name
      .replace(/^mc_truncated_(\d+)$/, `\`mc-truncated\`, $1 tokens, M = ${samples / 2}`)
      .replace(/^mc_(\d+)$/, '`mc`, M = $1');
  return table(
    [
      '',
      'level error',
      'Δ Pearson inside traces',
      'sign of large changes',
      "worst segment is the other half's",
    ],
    [
      ...sampledOf(byHalf).map((name) => [name, spelled(name)]),
      ...methodsOf(byHalf).map((name) => [name, code(name)]),
    ].map(([name, title]) => [
      title,
      name.startsWith('mc_') ? two(levels[name]) : '',
      withInterval(figure('pearson', name)),
      withInterval(figure('sign_of_large', name)),
      withInterval(figure('worst_segment', name, 'wrong')),
    ]),
  );
}

function section(measured) {
  const { policy, comparison, tokens, calibration, fit, samples } = measured;
  const { traces, right, wrong, segments, ceiling } = comparison;
  const { log_loss: loss, stands_back: back } = calibration;
  const losses = Object.entries(loss ?? {}).map(([name, x]) => `${name} ${x?.toFixed?.(3) ?? 'not known'}`);
  const reliability = ceiling === null ? Number.NaN : ceiling.value ** 2;
  return `## ${policy.title}

${traces} traces, ${right} right and ${wrong} wrong, ${whole(segments)} segments, ${whole(tokens)} tokens, ${samples} completions at every exit. The reliability of
Monte Carlo's differences, from two halves of them, is ${two(reliability)}; the ceiling, its root, **${withInterval(ceiling ?? undefined)}**. The calibration was fitted to ${fit} traces of other
groups${back === null ? '' : `, and stands back (${back})`}; its log losses: ${losses.join(', ')}.

${mainTable(measured)}

${bestLine(measured)}

![Pearson by the last part of the trace](fidelity-${policy.name}-last.svg)

${lateTable(comparison, 'Pearson')}

${lateTable(comparison, 'Spearman')}

${worstTable(comparison)}

One half of the completions as the truth, so that Monte Carlo of fewer, or of shorter ones, can be held against completions that it has not seen:

${halfTable(measured)}

${attributionSection(measured)}
${prmSection(measured)}
${featureSection(measured)}
${noiseSection(measured)}
${lengthSection(measured)}
${segmenterSection(measured)}
${costSection(measured)}`;
}

/**
 * The page.
 * @param measured what was measured of each policy
 * @param chains of published chains; null where their data was not there, 'left out' where they were not asked for
 * @param isWhole false for a trial run
 */
export function fidelityPage(measured, chains, isWhole) {
  return `# How near the values are to Monte Carlo

Written by \`npm run fidelity\`${isWhole ? '' : ' (**a trial run: few traces, few completions; its numbers mean little**)'} on ${cpus()[0].model.trim()}, ${availableParallelism()} cores, Node ${process.version}: numbers and plots are those of that run.

A value is held against what it stands for: the share of completions from a state that win, sampled from the policy itself at temperature 1. Every trace is cut at its lines, all methods
have the same segments, and no group is both fitted to and judged. Correlations are those of differences of neighbouring states inside a trace (pooled ones
mix in which traces won); brackets are 95 % of a bootstrap over groups. Large changes are those of .2 and more. [compare.md](compare.md) says how each figure is made.
The known mistake is the line at which a wrong trace goes wrong and stays so: both tasks are known line by line.

\`uniform\` and the σ rules (\`sigma_surprise\`, \`sigma_entropy\`) share out ζ − b, so their sign is that of the trace's own outcome against its group. \`siblings\` reads the rewards of the trace and of its group,
which is what it is made of; of the others only \`snis\` and \`joint\` read the group, whose answers are their bank.
\`surprise\`, \`attention\`, \`gradient\` and \`posterior\` have no sign of their own and take that of ζ − b as well. \`progress\` asks another policy, a weaker one of the same task, and \`prm\` a
reward model that was trained on lines known to be right or wrong: neither is counted as the best of what generates nothing. \`posterior\` puts the answer into the prompt: of
a copy that was trained to read it there (\`models/hint\`) for the first policy, and of the second policy itself, which has never seen one: there it says how little that means.

Both policies are toys of 0.8 M parameters. What is measured here holds for them.

${defaultFeatures(measured)}

${measured.map(section).join('\n')}
${chainsSection(chains)}
## Running it

\`npm run fidelity\` writes this page. All that is sampled lies in \`.fidelity/\`: a run that is interrupted goes on with the next four traces when it is started again. Sampling took
${measured.map(({ policy, taken }) => `${(taken / 60).toFixed(0)} min for ${policy.title.toLowerCase()}`).join(' and ')} here. \`-- --quick\` tries all of it on few traces in minutes and writes
to \`.fidelity-quick/\`; \`-- --only puzzles\` (or \`embedded\`) does one policy.

Nothing is sampled twice. One run has all completions: at the ends of all lines, and, of some traces, before every token that the policy was less than 99.9 % sure of. Fewer completions are the
first of each exit's; shorter ones the same cut off, which are those that \`mc-truncated\` writes, since a completion's tokens depend on seed, trace, exit and place alone.
`;
}
