// Compares two answers: equal, different, or not known to be either (docs/answers.md).
import { type AnswerValue, type NumberValue, readAnswer } from './answer-value.js';

/** `unknown` where a fair reader could doubt: nothing is guessed. */
export type Verdict = 'equal' | 'different' | 'unknown';

/** Longer texts are no answers that could be read: they are compared as they stand. */
const LONGEST = 1000;

/** Compares a trace's own answer with a reference. */
export function compareAnswers(own: string, reference: string): Verdict {
  if (own.trim() === reference.trim()) return own.trim() === '' ? 'unknown' : 'equal';
  if (own.length > LONGEST || reference.length > LONGEST) return 'unknown';
  const [a, b] = [readAnswer(own), readAnswer(reference)];
  if (a.text === '' || b.text === '') return 'unknown';
  // x = 3 against y = 3
  if (a.name !== '' && b.name !== '' && a.name !== b.name) return 'unknown';
  if (a.text === b.text) return 'equal';
  const verdict = compareValues(a.value, b.value);
  // x = 3 against 4: the question may have asked for another thing than x
  return verdict === 'different' && a.name !== b.name ? 'unknown' : verdict;
}

function compareValues(a: AnswerValue, b: AnswerValue): Verdict {
  if (a.kind === 'number' && b.kind === 'number') return compareNumbers(a, b);
  if (a.kind === 'letter' && b.kind === 'letter') {
    // A. x against A. y: who knows what the letters name
    if (a.form === 'text' && b.form === 'text') return 'unknown';
    if (a.letter.toLowerCase() !== b.letter.toLowerCase()) return 'different';
    // R and r are two variables, (B) and b one choice
    return a.letter === b.letter || a.form !== 'alone' || b.form !== 'alone' ? 'equal' : 'unknown';
  }
  if (a.kind === 'word' && b.kind === 'word') {
    const isOne = (word: string) => OPPOSITES.some((pair) => pair.has(word));
    // ab and AB are products, of different variables
    if (a.word === b.word) return a.word.length > 3 || isOne(a.word) ? 'equal' : 'unknown';
    return OPPOSITES.some((pair) => pair.has(a.word) && pair.has(b.word)) ? 'different' : 'unknown';
  }
  if (a.kind === 'list' && b.kind === 'list') return compareLists(a, b);
  return a.kind === 'other' && b.kind === 'other' && a.text === b.text ? 'equal' : 'unknown';
}

const OPPOSITES = [new Set(['yes', 'no']), new Set(['true', 'false'])];

function compareNumbers(a: NumberValue, b: NumberValue): Verdict {
  if (a.unit !== b.unit) return compareAcrossUnits(a, b);
  if (a.num * b.den === b.num * a.den) return 'equal';
  if (a.isLoose || b.isLoose || isRounded(a, b) || isRounded(b, a)) return 'unknown';
  return readsAsThousands(a, b) || readsAsThousands(b, a) ? 'unknown' : 'different';
}

/** 50 % is .5, and 50 where the question asks for per cent; no other units are converted. */
function compareAcrossUnits(a: NumberValue, b: NumberValue): Verdict {
  const [percent, other] = a.unit === '%' ? [a, b] : [b, a];
  if (percent.unit !== '%' || other.unit !== '') return 'unknown';
  const share = { ...percent, den: percent.den * 100n, unit: '', decimals: percent.decimals + 2 };
  const verdict = compareNumbers(share, other);
  const asWritten = compareNumbers({ ...percent, unit: '' }, other);
  return verdict === 'different' && asWritten !== 'different' ? 'unknown' : verdict;
}

/** Whether `short`, a decimal, could be `long` with fewer digits: .33 and 1/3, 3.14 and 3.1416. */
function isRounded(short: NumberValue, long: NumberValue): boolean {
  if (short.decimals === 0) return false;
  const scale = 10n ** BigInt(short.decimals);
  // a number that has no digits beyond these is no longer one
  if ((long.num * scale) % long.den === 0n) return false;
  const [s, l, one] = [short.num * long.den * scale, long.num * short.den * scale, short.den * long.den];
  const distance = abs(s - l);
  return 2n * distance <= one || (distance < one && abs(s) < abs(l));
}

function abs(value: bigint): bigint {
  return value < 0n ? -value : value;
}

/** 1.000 is 1000 where a point parts thousands. */
function readsAsThousands(a: NumberValue, b: NumberValue): boolean {
  return a.decimals === 3 && a.num * 1000n * b.den === b.num * a.den;
}

type List = AnswerValue & { kind: 'list' };

function compareLists(a: List, b: List): Verdict {
  const isSet = (list: List) => list.brackets === '{}';
  const isBare = (list: List) => list.brackets === '';
  if (isSet(a) || isSet(b) || (isBare(a) && isBare(b))) {
    if (![a, b].every((list) => isSet(list) || isBare(list))) return 'unknown';
    if (isBare(a) && isBare(b) && compareInOrder(a, b) === 'equal') return 'equal';
    const verdict = compareSets(a, b);
    // without braces nobody says that the order is free
    return verdict === 'equal' && isBare(a) && isBare(b) ? 'unknown' : verdict;
  }
  // (1,2) is a point or an interval, [1,2] a vector or another interval
  return a.brackets === b.brackets ? compareInOrder(a, b) : 'unknown';
}

function compareInOrder(a: List, b: List): Verdict {
  if (a.items.length !== b.items.length) return 'different';
  const verdicts = a.items.map((item, i) => compareValues(item, b.items[i] as AnswerValue));
  if (verdicts.includes('different')) return 'different';
  return verdicts.every((verdict) => verdict === 'equal') ? 'equal' : 'unknown';
}

function compareSets(a: List, b: List): Verdict {
  const sides = [
    a.items.map((item) => b.items.map((other) => compareValues(item, other))),
    b.items.map((item) => a.items.map((other) => compareValues(item, other))),
  ].flat();
  if (sides.some((verdicts) => verdicts.every((verdict) => verdict === 'different'))) return 'different';
  return sides.every((verdicts) => verdicts.includes('equal')) ? 'equal' : 'unknown';
}
