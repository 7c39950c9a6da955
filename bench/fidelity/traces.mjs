// Which traces are fitted to, which are judged, and at which of their tokens completions are sampled.

/**
 * Whole groups, never in both: one in `fitEvery` of each family is fitted to, of the others the first `judged` are judged.
 * @param rows in file order, with `group` and `family`
 */
export function splitGroups(rows, { fitEvery, judged }) {
  const families = new Map();
  for (const { group, family } of rows) families.set(family, (families.get(family) ?? new Set()).add(group));
  const fit = new Set();
  const judge = new Set();
  for (const groups of families.values()) {
    const others = [...groups].filter((_, n) => n % fitEvery !== 0);
    for (const group of groups) if (!others.includes(group)) fit.add(group);
    for (const group of others.slice(0, judged)) judge.add(group);
  }
  return {
    fit: rows.filter(({ group }) => fit.has(group)),
    judge: rows.filter(({ group }) => judge.has(group)),
  };
}

export const thoughtsOf = ({ segments }) => segments.filter(({ kind }) => kind === 'thought');
export const valuesOf = (row) => [row.value_start, ...thoughtsOf(row).map(({ value }) => value)];
export const differences = (values) => values.slice(1).map((value, k) => value - values[k]);

/** Between two tokens of which the policy is so sure the value changes by no more than what is missing to 1. */
const SURE = Math.log(0.999);
/** Thoughts of so many tokens at most: a token of a long one takes more to sample behind it. */
const LONGEST = 200;

/**
 * One trace of each group, of the `count` groups where it is longest: its longest wrong one, where it has none its longest, of those
 * whose thoughts are not too long. As numbers of rows.
 */
export function fineRows(rows, count) {
  const length = (i) => thoughtsOf(rows[i]).at(-1)?.end ?? 0;
  const isWrong = (i) => rows[i].reward <= 0.5;
  const before = (i, j) => Number(isWrong(j)) - Number(isWrong(i)) || length(j) - length(i) || i - j;
  const short = [...rows.keys()].filter((i) => length(i) > 1 && length(i) <= LONGEST);
  const groups = new Map();
  for (const i of short) groups.set(rows[i].group, [...(groups.get(rows[i].group) ?? []), i]);
  const chosen = Array.from(groups.values(), (own) => own.sort(before)[0]);
  return new Set(chosen.sort((i, j) => length(j) - length(i) || i - j).slice(0, count));
}

/**
 * Token boundaries at which completions are sampled: the ends of a trace's lines, and, of a trace that is looked at token by token,
 * before every token that the policy was not sure of.
 * @param row scored, cut at its lines
 */
export function sampledEnds(row, isFine) {
  const lines = thoughtsOf(row).map(({ end }) => end);
  const unsure = isFine
    ? row.logprobs.slice(0, lines.at(-1)).flatMap((logprob, t) => (t > 0 && logprob < SURE ? [t] : []))
    : [];
  return [...new Set([...lines, ...unsure])].sort((a, b) => a - b);
}
