// All presets, and which of them a file is.

import { usageError } from '../../errors.js';
import { didYouMean } from '../../flag-values.js';
import { SOLUTIONS, STEPS } from './datasets.js';
import type { Columns } from './fields.js';
import type { Preset } from './preset.js';
import { DUMPS, PLAIN_ROWS } from './trainers.js';

/** In the order in which they are tried: what more files look like comes later. */
export const PRESETS: readonly Preset[] = [...DUMPS, ...STEPS, ...SOLUTIONS, ...PLAIN_ROWS];

export const PRESET_NAMES: readonly string[] = [...new Set(PRESETS.map(({ name }) => name))];

export interface Choice {
  readonly preset: Preset;
  readonly why: string;
}

export function fits({ columns: names, fits }: Pick<Preset, 'columns' | 'fits'>, columns: Columns): boolean {
  return names.every((name) => Object.hasOwn(columns, name)) && (fits?.(columns) ?? true);
}

/**
 * Finds the preset of a file.
 * @param asked `auto`, `none` or a name
 * @param first the columns of the first row; undefined where there is none
 * @returns undefined where fields are taken by their names
 * @throws RredcotError (exit 2) for a name that no preset has
 */
export function choosePreset(asked: string, first: Columns | undefined): Choice | undefined {
  if (asked === 'none') return undefined;
  if (asked === 'auto') {
    const found = first && PRESETS.find((preset) => fits(preset, first));
    return found && { preset: found, why: `the first row has ${found.columns.join(', ')}` };
  }
  const named = PRESETS.filter(({ name }) => name === asked);
  const preset = named.find((each) => first !== undefined && fits(each, first)) ?? named[0];
  if (preset === undefined) {
    const meant = didYouMean(asked, PRESET_NAMES);
    throw usageError(
      `--preset ${asked}: no such preset${meant === undefined ? '' : `, did you mean ${meant}?`}`,
      `--preset auto, none, ${PRESET_NAMES.join(', ')}; a data set of prompts and answers is given with --join`,
    );
  }
  const lacking = preset.columns.filter((name) => first === undefined || !Object.hasOwn(first, name));
  return {
    preset,
    why: lacking.length === 0 ? '--preset' : `--preset, though the first row has no ${lacking.join(', ')}`,
  };
}
