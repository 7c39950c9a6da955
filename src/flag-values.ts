// Values of flags: one of several names, whole numbers, numbers; and which name was meant by a misspelled one.
import { usageError } from './errors.js';

/** A flag, as the command line declares it: `--peers <n>`, and what it says of itself. */
export type Flag = readonly [flag: string, text: string];

/** Name of a flag's value: that of `--peer-tokens <n>` is `peerTokens`. */
export function attributeOf([flag]: Flag): string {
  const name = flag.replace(/^.*--/, '').replace(/[ ,].*$/, '');
  return name.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
}

/** The first of some flags that is given and is none of `own`. @param values by their names */
export function otherFlag(
  own: readonly Flag[],
  all: readonly Flag[],
  values: Readonly<Record<string, unknown>>,
): Flag | undefined {
  const known = new Set(own.map(attributeOf));
  return all.find((flag) => {
    const value = values[attributeOf(flag)];
    return value !== undefined && value !== false && !known.has(attributeOf(flag));
  });
}

/** The value of a flag that need not be given; undefined where it is not. */
export function given<T>(text: string | undefined, read: (text: string) => T): T | undefined {
  return text === undefined ? undefined : read(text);
}

/** Checks a flag with named choices. */
export function oneOf<T extends string>(flag: string, value: string, choices: readonly T[]): T {
  const found = choices.find((choice) => choice === value);
  if (found !== undefined) return found;
  const meant = didYouMean(value, choices);
  throw usageError(
    `${flag} ${value}: unknown choice${meant === undefined ? '' : `, did you mean ${meant}?`}`,
    `${flag} ${choices.join('|')}`,
  );
}

/** Checks a flag that takes a whole number of at least `least`. @param example what the hint shows */
export function positiveInteger(flag: string, text: string, example: number, least = 1): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(value) || value < least)
    throw usageError(`${flag} ${text}: expected a whole number of at least ${least}`, `${flag} ${example}`);
  return value;
}

/**
 * Checks a flag that takes a number.
 * @param example what the hint shows
 * @param fits whether it is one that is expected
 */
export function finite(
  flag: string,
  text: string,
  expected: string,
  example: string,
  fits: (value: number) => boolean = () => true,
): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value) || !fits(value))
    throw usageError(`${flag} ${text}: expected ${expected}`, `${flag} ${example}`);
  return value;
}

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

/** A list of names. @throws RredcotError (exit 2) for an empty one */
export function parseNames(flag: string, text: string): readonly string[] {
  const names = text.split(',').map((name) => name.trim());
  if (names.includes('')) throw usageError(`${flag} ${text}: expected names of columns`, `${flag} a,b`);
  return [...new Set(names)];
}

/** Paths are looked for below it; people know it with that of its OpenAI interface. @throws RredcotError (exit 2) */
export function addressOf(flag: string, text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.username !== '' || url.search !== '')
    throw usageError(`${flag} ${text}: expected an address`, `${flag} http://localhost:8000`);
  url.pathname = `${url.pathname.replace(/\/(v1\/?)?$/, '')}/`;
  return url;
}

/** How long a server may be silent, seconds, and traces that it is asked about at a time. @throws RredcotError (exit 2) */
export function serverLimits(flags: Readonly<Record<'enginePatience' | 'concurrency', unknown>>) {
  return {
    patience: positiveInteger('--engine-patience', String(flags.enginePatience), 600),
    width: positiveInteger('--concurrency', String(flags.concurrency), 16),
  };
}
