const THOUGHT = ['a', 'b', 'c'];
const STOP = '|'; // ends the thought
const ANSWERS = ['0', '1', '2'];
const LONGEST = 4; // thought symbols

export interface ToyModel {
  next: (prefix: string) => Map<string, number>; // symbol → p(symbol | prefix)
}

export interface Continuation {
  u: string; // the rest of the thought, STOP included
  y: string;
}

/** A table of random conditionals over every prefix: a thought of up to LONGEST symbols, STOP, one answer. */
export function randomToy(random: () => number): ToyModel {
  const table = new Map<string, Map<string, number>>();
  const next = (prefix: string): Map<string, number> => {
    const known = table.get(prefix);
    if (known) return known;
    const symbols = prefix.includes(STOP) ? ANSWERS : prefix.length < LONGEST ? [...THOUGHT, STOP] : [STOP];
    const weights = symbols.map(() => random() ** 3 + 1e-3); // cubed: peaked, as trained policies are
    const total = weights.reduce((a, b) => a + b, 0);
    const row = new Map(symbols.map((symbol, i) => [symbol, (weights[i] as number) / total]));
    table.set(prefix, row);
    return row;
  };
  return { next };
}

/** log p of each symbol of `text` after `prefix`. */
export function toyLogprobs(model: ToyModel, prefix: string, text: string): number[] {
  return [...text].map((symbol, i) => Math.log(model.next(prefix + text.slice(0, i)).get(symbol) ?? 0));
}

/** Every (u, y) that can follow the state s, a thought without its STOP. */
export function continuations(s: string): Continuation[] {
  const rests = (length: number): string[] => {
    if (length === 0) return [STOP];
    return [STOP, ...THOUGHT.flatMap((symbol) => rests(length - 1).map((rest) => symbol + rest))];
  };
  return rests(LONGEST - s.length).flatMap((u) => ANSWERS.map((y) => ({ u, y })));
}

export type Utility = (s: string, continuation: Continuation) => number;

/** Σ p(y|u,s) p(u|s) ζ(y) over `some`, in plain probabilities: (1) if these are all continuations. */
export function exactSum(model: ToyModel, s: string, some: readonly Continuation[], zeta: Utility): number {
  let total = 0;
  for (const continuation of some) {
    const { u, y } = continuation;
    let p = 1;
    for (const [i, symbol] of [...(u + y)].entries()) {
      p *= model.next(s + (u + y).slice(0, i)).get(symbol) ?? 0;
    }
    total += p * zeta(s, continuation);
  }
  return total;
}

export function exactValue(model: ToyModel, s: string, zeta: Utility): number {
  return exactSum(model, s, continuations(s), zeta);
}

/** The expected best of K answers given one after the other, by trying all sequences of K. */
export function bestOfValue(model: ToyModel, s: string, K: number, zeta: (y: string) => number): number {
  if (K === 0) return 0;
  const next = model.next(s + STOP);
  const best = (k: number, sofar: number): number =>
    k === 0
      ? sofar
      : ANSWERS.reduce((sum, y) => sum + (next.get(y) ?? 0) * best(k - 1, Math.max(sofar, zeta(y))), 0);
  return best(K, 0);
}

/** A seeded stream of numbers in [0, 1) (mulberry32), so that failures repeat. */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let z = Math.imul(state ^ (state >>> 15), 1 | state);
    z = (z + Math.imul(z ^ (z >>> 7), 61 | z)) ^ z;
    return ((z ^ (z >>> 14)) >>> 0) / 4294967296;
  };
}

/** A place among chances that sum to 1, drawn. */
export function drawn(chances: Iterable<number>, random: () => number): number {
  let [left, place] = [random(), -1];
  for (const chance of chances) {
    place++;
    left -= chance;
    if (left < 0) break;
  }
  return place;
}
