/** The segmenters beside hybrid, naively: loops over tokens as METHOD 2 says it in words. */

export interface Thought {
  /** first token of the thought that can be cut behind */
  readonly start: number;
  readonly end: number;
  /** tokens that the text shows */
  readonly textEnd: number;
}

/** Ends of pieces between `cuts`, the blank ones joined to what stands on their left, leading ones to the first. */
export function piecesBetween(cuts: readonly number[], tokens: readonly string[], { start, end }: Thought) {
  if (end === 0) return [];
  const inside = [...new Set(cuts)].filter((cut) => cut > start && cut < end).sort((a, b) => a - b);
  const isBlank = (from: number, to: number) => !/[^ \t\r\n\v\f]/.test(tokens.slice(from, to).join(''));
  const pieces: { from: number; to: number }[] = [];
  for (const to of [...inside, end]) {
    const from = pieces.at(-1)?.to ?? start;
    const last = pieces.at(-1);
    if (last !== undefined && isBlank(from, to)) last.to = to;
    else if (last !== undefined && pieces.length === 1 && isBlank(last.from, last.to)) last.to = to;
    else pieces.push({ from, to });
  }
  return pieces.map(({ to }) => to);
}

/** Cuts before the tokens of which fewer than `share`·n have more entropy (or as much, and stand earlier). */
export function entropyShareCuts(
  entropies: readonly number[],
  { start, end, textEnd }: Thought,
  share: number,
) {
  const places: number[] = [];
  for (let t = start + 1; t < Math.min(end, textEnd); t++) places.push(t);
  const before = (t: number) =>
    places.filter(
      (s) =>
        (entropies[s] as number) > (entropies[t] as number) ||
        ((entropies[s] as number) === (entropies[t] as number) && s < t),
    ).length;
  return places.filter((t) => before(t) < Math.floor(share * places.length));
}

export function entropyThresholdCuts(entropies: readonly number[], thought: Thought, threshold: number) {
  const cuts: number[] = [];
  for (let t = thought.start + 1; t < Math.min(thought.end, thought.textEnd); t++)
    if (!((entropies[t] as number) < threshold)) cuts.push(t);
  return cuts;
}

/** SPO: of the tokens with p below the bound, the m-th, 2m-th, … each opens a piece. */
export function cutpoints(logprobs: readonly number[], thought: Thought, probability: number, every: number) {
  const unlikely: number[] = [];
  for (let t = thought.start; t < Math.min(thought.end, thought.textEnd); t++)
    if (Math.exp(logprobs[t] as number) < probability) unlikely.push(t);
  return unlikely.filter((_, n) => (n + 1) % every === 0);
}

/** Merges the neighbours of lowest sum, leftmost, while there are more than `max`, or that sum is at most `limit`. */
export function adaptiveMerge(
  ends: readonly number[],
  weights: readonly number[],
  max: number,
  limit: number,
) {
  const left = ends.map((end, j) => ({ end, sum: weights[j] as number }));
  for (;;) {
    const sums = left.slice(1).map(({ sum }, j) => (left[j]?.sum as number) + sum);
    const lowest = Math.min(...sums);
    if (sums.length === 0 || (left.length <= max && lowest > limit)) return left.map(({ end }) => end);
    const j = sums.indexOf(lowest);
    left.splice(j, 2, { end: left[j + 1]?.end as number, sum: lowest });
  }
}
