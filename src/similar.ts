// Guesses which name was meant by a misspelled one.

/** A name counts as meant where at most so large a part of it would have to be changed. */
const MOST_CHANGED = 0.4;

/** So many letters of a name's beginning may stand for it. */
const LEAST_BEGUN = 3;

/** The name most like the word, letters' case aside, else the one that begins with it; undefined where none is near. */
export function didYouMean(word: string, names: readonly string[]): string | undefined {
  let best: { readonly name: string; readonly distance: number } | undefined;
  for (const name of names) {
    const distance = editDistance(word.toLowerCase(), name.toLowerCase());
    if (distance > MOST_CHANGED * Math.max(word.length, name.length)) continue;
    if (best === undefined || distance < best.distance) best = { name, distance };
  }
  if (best !== undefined || word.length < LEAST_BEGUN) return best?.name;
  const begun = names.filter((name) => name.toLowerCase().startsWith(word.toLowerCase()));
  return begun.length === 1 ? begun[0] : undefined;
}

/** Letters to insert, delete, replace, or swap with their neighbour (Damerau and Levenshtein, restricted). */
function editDistance(a: string, b: string): number {
  let [before, last]: [number[], number[]] = [[], Array.from({ length: b.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = at(last, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swapped = isSwapped ? at(before, j - 2) + 1 : replaced;
      next.push(Math.min(at(last, j) + 1, at(next, j - 1) + 1, replaced, swapped));
    }
    [before, last] = [last, next];
  }
  return at(last, b.length);
}

const at = (row: readonly number[], j: number): number => row[j] as number;
