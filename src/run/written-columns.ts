// `--columns`: which columns a command writes beside the input's.
import { usageError } from '../errors.js';
import { type ColumnChoice, isWritten } from '../io/arrow/output-columns.js';
import { STDIN } from '../io/files/files.js';
import type { Columns } from '../io/map/fields.js';
import type { Input } from '../io/read/inputs.js';
import { shellWord } from '../printable.js';
import { isTextColumn, kindOf, OUR_COLUMNS, type OurColumn, TEXT_COLUMNS } from '../scored/columns.js';

/** What `score` writes. */
export const SCORE_COLUMNS = OUR_COLUMNS.filter((name) => name !== 'finish_reason');

/**
 * `--columns a,b`, in the order in which they are always written; undefined where the flag is not given.
 * @throws RredcotError (exit 2) for a name that is none of ours, or one twice
 */
export function parseColumns(text: string | undefined): readonly OurColumn[] | undefined {
  if (text === undefined) return undefined;
  const names = text.split(',').map((name) => {
    const found = OUR_COLUMNS.find((ours) => ours === name.trim());
    if (found === undefined)
      throw usageError(
        `--columns ${text}: "${name.trim()}" is none of our columns (the input's are always written, and so are those that another flag asks for, as token_advantage or sigma_rudder)`,
        `--columns with some of ${OUR_COLUMNS.join(',')}`,
      );
    return found;
  });
  const double = names.find((name, n) => names.indexOf(name) < n);
  if (double !== undefined)
    throw usageError(`--columns ${text}: ${double} stands there twice`, 'name it once');
  return OUR_COLUMNS.filter((name) => names.includes(name));
}

/** A list of names. @throws RredcotError (exit 2) for an empty one */
export function parseNames(flag: string, text: string): readonly string[] {
  const names = text.split(',').map((name) => name.trim());
  if (names.includes('')) throw usageError(`${flag} ${text}: expected names of columns`, `${flag} a,b`);
  return [...new Set(names)];
}

/** `--keep` and `--drop`. */
export function parseColumnChoice(keep: string | undefined, drop: string | undefined): ColumnChoice {
  if (keep !== undefined && drop !== undefined)
    throw usageError('--keep and --drop both say which columns are written', 'leave one of them out');
  // absent, not undefined: they stand in the configuration
  if (keep !== undefined) return { keep: parseNames('--keep', keep) };
  return drop === undefined ? {} : { drop: parseNames('--drop', drop) };
}

/**
 * The columns that a command writes, chosen or all it has, and the texts that may be written besides, where no column of the input holds them.
 * @throws RredcotError (exit 2) for a column that the command does not write
 */
export function chosenColumns(all: readonly OurColumn[], chosen: readonly OurColumn[] | undefined) {
  const absent = chosen?.find((name) => !all.includes(name));
  if (absent !== undefined)
    throw usageError(
      `--columns ${absent}: this command does not write it`,
      `--columns with some of ${all.join(',')}`,
    );
  if (chosen !== undefined) return { columns: chosen, texts: [] };
  return {
    columns: all.filter((column) => !isTextColumn(column)),
    texts: TEXT_COLUMNS.filter((column) => all.includes(column)),
  };
}

/** What a trace is made of, and the same in every run. */
const OF_TRACES: readonly OurColumn[] = [
  ...(['id', 'group', 'prompt', 'completion', 'prompt_ids', 'completion_ids'] as const),
  ...(['completion_mask', 'reward'] as const),
];

/** undefined where the row was not scored, or nothing of that is written again */
export function scoredAlready(
  inputs: readonly Input[],
  first: Columns,
  choice: ColumnChoice,
): string | undefined {
  const made = OUR_COLUMNS.filter(
    (name) => !OF_TRACES.includes(name) && Object.hasOwn(first, name) && isWritten(choice, name),
  );
  if (kindOf(first) !== 'scored' || made.length === 0) return undefined;
  const path = inputs.length === 1 ? inputs[0]?.path : undefined;
  const file = path === undefined || path === STDIN ? '<file>' : shellWord(path);
  return `${path ?? 'the input'}: was scored already: rredcot redistribute ${file} gives another credit without a policy; here what that has made is kept as input_<name>, without it: --drop ${made.join(',')}`;
}
