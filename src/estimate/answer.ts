// Compares two answers, equal, different or not known to be either, as exact numbers, letters, words or TeX (docs/answers.md).
import { closingBrace } from '../boxed.js';

/** `unknown` where a fair reader could doubt it: nothing is guessed. */
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
  return 'unknown';
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

const abs = (value: bigint) => (value < 0n ? -value : value);

/** 1.000 is 1000 where a point parts thousands. */
function readsAsThousands(a: NumberValue, b: NumberValue): boolean {
  return a.decimals === 3 && a.num * 1000n * b.den === b.num * a.den;
}

// ------ what an answer's text says

/** A number, exactly: num / den, den > 0. */
interface NumberValue {
  readonly kind: 'number';
  readonly num: bigint;
  readonly den: bigint;
  /** `%`, `°`, a word or nothing */
  readonly unit: string;
  /** digits behind the point of a plain decimal: it may be a rounded value */
  readonly decimals: number;
  /** written in a way that has a second reading: unequal does not mean different */
  readonly isLoose: boolean;
}

type AnswerValue =
  | NumberValue
  /** one letter: alone, in brackets (then it is a choice), or before the text of the choice */
  | { readonly kind: 'letter'; readonly letter: string; readonly form: 'alone' | 'brackets' | 'text' }
  | { readonly kind: 'word'; readonly word: string }
  | { readonly kind: 'other' };

/**
 * Reads an answer's text.
 * @returns text: TeX in one spelling, equal text is an equal answer, whatever it means; name: the left side of `x = 3`, which `text` and
 * `value` do not have
 */
function readAnswer(raw: string) {
  const text = oneSpelling(raw);
  const [whole, name = ''] = /^([a-zA-Z]|\\[a-z]+|[a-zA-Z]\([a-z]\))=(?=[^=]+$)/.exec(text) ?? [''];
  const rest = text.slice(whole.length);
  const value: AnswerValue = readNumber(rest) ?? readWord(rest) ?? { kind: 'other' };
  return { text: rest, value, name };
}

// ------ one spelling of TeX

const SYMBOLS: readonly (readonly [RegExp, string])[] = [
  [/[−–]/g, '-'],
  [/π/g, '\\pi '],
  [/∞/g, '\\infty '],
  [/×/g, '\\times '],
  [/·/g, '\\cdot '],
  [/\^\s*\{?\s*\\circ\s*\}?|\\degrees?(?![a-zA-Z])/g, '°'],
  [/\\(?:left|right|[bB]igg?[lr]?|displaystyle|textstyle)(?![a-zA-Z])/g, ''],
  [/\\[dtc]frac(?![a-zA-Z])/g, '\\frac'],
  // the space that TeX puts between thousands, and the one it takes away behind their comma
  [/\\!|(?<=\d)\\,(?=\d{3}(?!\d))/g, ''],
  [/(?<=\d)\{,\}(?=\d)/g, ','],
  [/\\(?:[,;: ]|q?quad(?![a-zA-Z]))|~/g, ' '],
  [/\\%/g, '%'],
  [/\\?\$|\\[()[\]]/g, ''],
];

/** Wrappers that change how an answer looks and not what it says. */
const WRAPPER = /\\(?:text|textbf|textit|textrm|mathrm|mathbf|mathit|mbox|operatorname|boxed|fbox)\s*\{/;

const ARGUMENTS: readonly (readonly [RegExp, string])[] = [
  [/\\frac\s*([0-9a-zA-Z])/g, '\\frac{$1}'],
  [/(\\frac\s*\{[^{}]*\})\s*([0-9a-zA-Z])/g, '$1{$2}'],
  [/\\sqrt\s*([0-9a-zA-Z])/g, '\\sqrt{$1}'],
  [/([\^_])\{([0-9a-zA-Z])\}/g, '$1$2'],
];

function oneSpelling(raw: string): string {
  let text = raw;
  for (let wrapped = WRAPPER.exec(text); wrapped !== null; wrapped = WRAPPER.exec(text)) {
    const start = wrapped.index + wrapped[0].length;
    const end = closingBrace(text, start);
    if (end < 0) break;
    text = text.slice(0, wrapped.index) + text.slice(start, end) + text.slice(end + 1);
  }
  for (const [pattern, by] of SYMBOLS) text = text.replaceAll(pattern, by);
  for (const [pattern, by] of ARGUMENTS) text = text.replaceAll(pattern, by);
  return text
    .trim()
    .replace(/^(\*\*|`)(.*)\1$/s, '$2')
    .replace(/\s*[.;,]$/, '')
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/ ?([^\w\s]) ?/g, (found, sign: string, at: number, all: string) => {
      // a space is kept only where it keeps words, numbers or TeX commands apart
      const keeps = sign === '\\' && found.startsWith(' ') && /[a-zA-Z]/.test(all[at - 1] ?? '');
      return keeps ? ` ${sign}` : sign;
    })
    .trim();
}

// ------ values

const PLAIN_NUMBER = String.raw`(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.?\d*|\.\d+)`;
const LEADING_NUMBER = new RegExp(`^${PLAIN_NUMBER}`);
const POWER = /^(?:[eE]([+-]?\d{1,3})(?![\w.])|\\times ?10\^(?:\{([+-]?\d{1,3})\}|(\d)(?!\d)))/;
const LEADING_FRACTION = new RegExp(
  String.raw`^(?:\\frac\{([+-]?${PLAIN_NUMBER})\}\{([+-]?${PLAIN_NUMBER})\}|(${PLAIN_NUMBER})/(${PLAIN_NUMBER})(?![\d.]))`,
);
const UNIT = /^ ?(%|°|[a-zA-Z][a-zA-Z]*(?:[ /][a-zA-Z]+)*(?:\^[23])?)?$/;

type Rational = readonly [num: bigint, den: bigint];

function readNumber(text: string): NumberValue | undefined {
  const [sign] = /^[+-]?/.exec(text) as RegExpExecArray;
  const inner = /^\(([^()]*)\)$/.exec(text.slice(sign.length));
  if (inner !== null) {
    // (7) is 7; (1,000) may be a pair
    const value = /,/.test(inner[1] as string) ? undefined : readNumber(inner[1] as string);
    return value && sign === '-' ? { ...value, num: -value.num } : value;
  }
  const found = readFraction(text.slice(sign.length)) ?? readDecimal(text.slice(sign.length));
  if (found === undefined) return undefined;
  const { value, rest, decimals = 0, isLoose = false } = found;
  const unit = UNIT.exec(rest);
  if (unit === null) return undefined;
  const [num, den] = value;
  return { kind: 'number', num: sign === '-' ? -num : num, den, unit: unitName(unit[1]), decimals, isLoose };
}

interface Magnitude extends Partial<Pick<NumberValue, 'decimals' | 'isLoose'>> {
  readonly value: Rational;
  readonly rest: string;
}

function readDecimal(text: string): Magnitude | undefined {
  const digits = LEADING_NUMBER.exec(text)?.[0];
  if (digits === undefined) return undefined;
  const [num, den] = decimal(digits);
  const rest = text.slice(digits.length);
  const power = POWER.exec(rest);
  if (power === null) return { value: [num, den], rest, decimals: digits.split('.')[1]?.length ?? 0 };
  const exponent = Number(power[1] ?? power[2] ?? power[3]);
  const scale = 10n ** BigInt(Math.abs(exponent));
  const value: Rational = exponent < 0 ? [num, den * scale] : [num * scale, den];
  return { value, rest: rest.slice(power[0].length), isLoose: true };
}

function readFraction(text: string): Magnitude | undefined {
  const found = LEADING_FRACTION.exec(text);
  if (found === null) return undefined;
  const [a, b] = decimal((found[1] ?? found[3]) as string);
  const [c, d] = decimal((found[2] ?? found[4]) as string);
  if (c === 0n) return undefined;
  const [num, den] = [a * d, b * c];
  return { value: den < 0n ? [-num, -den] : [num, den], rest: text.slice(found[0].length) };
}

function decimal(text: string): Rational {
  const [whole = '', fraction = ''] = text.replaceAll(',', '').replace(/^\+/, '').split('.');
  const negative = whole.startsWith('-');
  const num = BigInt(`${whole.replace('-', '')}${fraction}` || '0');
  return [negative ? -num : num, 10n ** BigInt(fraction.length)];
}

/** Degrees and dollars say nothing about the number; a plural is the same unit. */
function unitName(unit = ''): string {
  if (/^(?:°|degrees?|dollars?)$/.test(unit)) return '';
  return unit.length > 3 ? unit.replace(/s$/, '') : unit;
}

function readWord(text: string): AnswerValue | undefined {
  const [, opened, letter, closed] = /^(\(?)([a-zA-Z])(\)?)$/.exec(text) ?? [];
  if (letter !== undefined && (opened === '' || closed === ')'))
    return { kind: 'letter', letter, form: closed === ')' ? 'brackets' : 'alone' };
  // (B) 42, B. 42, B) 42, but not (A)(B)
  const choice = /^(?:\(([A-J])\)|([A-J])[).])[^(]/.exec(text);
  if (choice !== null) return { kind: 'letter', letter: (choice[1] ?? choice[2]) as string, form: 'text' };
  // single letters are variables: p-q is no word
  if (/^[a-zA-Z]{2,}(?:[ '-][a-zA-Z]{2,})*$/.test(text)) return { kind: 'word', word: text.toLowerCase() };
  return undefined;
}
