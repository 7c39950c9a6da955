// An input row and the field map in, the traces it holds out.

import { EXIT, RredcotError } from '../errors.js';
import type { Trace } from '../trace.js';
import { describeKeys, describeValue } from './describe.js';
import { type FieldPath, parsePath, resolvePath } from './path.js';
import { type BadRow, type InputRow, rejectRow } from './rows.js';
import { buildTrace, type Cell, type Cells, Mismatch } from './trace-fields.js';

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
  if (row.trace === undefined) return yield* tracesOf(row, map, needs);
  const traces = [...tracesOf(row, map, needs)];
  // the row was turned down for one of its traces, the others are in the output; or as a whole, under the row's id
  const own = traces.filter(({ id }) => id === row.trace);
  yield* own.length > 0 ? own : traces;
}

function* tracesOf(row: InputRow, map: FieldMap, needs: Needs): Generator<Trace | BadRow> {
  const rowId = `${row.stem}:${row.row}`;
  const found = attempt(() => findCells(row, map));
  if (found instanceof Mismatch) {
    yield rejectRow(row, found, rowId);
    return;
  }
  for (const [index, cells] of found.traces.entries()) {
    const place = found.explodes ? { id: `${rowId}/${index}`, group: rowId, index } : { id: rowId };
    const trace = attempt(() => buildTrace(row, cells, place, needs));
    yield trace instanceof Mismatch ? rejectRow(row, trace, trace.id ?? place.id) : trace;
  }
}

function attempt<T>(action: () => T): T | Mismatch {
  try {
    return action();
  } catch (error) {
    if (error instanceof Mismatch) return error;
    throw error;
  }
}

// the fields' values for each trace of the row; several exploding paths go hand in hand
function findCells(row: InputRow, map: FieldMap): { explodes: boolean; traces: readonly Cells[] } {
  const shared: [Field, Cell][] = [];
  const lists: { field: Field; path: string; values: readonly unknown[] }[] = [];
  for (const [field, path] of map.mapped) {
    const found = resolvePath(row.columns, path);
    switch (found.kind) {
      case 'one':
        shared.push([field, { path: path.text, value: found.value, isMapped: true, isItem: false }]);
        break;
      case 'each':
        lists.push({ field, path: path.text, values: found.items.map((item) => item?.value) });
        break;
      case 'no list':
        throw new Mismatch(
          'map',
          `${field}: ${path.text} leads to ${describeValue(found.value)}, expected a list`,
        );
      case 'missing':
        throw new Mismatch(
          'map',
          `${field}: no "${path.text}" in the row (${describeKeys(row.columns)}): use --map ${field}=<path>`,
        );
    }
  }
  for (const [field, paths] of map.defaults) {
    for (const path of paths) {
      const value = row.columns[path.text];
      if (!Object.hasOwn(row.columns, path.text) || value === null) continue;
      shared.push([field, { path: path.text, value, isMapped: false, isItem: false }]);
      break;
    }
  }

  const [first, ...others] = lists;
  if (first === undefined) return { explodes: false, traces: [new Map(shared)] };
  const count = first.values.length;
  const other = others.find(({ values }) => values.length !== count);
  if (other !== undefined) {
    const lengths = `${first.path} has ${count} items and ${other.path} ${other.values.length}`;
    throw new Mismatch('map', `${first.field}, ${other.field}: ${lengths}, expected as many`);
  }
  if (count === 0)
    throw new Mismatch('map', `${first.field}: ${first.path} is an empty list, no trace in the row`);
  const traces = Array.from({ length: count }, (_, index) => {
    const items = lists.map(({ field, path, values }) => {
      return [field, { path, value: values[index], isMapped: true, isItem: true }] as const;
    });
    return new Map([...shared, ...items]);
  });
  return { explodes: true, traces };
}
