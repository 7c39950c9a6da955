// An input row and the field map in, the traces it holds out.

import { EXIT, RredcotError } from '../errors.js';
import type { Reference, Trace } from '../trace.js';
import { describeKeys, describeValue } from './describe.js';
import { fileStem } from './inputs.js';
import { type FieldPath, parsePath, resolvePath } from './path.js';
import { parseReferences } from './references.js';
import { type BadRow, type InputRow, rejectRow } from './rows.js';

/** The fields that `--map` can point at a path of the row. */
export const FIELDS = [
  'id',
  'group',
  'prompt',
  'completion',
  'prompt_ids',
  'completion_ids',
  'reference',
  'solution',
  'reward',
  'segment_ends',
  'segment_char_ends',
] as const;

export type Field = (typeof FIELDS)[number];

/** Where each field is in a row. */
export interface FieldMap {
  /** the fields that `--map` named: their paths have to be there */
  readonly mapped: ReadonlyMap<Field, FieldPath>;
  /** all others, looked for under their own names */
  readonly defaults: ReadonlyMap<Field, readonly FieldPath[]>;
}

/** What a command cannot do without. */
export interface Needs {
  readonly prompt: boolean;
  readonly references: boolean;
}

/**
 * Parses the value of `--map`: `field=path,…`.
 * @throws RredcotError for an unknown field, a field named twice or a malformed path
 */
export function parseFieldMap(spec: string | undefined): FieldMap {
  const mapped = new Map<Field, FieldPath>();
  for (const entry of (spec ?? '').split(',')) {
    if (entry.trim() === '' && (spec ?? '').trim() === '') continue;
    const [, field, text] = /^\s*([^=\s]+)\s*=\s*(.+?)\s*$/.exec(entry) ?? [];
    if (field === undefined || text === undefined) fail(`"${entry}" is not field=path`);
    if (!isField(field)) fail(`unknown field "${field}"`);
    if (mapped.has(field)) fail(`field "${field}" is mapped twice`);
    try {
      mapped.set(field, parsePath(text));
    } catch (error) {
      fail(`path "${text}" of field "${field}" is malformed: ${(error as Error).message}`);
    }
  }
  const defaults = new Map<Field, readonly FieldPath[]>();
  for (const field of FIELDS) {
    const names = field === 'reference' ? ['reference', 'references', 'answer'] : [field];
    if (!mapped.has(field)) defaults.set(field, names.map(parsePath));
  }
  return { mapped, defaults };
}

function isField(name: string): name is Field {
  return (FIELDS as readonly string[]).includes(name);
}

function fail(problem: string): never {
  throw new RredcotError(`--map: ${problem}`, {
    exitCode: EXIT.usage,
    hint: `--map prompt=question,completion=generations[].text; fields: ${FIELDS.join(', ')}`,
  });
}

/** Yields a row's traces in order; a trace, or a whole row, that does not fit comes out as a `BadRow`. */
export function* mapRow(row: InputRow, map: FieldMap, needs: Needs): Generator<Trace | BadRow> {
  const rowId = `${fileStem(row.file)}:${row.row}`;
  let values: RowValues;
  try {
    values = findValues(row, map);
  } catch (error) {
    yield rejectRow(row, asMismatch(error), rowId);
    return;
  }
  for (let index = 0; index < values.traces; index++) {
    const trace = new TraceFields(row, values, index, map);
    const id = values.explodes ? `${rowId}/${index}` : rowId;
    try {
      yield buildTrace(trace, values.explodes ? { id, group: rowId, index } : { id }, needs);
    } catch (error) {
      yield rejectRow(row, asMismatch(error), trace.idOr(id));
    }
  }
}
