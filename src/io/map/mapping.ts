// Finds out how the inputs' rows become traces: `--preset`, `--map`, `--join` and the first row in, the field map out.
import { usageError } from '../../errors.js';
import { didYouMean } from '../../flag-values.js';
import { describeKeys } from '../../printable.js';
import type { InputRow } from '../../rows.js';
import { stringifyJson } from '../arrow/json.js';
import { type Input, peekRows, type ReadRows, resolveInputs } from '../read/inputs.js';
import { SOLUTIONS, STEPS } from './datasets.js';
import {
  type Columns,
  type FieldMap,
  type FieldPath,
  type FieldSource,
  fieldSources,
  parseFieldMap,
  parsePath,
  valueAt,
  withSources,
} from './fields.js';
import {
  JOINS,
  type JoinKey,
  type JoinPreset,
  joinedColumns,
  NAMED_FIELDS,
  openJoin,
  PREFIX,
} from './join.js';
import { locate } from './map.js';
import { lastQuestion } from './messages.js';
import { PLAIN_ROWS } from './plain-rows.js';
import type { Preset } from './preset.js';
import { DUMPS } from './trainers.js';

/** The flags that say where the fields of a trace are. */
export interface MappingOptions {
  readonly map: string | undefined;
  /** `auto`, `none` or a name */
  readonly preset: string;
  /** a file with the prompts or answers that the rows lack */
  readonly join?: string | undefined;
  readonly joinOn?: string | undefined;
  /** columns of the joined file that are written */
  readonly joinColumns?: readonly string[] | undefined;
  readonly maxLineBytes?: number | undefined;
}

export interface Mapping {
  readonly map: FieldMap;
  /** false where the inputs have no row that can be read */
  readonly hasRow: boolean;
  /** columns of the first row that can be read */
  readonly first: Columns;
  /** undefined where fields are taken by their names */
  readonly choice: Choice | undefined;
  readonly join: { readonly name: string; readonly on: string; readonly rows: string } | undefined;
  readonly read: ReadRows;
  /** what the output's metadata and a resumed run have to agree on */
  readonly config: Readonly<Record<string, unknown>>;
}

/** Looks at the first row of the inputs, and reads the joined file. */
export async function resolveMapping(inputs: readonly Input[], opts: MappingOptions): Promise<Mapping> {
  const idle = opts.joinOn !== undefined ? '--join-on' : opts.joinColumns && '--join-columns';
  if (idle !== undefined && opts.join === undefined)
    throw usageError(`${idle} has no meaning here`, 'add --join <file>');
  const asked = parseFieldMap(opts.map); // a wrong one is told before anything is read
  const { first, read } = await peekRows(inputs, opts.maxLineBytes);
  const row = { hasRow: first !== undefined, first: first?.columns ?? {} };
  const choice = choosePreset(opts.preset, first?.columns);
  const config = { map: opts.map, preset: choice?.preset.name ?? 'none', joinColumns: opts.joinColumns };
  const map = withSources(asked, choice === undefined ? [] : [fieldSources(choice.preset.fields())]);
  const joined = opts.join === undefined ? undefined : await resolveJoin(opts.join, map, opts);
  const join = joined?.about;
  return { map: joined?.map ?? map, ...row, choice, join, read, config: join ? { ...config, join } : config };
}

async function resolveJoin(
  path: string,
  map: FieldMap,
  { joinOn, joinColumns = [], maxLineBytes }: MappingOptions,
): Promise<{ map: FieldMap; about: NonNullable<Mapping['join']> }> {
  if (path === '-') throw usageError('--join -: stdin is for traces', '--join <file>');
  const inputs = await resolveInputs([path]);
  const { first, read } = await peekRows(inputs, maxLineBytes);
  if (first === undefined) throw usageError(`${path}: no row in it, expected prompts or answers`);
  const found = JOINS.find((each) => fits(each, first.columns));
  const key = joinOn === undefined ? promptKey(map, found) : fieldKey(joinOn);
  if (key === undefined)
    throw usageError(
      `${path}: is not a data set that --join knows (${describeKeys(first.columns)}), expected ${JOINS.map(({ what }) => what).join('; ')}`,
      '--join-on field=field, the first one of the traces, the second of the joined file',
    );
  const whole = withSources(map, [fieldSources(found?.fields ?? NAMED_FIELDS, `${PREFIX}.`), map.defaults]);
  const keep = joinedColumns([...whole.mapped.values(), ...whole.defaults.values()].flat());
  for (const column of joinColumns) {
    if (!Object.hasOwn(first.columns, column))
      throw usageError(
        `--join-columns ${column}: ${path} has no such column (${describeKeys(first.columns)})`,
        `--join-columns ${didYouMean(column, Object.keys(first.columns)) ?? '<a,b>'}`,
      );
    keep.add(column);
  }
  if (!Object.keys(first.columns).some((column) => keep.has(column)))
    throw usageError(
      `${path}: none of its columns is used (${describeKeys(first.columns)})`,
      '--map reference=join.<column>',
    );
  const kept = { file: path, key, keep, written: joinColumns };
  const { join, sha256 } = await openJoin(read({ maxLineBytes }), kept);
  return {
    map: { ...whole, join },
    about: { name: found?.name ?? 'a file of its own form', on: key.text, rows: sha256 },
  };
}

/** The joined file's question has to stand in the trace's prompt. */
function promptKey(map: FieldMap, found: JoinPreset | undefined): JoinKey | undefined {
  if (found === undefined) return undefined;
  const sources = map.mapped.get('prompt') ?? map.defaults.get('prompt') ?? [];
  return {
    text: `${found.keyText} in the prompt`,
    isWithin: true,
    ofPartner: found.key,
    ofRow: (row) => promptText(row, sources),
  };
}

function promptText(row: InputRow, sources: readonly FieldSource[]): string | undefined {
  const { value } = locate(row, 'prompt', sources) ?? {};
  return typeof value === 'string' ? value : lastQuestion(value);
}

/** `--join-on field=field`: two paths, the first one into the trace's row; a single one stands for both. */
function fieldKey(joinOn: string): JoinKey {
  const [left = '', right = left, ...more] = joinOn.split('=').map((part) => part.trim());
  const paths = [left, right].map((text) => {
    try {
      return parsePath(text);
    } catch {
      return undefined;
    }
  }) as [FieldPath, FieldPath];
  if (more.length > 0 || paths.some((path) => path === undefined || path.tail !== undefined))
    throw usageError(
      `--join-on ${joinOn}: is not field=field`,
      '--join-on problem=question, paths as in --map',
    );
  return {
    text: `${left} = ${right}`,
    isWithin: false,
    ofRow: (row) => keyAt(row.columns, paths[0]),
    ofPartner: (columns) => keyAt(columns, paths[1]),
  };
}

function keyAt(columns: Columns, path: FieldPath): string | undefined {
  const value = valueAt(columns, path) ?? undefined;
  return value === undefined || typeof value === 'string' ? value : stringifyJson(value);
}

// ------ all presets, and which of them a file is

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
    return found && { preset: found, why: `the first row has ${found.columns.join(', ') || found.what}` };
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
