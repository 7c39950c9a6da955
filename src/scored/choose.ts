// Chooses among scored traces: by the conditions of `--where`, and the one whose value fell the most.

import { storedValues } from '../credit/credit.js';
import type { Nature } from '../credit/nature.js';
import { dataError, throwIfInterrupted, usageError } from '../errors.js';
import { plural } from '../plural.js';
import { isBad } from '../rows.js';
import { type OutputRow, withoutShown } from '../scored.js';
import { isStatus, STATUS_CODES } from './check-row.js';
import type { OurColumn } from './columns.js';
import { type ScoredFiles, storedTrace } from './open-scored.js';

/** A number, words of which one has to fit, or nothing. @property needs columns that it is made of */
type NamedFigure = { readonly needs: readonly OurColumn[] } & (
  | { readonly of: (row: OutputRow, nature: Nature) => number | readonly string[] | null }
  | { readonly ofValues: (values: Float32Array) => number }
);

const VALUES = ['segments', 'value_start'] as const;

const lowest = (list: Float32Array): number => list.reduce((a, b) => Math.min(a, b), Infinity);
const highest = (list: Float32Array): number => list.reduce((a, b) => Math.max(a, b), -Infinity);
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
  value_start: { needs: VALUES, ofValues: (values) => values[0] as number },
  value_end: { needs: VALUES, ofValues: (values) => values[values.length - 1] as number },
  value_range: { needs: VALUES, ofValues: (values) => highest(values) - lowest(values) },
  value_drop: { needs: VALUES, ofValues: (values) => Math.max(0, -Math.min(0, lowest(steps(values)))) },
  value_rise: { needs: VALUES, ofValues: (values) => Math.max(0, highest(steps(values))) },
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
  sigma_negative: {
    needs: ['sigma'],
    of: ({ sigma }) => sigma && sigma.filter((s) => s < 0).length / sigma.length,
  },
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
const WORDS = ['id', 'group', 'status'];

const SIGNS: Readonly<Record<string, (a: number, b: number) => boolean>> = {
  // figures are stored as float32: .3 is what .3 was stored as
  '==': (a, b) => Math.fround(a) === Math.fround(b),
  '!=': (a, b) => Math.fround(a) !== Math.fround(b),
  '<': (a, b) => a < b,
  '<=': (a, b) => a <= b,
  '>': (a, b) => a > b,
  '>=': (a, b) => a >= b,
};

/**
 * Reads a condition: comparisons joined by `and` and `or`, of which `and` binds first.
 * @throws RredcotError (exit 2) for what is no comparison, a figure that nobody knows, and one whose columns the file lacks
 */
export function parseWhere(
  text: string,
  path: string,
  { ours, credit }: { readonly ours: readonly OurColumn[]; readonly credit: { readonly estimator: Nature } },
): Condition {
  const refused = (why: string, hint = EXAMPLE) => usageError(`--where ${text}: ${why}`, hint);
  const test = (each: string) => {
    const [, name = '', sign = '', written = ''] = COMPARISON.exec(each.trim()) ?? [];
    // as in SQL and Python: the quotes are none of the word's
    const given = written.replace(/^(["'])(.*)\1$/s, '$2');
    if (sign === '')
      throw refused(
        `"${each}" is no comparison, expected <figure> <sign> <value> with one of == != < <= > >=`,
      );
    const figure = Object.hasOwn(FIGURES, name) ? FIGURES[name] : undefined;
    if (figure === undefined)
      throw refused(`no figure is called "${name}"`, `figures: ${Object.keys(FIGURES).join(', ')}`);
    const missing = figure.needs.filter((column) => !ours.includes(column));
    if (missing.length > 0)
      throw refused(
        `${name} needs ${missing.join(', ')}, which ${path} has not`,
        'score with these among --columns',
      );
    const isWord = WORDS.includes(name);
    if (isWord && sign !== '==' && sign !== '!=') throw refused(`${name} is text, expected == or !=`);
    if (!isWord && !Number.isFinite(Number(given)))
      throw refused(`${name} is a number, and "${given}" is none`);
    // with != a code that no row can have keeps everything
    if (name === 'status' && !isStatus(given))
      throw refused(`no status is "${given}"`, `statuses: ${STATUS_CODES.join(', ')}`);
    return (row: OutputRow) => {
      const { estimator } = credit;
      const found =
        'of' in figure ? figure.of(row, estimator) : figure.ofValues(storedValues(row, estimator));
      if (found === null) return false;
      if (typeof found === 'number') return SIGNS[sign]?.(found, Number(given)) === true;
      // `uniform:*` is any that begins so
      const isOne = (word: string) =>
        given.endsWith('*') ? word.startsWith(given.slice(0, -1)) : word === given;
      return found.some(isOne) === (sign === '==');
    };
  };
  const alternatives = text.split(/\s+or\s+/).map((all) => all.split(/\s+and\s+/).map(test));
  const holds = (row: OutputRow) => {
    const own = withoutShown(row);
    return alternatives.some((all) => all.every((fits) => fits(own)));
  };
  return { text, holds };
}

/** null of nothing */
export function mean(list: Float32Array | null): number | null {
  return list === null || list.length === 0 ? null : list.reduce((sum, x) => sum + x, 0) / list.length;
}

/** Changes of a value below this are what rounding leaves. */
export const NOTHING = 0.0005;

/**
 * What the thought segments changed: v̂ after each less v̂ before it; of what has no sign of its own, with the sign of R*.
 * @param isMagnitude the estimator's differences are magnitudes, whatever their sign
 */
export function changesOf(
  { segments, reward, baseline }: Pick<OutputRow, 'segments' | 'reward' | 'baseline'>,
  isMagnitude: boolean,
): { readonly segment: number; readonly change: number }[] {
  const outcome = Math.sign((reward ?? 0.5) - (baseline ?? 0.5));
  return segments.flatMap(({ kind, delta }, segment) => {
    if (kind !== 'thought' || delta === null) return [];
    return [{ segment, change: isMagnitude ? outcome * Math.abs(delta) : delta }];
  });
}

/** The largest rise and the largest fall, both ≥ 0. @param isMagnitude as of {@link changesOf} */
export function extremes(row: OutputRow, isMagnitude: boolean) {
  const changes = changesOf(row, isMagnitude).map(({ change }) => change);
  return { rise: Math.max(0, ...changes), fall: Math.max(0, ...changes.map((change) => -change)) };
}

/** A row's number over all inputs, and why it is this one. */
export interface Picked {
  readonly ordinal: number;
  readonly why: string;
}

/**
 * Reads a file through, holding one row of it.
 * @param isWorst the one whose value fell the most in one segment, wrong traces before right ones, the first of equal ones; else the first that fits
 * @throws RredcotError (exit 65) where none fits
 */
export async function pickTrace(
  source: ScoredFiles,
  isWorst: boolean,
  conditions: readonly Condition[],
  signal: AbortSignal,
): Promise<Picked> {
  const magnitude = source.credit.estimator.isMagnitude === true;
  let worst: (Picked & { readonly isWrong: boolean; readonly moved: number }) | undefined;
  let traces = 0;
  for await (const row of source.read({})) {
    throwIfInterrupted(signal);
    const trace = isBad(row) ? row : storedTrace(row, source);
    if (isBad(trace)) continue;
    traces++;
    if (!conditions.every(({ holds }) => holds(trace))) continue;
    const { ordinal } = row;
    if (!isWorst) return { ordinal, why: 'the first that fits' };
    const { fall } = extremes(trace, magnitude);
    const moved = fall > NOTHING ? fall : 0;
    const isWrong = trace.reward !== null && trace.reward <= 0.5;
    if (worst !== undefined && (isWrong === worst.isWrong ? moved <= worst.moved : worst.isWrong)) continue;
    const what = `${trace.reward === null ? '' : isWrong ? 'wrong ' : 'right '}trace`;
    const how = magnitude
      ? 'of which one segment counts for the most'
      : 'whose value fell the most in one segment';
    const why = moved > 0 ? `the ${what} ${how}` : `the first ${what}; the value of none fell`;
    worst = { ordinal, why, isWrong, moved };
  }
  if (worst !== undefined) return worst;
  throw dataError(
    `none of ${plural(traces, 'trace')} fits`,
    conditions.length > 0 ? 'another --where' : 'rredcot verify tells what is wrong with the file',
  );
}
