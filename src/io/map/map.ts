// Makes traces of an input row by the field map.

import { plural } from '../../plural.js';
import { describeKeys, describeValue } from '../../printable.js';
import { type BadRow, type InputRow, isBad, rejectRow } from '../../rows.js';
import type { Trace } from '../../trace.js';
import {
  type Columns,
  FIELDS,
  type Field,
  type FieldMap,
  type FieldSource,
  type Join,
  Mismatch,
  type Needs,
  parseFieldMap,
  resolvePath,
  withSources,
} from './fields.js';
import { pick } from './join.js';
import { mapFlag, mapText, proposePaths } from './propose.js';
import { buildTrace, type Cell, type FieldCells } from './trace-fields.js';

/** What a row of the inputs comes to: its traces, or itself where it is rejected. @param check asked of a row of which a trace goes on */
export function rowTraces(
  row: InputRow | BadRow,
  map: FieldMap,
  needs: Needs,
  check: (row: InputRow) => void,
): readonly (Trace | BadRow)[] {
  if (isBad(row)) return [row];
  const found = [...mapRow(row, map, needs)];
  if (!found.every(isBad)) check(row);
  return found;
}

/** Yields a row's traces in order; a trace, or a whole row, that does not fit comes out as a `BadRow`. */
export function* mapRow(
  row: InputRow,
  map: FieldMap,
  needs: Needs,
  isTrial = false,
): Generator<Trace | BadRow> {
  const reject = (error: Mismatch, id: string) =>
    rejectRow(row, isTrial ? error : withTriedHint(row, error, map, needs), id);
  const rowId = `${row.stem}:${row.row}`;
  const { join, unpadded = (trace: Trace) => trace } = map;
  const found = attempt(() => {
    const whole = joined(row, join);
    return { ...findCells(whole, map), partner: whole.columns.join as Columns };
  });
  if (found instanceof Mismatch) return yield reject(found, rowId);
  const written = join?.written.map(({ name }) => name) ?? [];
  for (const [index, cells] of found.traces.entries()) {
    // completions of one prompt share a group
    const place = found.explodes ? { id: `${rowId}/${index}`, index, group: rowId } : { id: rowId };
    const trace = attempt(() => unpadded(buildTrace(row, cells, place, needs)));
    if (trace instanceof Mismatch) yield reject(trace, trace.id ?? place.id);
    else yield written.length === 0 ? trace : { ...trace, joined: pick(found.partner, written) };
  }
}

/** A `--map` in a reason that helps the row, or none for its field. */
function withTriedHint(row: InputRow, error: Mismatch, map: FieldMap, needs: Needs): Mismatch {
  const { code, reason } = error;
  const [flag, , paths = ''] = /--map ('?)(\w+=[^<>']+)\1/.exec(reason) ?? [];
  if (flag === undefined || helps(row, paths, map, needs)) return error;
  return new Mismatch(code, reason.replace(flag, `--map ${reason.split(/[:,]/, 1)}=<path>`));
}

/** Whether a row, or a trace of it, is rejected for none of the fields that a `--map` names. */
export function helps(
  row: InputRow,
  paths: string,
  { mapped, defaults, join }: FieldMap,
  needs: Needs,
): boolean {
  const own = parseFieldMap(paths).mapped;
  const both = withSources({ mapped: new Map([...mapped, ...own]), join }, [defaults]);
  return [...mapRow(row, both, needs, true)].every((trace) => {
    const { code, reason } = isBad(trace) ? trace.rejection : { code: 'map', reason: '' };
    return ['map', 'no_reference'].includes(code) && !own.has(reason.split(/[:,]/, 1)[0] as Field);
  });
}

function attempt<T>(action: () => T): T | Mismatch {
  try {
    return action();
  } catch (error) {
    if (error instanceof Mismatch) return error;
    throw error;
  }
}

function joined(row: InputRow, join: Join | undefined): InputRow {
  return join ? { ...row, columns: { ...row.columns, join: join.partnerOf(row) } } : row;
}

/** Where fields of a row were found, as paths and rules spell it: those that were; none of them where one is not as it should be. */
export function foundPlaces(
  row: InputRow,
  map: FieldMap,
  fields: readonly Field[] = FIELDS,
): ReadonlyMap<Field, string> {
  const places = attempt(() => {
    const whole = joined(row, map.join);
    return [...map.mapped, ...map.defaults].flatMap(([field, sources]) => {
      const place = fields.includes(field) ? locate(whole, field, sources) : undefined;
      return isThere(place) ? [[field, place.path] as const] : [];
    });
  });
  return new Map(places instanceof Mismatch ? [] : places);
}

type Spot = { readonly path: string; readonly value?: unknown; readonly items?: readonly unknown[] };

const isThere = (place: Spot | undefined): place is Spot => (place?.items ?? place?.value ?? null) !== null;

/** The first place whose value is not null; else the first that is there; else undefined. */
export function locate(row: InputRow, field: Field, sources: readonly FieldSource[]): Spot | undefined {
  let empty: Spot | undefined;
  for (const source of sources) {
    const place = look(row, field, source);
    if (isThere(place)) return place;
    empty ??= place;
  }
  return empty;
}

function look(row: InputRow, field: Field, source: FieldSource): Spot | undefined {
  const path = source.text;
  if ('each' in source) {
    const value = source.value(row);
    return source.each ? { path, items: value as readonly unknown[] } : { path, value };
  }
  const { noList, ...found } = resolvePath(row.columns, source);
  if (noList === undefined)
    return (found.items ?? found.value) === undefined ? undefined : { path, ...found };
  throw new Mismatch(
    'map',
    `${field}: ${path} leads to ${describeValue(noList)}, expected a list: use ${mapFlag(`${field}=${path.replace('[]', '')}`)}`,
  );
}

// the fields' values for each trace of the row; several exploding paths go hand in hand
function findCells(row: InputRow, map: FieldMap): { explodes: boolean; traces: readonly FieldCells[] } {
  const shared: [Field | 'prompt_text', Cell][] = [];
  const lists: { field: Field; path: string; isMapped: boolean; values: readonly unknown[] }[] = [];
  for (const [field, sources] of [...map.mapped, ...map.defaults]) {
    const isMapped = map.mapped.has(field);
    const place = locate(row, field, sources);
    if (place === undefined) {
      if (!isMapped) continue;
      const found = `no "${sources.map(({ text }) => text).join('|')}" in the row`;
      const other = mapText(proposePaths(row.columns, [field])) ?? `--map ${field}=<path>`;
      throw new Mismatch('map', `${field}: ${found} (${describeKeys(row.columns)}): use ${other}`);
    }
    const { path } = place;
    if (place.items) lists.push({ field, path, isMapped, values: place.items });
    else if (isMapped || isThere(place))
      shared.push([field, { path, value: place.value, isMapped, isItem: false }]);
  }

  const shown = map.join && shownPrompt(row, map);
  const [first, ...others] = lists;
  if (shown !== undefined) shared.push(['prompt_text', shown]);
  if (first === undefined) return { explodes: false, traces: [new Map(shared)] };
  const count = first.values.length;
  const other = others.find(({ values }) => values.length !== count);
  if (other !== undefined) {
    const lengths = `${first.path} has ${plural(count, 'item')} and ${other.path} ${other.values.length}`;
    throw new Mismatch('map', `${first.field}, ${other.field}: ${lengths}, expected as many`);
  }
  if (count === 0)
    throw new Mismatch('map', `${first.field}: ${first.path} is an empty list, no trace in the row`);
  const traces = Array.from({ length: count }, (_, index) => {
    const items = lists.map(({ field, path, isMapped, values }) => {
      return [field, { path, value: values[index], isMapped, isItem: true }] as const;
    });
    return new Map([...shared, ...items]);
  });
  return { explodes: true, traces };
}

/** The text that a row shows of a prompt whose messages the join gives: with it they can be checked. */
function shownPrompt(row: InputRow, { mapped, defaults }: FieldMap): Cell | undefined {
  const sources = mapped.get('prompt') ?? defaults.get('prompt') ?? [];
  const place = locate(row, 'prompt', sources);
  if (!Array.isArray(place?.value)) return undefined;
  const others = sources.filter(({ text }) => text !== place.path);
  const { path = '', value } = locate(row, 'prompt', others) ?? {};
  return typeof value === 'string' ? { path, value, isMapped: false, isItem: false } : undefined;
}
