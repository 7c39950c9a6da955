// One trace's raw field values in, the checked `Trace` out.

import type { Rejection } from '../errors.js';
import type { Reference, Trace } from '../trace.js';
import { describeKeys, describeValue } from './describe.js';
import type { Field, Needs } from './map.js';
import { parseReferences } from './references.js';
import type { InputRow } from './rows.js';

/** A field's value in one trace and where it came from. */
export interface Cell {
  /** the path, for messages */
  readonly path: string;
  /** undefined where a list's item lacks it */
  readonly value: unknown;
  /** named by `--map`, as against found under its default name */
  readonly isMapped: boolean;
  /** from an item of an exploded list, so the trace's own */
  readonly isItem: boolean;
}

export type Cells = ReadonlyMap<Field, Cell>;

/** Why a row or a trace does not map; never leaves the mapping. */
export class Mismatch extends Error implements Rejection {
  readonly code: string;
  readonly reason: string;
  /** the trace's own id where it got that far */
  id: string | undefined;

  constructor(code: string, reason: string) {
    super(reason);
    this.code = code;
    this.reason = reason;
  }
}

/** The names a trace has by default, and its place in a row that holds several. */
export interface TracePlace {
  readonly id: string;
  readonly group?: string;
  readonly index?: number;
}

/**
 * Builds one trace.
 * @throws Mismatch naming path, found and expected
 */
export function buildTrace(row: InputRow, cells: Cells, place: TracePlace, needs: Needs): Trace {
  const id = parseId(cells, place);
  try {
    for (const [field, { path, value }] of cells) {
      if (value === undefined) throw new Mismatch('map', `${field}: ${path} is not in item ${place.index}`);
    }
    const group = name(cells, 'group') ?? place.group;
    const promptIds = int32List(cells, 'prompt_ids', 'ids');
    const completionIds = int32List(cells, 'completion_ids', 'ids');
    const segmentEnds = int32List(cells, 'segment_ends', 'map');
    const segmentCharEnds = int32List(cells, 'segment_char_ends', 'map');
    const completion = text(row, cells, 'completion', completionIds === undefined);
    if (completionIds === undefined ? completion === '' : completionIds.length === 0) {
      const field = completionIds === undefined ? 'completion' : 'completion_ids';
      throw new Mismatch('empty_completion', `${field}: ${cells.get(field)?.path ?? field} is empty`);
    }
    return {
      id,
      ...(group === undefined ? {} : { group }),
      prompt: text(row, cells, 'prompt', needs.prompt && promptIds === undefined),
      completion,
      ...(promptIds === undefined ? {} : { promptIds }),
      ...(completionIds === undefined ? {} : { completionIds }),
      ...(segmentEnds === undefined ? {} : { segmentEnds }),
      ...(segmentCharEnds === undefined ? {} : { segmentCharEnds }),
      references: references(row, cells, needs.references),
      reward: reward(cells),
      // the row itself: a columnar one makes its text only when asked
      source: row,
    };
  } catch (error) {
    if (error instanceof Mismatch) error.id = id;
    throw error;
  }
}

function parseId(cells: Cells, place: TracePlace): string {
  const id = name(cells, 'id');
  if (id === undefined) return place.id;
  // an id of the row stands for all its traces, so each gets its number
  return place.index === undefined || cells.get('id')?.isItem ? id : `${id}/${place.index}`;
}

// an id or a group: text or a number; nothing, null or empty text is no name
function name(cells: Cells, field: 'id' | 'group'): string | undefined {
  const { path = field, value } = cells.get(field) ?? {};
  if (value === undefined || value === null || value === '') return undefined;
  if (typeof value === 'string') return value;
  if (typeof value === 'bigint' || (typeof value === 'number' && Number.isFinite(value)))
    return String(value);
  throw new Mismatch('map', `${field}: ${path} is ${describeValue(value)}, expected text or a number`);
}

function text(row: InputRow, cells: Cells, field: 'prompt' | 'completion', isNeeded: boolean): string {
  const cell = cells.get(field);
  const value = cell?.value;
  if (typeof value === 'string') return value;
  const isAbsent = value === undefined || value === null;
  // what nobody asked for and nobody needs may look as it likes
  if (!isNeeded && (isAbsent || cell?.isMapped !== true)) return '';
  const found = isAbsent
    ? `no "${cell?.path ?? field}" in the row (${describeKeys(row.columns)})`
    : `${cell?.path} is ${describeValue(value)}, expected text`;
  throw new Mismatch('map', `${field}: ${found}: use --map ${field}=<path>`);
}

const MAX_INT32 = 2 ** 31 - 1;

function int32List(cells: Cells, field: Field, code: 'ids' | 'map'): Int32Array | undefined {
  const { path = field, value } = cells.get(field) ?? {};
  if (value === undefined || value === null) return undefined;
  const expected = 'expected a list of whole numbers from 0 to 2147483647';
  if (!Array.isArray(value))
    throw new Mismatch(code, `${field}: ${path} is ${describeValue(value)}, ${expected}`);
  const ids = new Int32Array(value.length);
  for (let i = 0; i < value.length; i++) {
    const item: unknown = value[i];
    if (!(Number.isInteger(item) && (item as number) >= 0 && (item as number) <= MAX_INT32)) {
      throw new Mismatch(code, `${field}: ${path}[${i}] is ${describeValue(item)}, ${expected}`);
    }
    ids[i] = item as number;
  }
  return ids;
}

function references(row: InputRow, cells: Cells, isNeeded: boolean): readonly Reference[] {
  const cell = cells.get('reference');
  const parsed = parseReferences(cell?.value);
  if ('problem' in parsed) {
    if (!isNeeded && cell?.isMapped !== true) return [];
    throw new Mismatch(
      'map',
      `reference: ${cell?.path}${parsed.problem.startsWith('[') ? '' : ': '}${parsed.problem}`,
    );
  }
  if (parsed.length === 0 && isNeeded) {
    const found =
      cell === undefined ? `none in the row (${describeKeys(row.columns)})` : `${cell.path} is empty`;
    throw new Mismatch('no_reference', `reference: ${found}: use --map reference=<path>`);
  }
  return withSolution(parsed, cells.get('solution'));
}

function withSolution(parsed: readonly Reference[], cell: Cell | undefined): readonly Reference[] {
  const solution = cell?.value;
  const [only, ...others] = parsed;
  if (only === undefined || solution === undefined || solution === null) return parsed;
  if (typeof solution === 'string' && others.length === 0) {
    return only.solution === undefined ? [{ ...only, solution }] : parsed;
  }
  // a column that merely happens to be called `solution` is no promise
  if (cell?.isMapped !== true) return parsed;
  const found =
    typeof solution === 'string' ? `one text for ${parsed.length} references` : describeValue(solution);
  throw new Mismatch(
    'map',
    `solution: ${cell.path} is ${found}, expected text for a single reference: use {answer, solution} references`,
  );
}

function reward(cells: Cells): number | null {
  const { path = 'reward', value } = cells.get('reward') ?? {};
  if (value === undefined || value === null || Number.isNaN(value)) return null;
  if (typeof value === 'boolean') return value ? 1 : 0;
  if (typeof value === 'bigint') return Number(value);
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  throw new Mismatch(
    'reward',
    `reward: ${path} is ${describeValue(value)}, expected a number, true, false or null`,
  );
}
