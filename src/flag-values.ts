// Values of flags: one of several names, whole numbers, numbers.
import { usageError } from './errors.js';
import { didYouMean } from './similar.js';

/** A flag, as the command line declares it: `--mates <n>`, and what it says of itself. */
export type Flag = readonly [flag: string, text: string];

/** Name of a flag's value: that of `--mate-tokens <n>` is `mateTokens`. */
export function attributeOf([flag]: Flag): string {
  const name = flag.replace(/^.*--/, '').replace(/[ ,].*$/, '');
  return name.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
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

/**
 * Checks a flag that takes a whole number of at least `least`.
 * @param example what the hint shows
 */
export function positiveInteger(flag: string, text: string, example: number, least = 1): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(value) || value < least)
    throw usageError(`${flag} ${text}: expected a whole number of at least ${least}`, `${flag} ${example}`);
  return value;
}

/** Checks a flag that takes a number. @param example what the hint shows */
export function finite(flag: string, text: string, expected: string, example: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value))
    throw usageError(`${flag} ${text}: expected ${expected}`, `${flag} ${example}`);
  return value;
}
