// What stands in the output: our columns, the input's with `--keep` and `--drop`, the joined file's, and the traces' texts.

import { usageError } from '../../errors.js';
import { didYouMean } from '../../similar.js';
import { isTextColumn, type TextColumn, type WrittenColumn } from '../arrow/output-columns.js';
import type { PassThroughColumn } from '../arrow/schema.js';
import type { Columns } from '../map/path.js';
import type { FieldMap } from '../map/sources.js';
import { type ColumnChoice, isWritten } from './column-choice.js';
import { resolveColumnNames } from './column-names.js';
import { TEXT_KEY } from './output.js';
import { chooseTexts, holdingOfTypes, holdingOfValues, type TextChoice, type Texts } from './text-columns.js';

/** The columns of an output. */
export interface OutputLayout {
  readonly ourColumns: readonly WrittenColumn[];
  /** the input's and the joined file's, with their names in the output; of JSONL the latter alone */
  readonly passThrough: readonly PassThroughColumn[];
  /** which columns hold the texts, for the file's metadata */
  readonly metadata: Readonly<Record<string, string>>;
  /** those of them that have another name there */
  readonly renamed: readonly PassThroughColumn[];
}

export interface LayoutOptions {
  /** ours that are written whatever the input has */
  readonly columns: readonly WrittenColumn[];
  /** texts that may be written besides */
  readonly texts: readonly TextColumn[];
  readonly text: TextChoice;
  readonly choice: ColumnChoice;
  readonly rewardAsIs: boolean;
  readonly isSampled?: boolean;
  /** whether the output has column types, and metadata */
  readonly typed: boolean;
}

/**
 * Puts the output's columns together.
 * @param input columns of the input; none where the output has no types, and the first row's count
 * @throws RredcotError (exit 2) for a name in `--keep` or `--drop` that no column has
 */
export function outputLayout(
  input: readonly PassThroughColumn[],
  { map, first }: { readonly map: FieldMap; readonly first: Columns },
  { columns, texts: possible, text, choice, rewardAsIs, isSampled, typed }: LayoutOptions,
): OutputLayout {
  refuseUnknown(choice, typed ? input.map(({ name }) => name) : Object.keys(first));
  const joined = map.join?.written ?? [];
  const written = input.filter(({ name }) => isWritten(choice, name));
  const values = Object.fromEntries(Object.entries(first).filter(([name]) => isWritten(choice, name)));
  const ofInput = typed ? holdingOfTypes(written) : holdingOfValues(values);
  const ofJoined = holdingOfTypes(joined);
  const holding = (name: string, isJoined: boolean) => (isJoined ? ofJoined(name) : ofInput(name));
  const texts = chooseTexts(possible, text, map, holding, typed);
  const ourColumns = [...columns, ...texts.ours];
  const { columns: passThrough, renamed } = resolveColumnNames(
    [...written, ...joined],
    ourColumns,
    map,
    rewardAsIs,
    isSampled,
  );
  return { ourColumns, passThrough, metadata: textMetadata(texts, ourColumns, passThrough), renamed };
}

function textMetadata(
  { held }: Texts,
  ourColumns: readonly WrittenColumn[],
  passThrough: readonly PassThroughColumn[],
): Record<string, string> {
  const ours = ourColumns.filter(isTextColumn);
  const places: Partial<Record<TextColumn, string>> = Object.fromEntries(ours.map((name) => [name, name]));
  for (const [text, { name, isJoined }] of Object.entries(held)) {
    const column = passThrough.find((each) => each.name === name && (each.isJoined ?? false) === isJoined);
    if (column !== undefined) places[text as TextColumn] ??= column.as;
  }
  return Object.keys(places).length === 0 ? {} : { [TEXT_KEY]: JSON.stringify(places) };
}

/** What is kept or dropped by mistake is noticed when the run is over. */
export function refuseUnknown({ keep, drop }: ColumnChoice, names: readonly string[]): void {
  const flag = keep === undefined ? '--drop' : '--keep';
  const unknown = (keep ?? drop ?? []).find((name) => !names.includes(name));
  if (unknown === undefined || names.length === 0) return;
  throw usageError(
    `${flag} ${unknown}: the input has no such column (${names.slice(0, 20).join(', ')})`,
    `${flag} ${didYouMean(unknown, names) ?? '<a,b>'}`,
  );
}
