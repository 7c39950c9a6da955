// The four studies of a policy in, their parts of the page out: noise, lost completions, segmenters, cost.
import { table, two, whole, withInterval } from './figures.mjs';

const three = (x) => (Number.isFinite(x) ? x.toFixed(3).replace(/^0\./, '.') : '');
const percent = (x) => (Number.isFinite(x) ? `${(100 * x).toFixed(0)} %` : '');

/** The paper's figure 7. */
export function noiseSection({ policy, noise }) {
  const head = noise.exits.map((exits) => `${exits.toFixed(1)} exits`);
  const rows = noise.rows.map(({ M, deviations, ceilings }) => [
    `${M}`,
    ...deviations.map(three),
    ...head.map((_, i) => two(ceilings?.[i])),
  ]);
  return `### Noise of fewer completions

Mean bootstrap standard deviation of a value, by the number of completions and of exits (evenly spread over the ends of a trace's lines), and √reliability of the
differences (0 where two sets of so many completions do not go together):

${table(['M', ...head.map((text) => `sd, ${text}`), ...head.map((text) => `√rel., ${text}`)], rows)}

![Standard deviation by completions](fidelity-${policy.name}-noise.svg)
`;
}

/** The paper's figure 3. */
export function lengthSection({ policy, lengths: { edges, limits } }) {
  const bins = edges.slice(1).map((edge, i) => `${edges[i]} to ${edge}`);
  return `### Completions that a limit loses

Share of completions that are longer than the limit, by how many tokens the trace itself has left at that exit, as a share of the limit:

${table(
  ['limit', 'all exits', ...bins],
  limits.map(({ limit, all, bins: own }) => [
    `${limit}`,
    percent(all),
    ...own.map(({ lost }) => percent(lost)),
  ]),
)}

![Lost completions by remaining length](fidelity-${policy.name}-lost.svg)
`;
}

export function segmenterSection({ policy, segmenters: { counts, traces, tokens, exits, ways } }) {
  const rows = ways.map(({ name, shares, segments }) => [
    name === 'best' ? '**best cut**' : `\`${name}\``,
    ...counts.map((_, i) => `${withInterval(shares[i])} (${segments[i].toFixed(1)})`),
  ]);
  return `### Which segmenter keeps most of the credit

Of ${traces} thoughts (one a group: its longest wrong one, where none is wrong its longest, up to 200 tokens; mean ${tokens.toFixed(0)}), completions were sampled before every token that the policy was less than 99.9 % sure of
(${exits.toFixed(1)} exits a thought, lines included): at any other token the value changes by at most what is missing to 1. That makes a credit token by token. A segment spreads its
difference evenly over its tokens, so of the sum of squares of the token-wise credit, Σ Δ_t², it keeps Σ Δ²/n, n its number of tokens: what is told is that share, and in parentheses the mean
number of segments (a segmenter that finds fewer pieces has fewer). The completions are dealt out to four quarters with noise of their own; a product of two quarters has, on average, no
noise in it. **Best cut** is the best that dynamic programming over all boundaries finds on two quarters, judged by the other two: a best cut that knew the true values would keep
somewhat more. \`adaptive\` cuts as \`hybrid\` does, with a limit in place of a number; \`fixed 1, merged\` is every token, merged by entropy to the number.

${table(['', ...counts.map((K) => `${K}`)], rows)}

![Share kept by segments](fidelity-${policy.name}-segmenters.svg)
`;
}

export function costSection({ costs }) {
  const pr = costs.find(({ name }) => name === 'pr');
  return `### Cost

Tokens that go through the policy (read and written), and seconds of the run, on this machine beside whatever else it did:

${table(
  ['', 'tokens', 'of `pr`', 'seconds', 'of `pr`'],
  costs.map(({ name, tokens, seconds }) => [
    `\`${name}\``,
    whole(tokens),
    (tokens / pr.tokens).toFixed(1),
    seconds.toFixed(0),
    (seconds / pr.seconds).toFixed(1),
  ]),
)}
`;
}
