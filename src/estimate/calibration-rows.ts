// Rows that a calibration is fitted to: whose values a file has, whether it has what is needed, and a trace as the fit takes it.

import { isDeepStrictEqual } from 'node:util';
import { usageError } from '../errors.js';
import type { Config } from '../io/write/output.js';
import type { OurColumn } from '../scored/columns.js';
import type { OutputRow } from '../scored.js';
import { storedStates } from './calibrated.js';
import { type FitTrace, groupPlace } from './calibration-fit.js';
import { storedNature } from './registry.js';
import { type Base, type ColumnFeature, stateFeatures } from './states.js';

/** Columns without which nothing can be fitted. */
const NEEDED: readonly OurColumn[] = ['segments', 'logprobs', 'reward', 'id'];
const OF_REFERENCES = ['reference_logprobs', 'reference_tokens', 'reference_utilities'] as const;
/** Further ones, by whose values are calibrated. */
const NEEDED_OF: Readonly<Record<Base, readonly OurColumn[]>> = {
  pr: OF_REFERENCES,
  ask: [...OF_REFERENCES, 'entropies'],
  none: ['entropies'],
};

/** A trace as the fit takes it, or why it does not. */
export function fitTraceOf(row: OutputRow, further: readonly ColumnFeature[], base: Base): FitTrace | string {
  const { reward, trace } = row;
  if (reward === null) return 'its reward is unknown';
  if (!(reward >= 0 && reward <= 1)) return `its reward is ${reward}, expected 0 to 1`;
  const states = storedStates(row, further, base);
  if (typeof states === 'string') return states;
  const features = stateFeatures(states, further, base);
  // what a trace is left out with: its group, or itself
  return { features, reward: Math.fround(reward), place: groupPlace(trace.group ?? trace.id) };
}

/** Whose values a file has, where it is one of those that are calibrated. */
export const WHOSE: Readonly<Record<Base, string>> = {
  pr: 'of references',
  ask: 'of ask',
  none: 'of neither',
};

/** Whose values are to be calibrated: of a file that says nothing of its estimator `pr`, where nothing was scored none. */
function baseOf(config: Config | undefined): Base | undefined {
  const nature = config && storedNature(config);
  if (nature === undefined) return 'pr';
  if (nature.scores === 'questions') return 'ask';
  if (nature.scores === 'nothing') return nature.isOfRow ? undefined : 'none';
  return nature.scores === 'answers' && !nature.isOfProver ? 'pr' : undefined;
}

/**
 * @returns whose values it has
 * @throws RredcotError (exit 2) for a file that has not what is needed, or v̂ of another kind
 */
export function baseOfFile(
  path: string,
  columns: readonly string[] | undefined,
  config: Config | undefined,
  further: readonly ColumnFeature[],
): Base {
  const base = baseOf(config);
  const needed = [...NEEDED, ...NEEDED_OF[base ?? 'pr']];
  const missing = columns === undefined ? [] : needed.filter((name) => !columns.includes(name));
  if (missing.length > 0)
    throw usageError(
      `${path}: has no column ${missing.join(', ')}, expected a file of score`,
      `score without --columns, or with --columns ${needed.join(',')},group`,
    );
  const absent = columns && further.find(({ column }) => !columns.includes(column));
  if (absent !== undefined)
    throw usageError(
      `${path}: has no column ${absent.column} (--features ${absent.name})`,
      'score rows that have it, or --join <file> --join-on id --join-columns <its name there>',
    );
  if (base === undefined)
    throw usageError(
      `${path}: was scored with --estimator ${config?.estimator}, expected one that scores answers at exit points, or asks there, or scores nothing`,
      'score with --estimator pr',
    );
  return base;
}

/** One thing that files say of how they were made, or leave unsaid. @param what as in "does not say which policy scored it" @param other as in "by another policy" */
export function agreement<T>(what: string, other: string) {
  let first: { readonly own: T | null; readonly path: string } | undefined;
  let isMixed = false;
  return {
    /** @returns what is to be told of a file that differs from the first, and of one that is silent where others are not */
    add(own: T | null, path: string): string | undefined {
      first ??= { own, path };
      if (isDeepStrictEqual(first.own, own)) return undefined;
      isMixed = true;
      const silent = own === null ? path : first.own === null ? first.path : undefined;
      return silent === undefined
        ? `${path}: was scored ${other} than the files before it`
        : `${silent}: does not say ${what}, as other files do: nobody can tell whether it is the same`;
    },
    /** null where files differ, or one says nothing */
    common: (): T | null => (isMixed ? null : (first?.own ?? null)),
  };
}
