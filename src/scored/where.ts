// `--where`: parses a condition that is then asked of every scored trace.

import { storedValues } from '../credit/credit.js';
import type { Nature } from '../credit/nature.js';
import { SIGMA_RULES } from '../credit/rules.js';
import { usageError } from '../errors.js';
import { didYouMean } from '../flag-values.js';
import { mean } from '../report/run-counts.js';
import { type OutputRow, withoutShown } from '../scored.js';
import type { OurColumn } from './columns.js';
import { mayBeStatus, STATUS_CODES } from './status-codes.js';

/** What a figure is for a trace: a number, words of which one has to fit, or nothing. */
type TraceFigure = number | readonly string[] | null;

interface NamedFigure {
  /** columns that it is made of */
  readonly needs: readonly OurColumn[];
  readonly of: (row: OutputRow, nature: Nature) => TraceFigure;
}

const VALUES = ['segments', 'value_start'] as const;

/** Figures of a trace's values. @param figure null where it has none */
const ofValues = (figure: (values: Float32Array) => number): NamedFigure => ({
  needs: VALUES,
  of: (row, nature) => figure(storedValues(row, nature)),
});
const ofSigma = (figure: (sigma: Float32Array) => number): NamedFigure => ({
  needs: ['sigma'],
  of: ({ sigma }) => (sigma === null ? null : figure(sigma)),
});
const lowest = (list: Float32Array): number =>
  list.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY);
const highest = (list: Float32Array): number =>
  list.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
/** v̂ after each exit less that before. */
const steps = (values: Float32Array): Float32Array =>
  values.subarray(1).map((value, k) => value - (values[k] as number));

/** What a condition may ask for; docs/output.md explains each. */
export const FIGURES: Readonly<Record<string, NamedFigure>> = {
  id: { needs: ['id'], of: (row) => [row.trace.id] },
  group: { needs: ['group'], of: (row) => (row.trace.group === undefined ? null : [row.trace.group]) },
  status: { needs: ['status'], of: (row) => (row.status.length === 0 ? ['ok'] : row.status) },
  reward: { needs: ['reward'], of: (row) => row.reward },
  baseline: { needs: ['baseline'], of: (row) => row.baseline },
  advantage: {
    needs: ['reward', 'baseline'],
    of: ({ reward, baseline }) => (reward === null || baseline === null ? null : reward - baseline),
  },
  tokens: { needs: ['segments'], of: ({ segments }) => segments.at(-1)?.end ?? null },
  segments: {
    needs: ['segments'],
    of: (row) => row.segments.filter(({ kind }) => kind === 'thought').length,
  },
  value_start: ofValues((values) => values[0] as number),
  value_end: ofValues((values) => values[values.length - 1] as number),
  value_min: ofValues(lowest),
  value_max: ofValues(highest),
  value_range: ofValues((values) => highest(values) - lowest(values)),
  value_drop: ofValues((values) => Math.max(0, -Math.min(0, lowest(steps(values))))),
  value_rise: ofValues((values) => Math.max(0, highest(steps(values)))),
  disagreement: {
    needs: [...VALUES, 'reward'],
    of: (row, nature) => {
      const { reward } = row;
      if (reward === null || nature.noLevel !== undefined) return null;
      return lowest(storedValues(row, nature).map((value) => Math.abs(value - reward)));
    },
  },
  sigma_ess: { needs: ['sigma_ess'], of: (row) => row.sigmaEss },
  sigma_max_weight: { needs: ['sigma_max_weight'], of: (row) => row.sigmaMaxWeight },
  sigma_gain: { needs: ['sigma_gain'], of: (row) => row.sigmaGain },
  sigma_min: ofSigma((sigma) => lowest(sigma) * sigma.length),
  sigma_max: ofSigma((sigma) => highest(sigma) * sigma.length),
  sigma_negative: ofSigma((sigma) => sigma.filter((s) => s < 0).length / sigma.length),
  mean_logprob: { needs: ['logprobs'], of: (row) => mean(row.logprobs) },
  mean_entropy: { needs: ['entropies'], of: (row) => mean(row.entropies) },
};

/** A condition, as it was given and as it is asked. */
export interface Condition {
  readonly text: string;
  /** whether a trace stays; a figure that it lacks fits nothing */
  readonly holds: (trace: OutputRow) => boolean;
}

const EXAMPLE = "--where 'status == ok' --where 'value_range >= .05 or reward == 0'";
const COMPARISON = /^([A-Za-z_]+)\s*(==|!=|<=|>=|<|>)\s*(\S.*)$/s;
/** A value in quotes, which is passed over whatever is in it, or what joins two comparisons. */
const QUOTED_OR_JOINT = /[=<>]\s*(?:"[^"]*"|'[^']*')(?=\s|$)|\s+(and|or)\s+/g;

/**
 * Reads a condition: comparisons joined by `and` and `or`, of which `and` binds first; in quotes they are text.
 * @throws RredcotError (exit 2) for what is no comparison, a figure that nobody knows, and one whose columns the file lacks
 */
export function parseWhere(
  text: string,
  path: string,
  { ours, credit }: { readonly ours: readonly OurColumn[]; readonly credit: { readonly estimator: Nature } },
): Condition {
  const alternatives = alternativesOf(text.trim()).map((all) =>
    all.map((each) => comparison(each.trim(), text, path, ours)),
  );
  return {
    text,
    holds: (row) => {
      const own = withoutShown(row);
      return alternatives.some((all) => all.every((fits) => fits(own, credit.estimator)));
    },
  };
}

/** The comparisons of a condition: any of the lists, of a list all. */
function alternativesOf(text: string): string[][] {
  const lists: string[][] = [];
  let [all, from]: [string[], number] = [[], 0];
  for (const { 0: found, 1: joint, index } of text.matchAll(QUOTED_OR_JOINT)) {
    if (joint === undefined) continue;
    all.push(text.slice(from, index));
    from = index + found.length;
    if (joint === 'and') continue;
    lists.push(all);
    all = [];
  }
  return [...lists, [...all, text.slice(from)]];
}

type RowTest = (row: OutputRow, nature: Nature) => boolean;

function comparison(text: string, whole: string, path: string, ours: readonly OurColumn[]): RowTest {
  const [, name, sign, given] = COMPARISON.exec(text) ?? [];
  if (name === undefined || sign === undefined || given === undefined)
    throw usageError(
      `--where ${whole}: "${text}" is no comparison, expected <figure> <sign> <value> with one of == != < <= > >=`,
      `${EXAMPLE}; a value with "and" or "or" in it stands in quotes: --where 'id == "this and that"'`,
    );
  if (/^(["'])(?!.*\1\s*$)|^["']$/s.test(given))
    throw usageError(`--where ${whole}: the quote of ${given} is not closed`, EXAMPLE);
  const figure = Object.hasOwn(FIGURES, name) ? FIGURES[name] : undefined;
  if (figure === undefined) {
    const meant = didYouMean(name, Object.keys(FIGURES));
    throw usageError(
      `--where ${whole}: no figure is called "${name}"${meant === undefined ? '' : `, did you mean ${meant}?`}`,
      `figures: ${Object.keys(FIGURES).join(', ')}`,
    );
  }
  const missing = figure.needs.filter((column) => !ours.includes(column));
  if (missing.length > 0)
    throw usageError(
      `--where ${whole}: ${name} needs ${missing.join(', ')}, which ${path} has not`,
      'score with these among --columns',
    );
  const isWord = name === 'id' || name === 'group' || name === 'status';
  return isWord ? words(figure, name, sign, given, whole) : numbers(figure, name, sign, given, whole);
}

/** Words are equal or not; `uniform:*` is any that begins so. */
function words({ of }: NamedFigure, name: string, sign: string, given: string, whole: string): RowTest {
  if (sign !== '==' && sign !== '!=')
    throw usageError(`--where ${whole}: ${name} is text, expected == or !=`, EXAMPLE);
  const word = given.replace(/^(['"])(.*)\1$/s, '$2');
  // with != a code that no row can have keeps everything
  if (name === 'status' && !mayBeStatus(word, SIGMA_RULES)) {
    const meant = didYouMean(word, STATUS_CODES);
    throw usageError(
      `--where ${whole}: no status is "${word}"${meant === undefined ? '' : `, did you mean ${meant}?`}`,
      `statuses: ${STATUS_CODES.join(', ')}`,
    );
  }
  const isOne = (found: string) =>
    word.endsWith('*') ? found.startsWith(word.slice(0, -1)) : found === word;
  return (row, nature) => {
    const found = of(row, nature) as readonly string[] | null;
    return found !== null && found.some(isOne) === (sign === '==');
  };
}

const SIGNS: Readonly<Record<string, (a: number, b: number) => boolean>> = {
  '==': (a, b) => a === b,
  '!=': (a, b) => a !== b,
  '<': (a, b) => a < b,
  '<=': (a, b) => a <= b,
  '>': (a, b) => a > b,
  '>=': (a, b) => a >= b,
};

function numbers({ of }: NamedFigure, name: string, sign: string, given: string, whole: string): RowTest {
  // figures are stored as float32: .3 is what .3 was stored as
  const number = Number(given);
  if (!Number.isFinite(number))
    throw usageError(`--where ${whole}: ${name} is a number, and "${given}" is none`, EXAMPLE);
  const bound = sign === '==' || sign === '!=' ? Math.fround(number) : number;
  const compare = SIGNS[sign] as (a: number, b: number) => boolean;
  return (row, nature) => {
    const found = of(row, nature) as number | null;
    return found !== null && compare(sign === '==' || sign === '!=' ? Math.fround(found) : found, bound);
  };
}
