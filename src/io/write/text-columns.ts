// `--text`: whether the traces' texts are written as columns of ours, and in which column a reader finds them.

import { TEXT_COLUMNS, type TextColumn } from '../arrow/output-columns.js';
import type { PassThroughColumn } from '../arrow/schema.js';
import { isDialogue } from '../map/dialogue.js';
import type { FieldMap } from '../map/sources.js';

/** `--text`, `--no-text`; undefined: only a text that no written column of the input holds. */
export type TextChoice = boolean | undefined;

/** What a written column of the input holds, as far as a reader of texts cares. */
export type Holding = 'text' | 'messages' | undefined;

/** How paths into the joined file begin. */
const JOINED = 'join.';

/** The columns of ours that are written, and for each text the column of the output that holds it. */
export interface Texts {
  readonly ours: readonly TextColumn[];
  /** columns of the input, or of the joined file, that hold a text */
  readonly held: Readonly<Partial<Record<TextColumn, { readonly name: string; readonly isJoined: boolean }>>>;
}

/**
 * Decides for each text that may be written. A file without metadata (JSONL) cannot say that another column holds it, so there only a column
 * of the text's own name counts. A prompt of messages counts as there, unless `--text` asks for what they were rendered to.
 * @param holding what the written columns of the input, or of the joined file, hold
 */
export function chooseTexts(
  possible: readonly TextColumn[],
  choice: TextChoice,
  map: FieldMap,
  holding: (column: string, isJoined: boolean) => Holding,
  hasMetadata: boolean,
): Texts {
  const held: { -readonly [column in TextColumn]?: { name: string; isJoined: boolean } } = {};
  const ours = TEXT_COLUMNS.filter((column) => {
    const [source, ...others] = map.mapped.get(column) ?? map.defaults.get(column) ?? [];
    const path = source?.text ?? '';
    // every trace has a partner; of several places in a row it is not always the same one
    const isJoined = path.startsWith(JOINED);
    const name = isJoined ? path.slice(JOINED.length) : path;
    const found = isJoined || others.length === 0 ? holding(name, isJoined) : undefined;
    const isHeld = found === 'text' || (found === 'messages' && column === 'prompt' && choice !== true);
    if (isHeld) held[column] = { name, isJoined };
    if (choice === false || !possible.includes(column)) return false;
    const isNamed = name === column || (hasMetadata && choice !== true);
    return !(isHeld && isNamed);
  });
  return { ours, held };
}

/** What columns with types hold. */
export function holdingOfTypes(columns: readonly PassThroughColumn[]): (column: string) => Holding {
  const types = new Map(columns.map(({ name, type }) => [name, type]));
  return (column) => {
    const type = types.get(column);
    if (type?.kind === 'string') return 'text';
    const element = type?.kind === 'list' ? type.element : undefined;
    const hasRole = element?.kind === 'struct' && element.fields.some(({ name }) => name === 'role');
    return hasRole ? 'messages' : undefined;
  };
}

/** The same of columns without types, by their values in the first row. */
export function holdingOfValues(columns: Readonly<Record<string, unknown>>): (column: string) => Holding {
  return (column) => {
    const value = Object.hasOwn(columns, column) ? columns[column] : undefined;
    return typeof value === 'string' ? 'text' : isDialogue(value) ? 'messages' : undefined;
  };
}
