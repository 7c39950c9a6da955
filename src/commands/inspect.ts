// `rredcot inspect`: one row of a file as the program sees it: preset, trace, what is missing; scored rows as they were scored.
import { dataError, EXIT, type ExitCode, usageError } from '../errors.js';
import { STDIN } from '../io/files/file-bytes.js';
import type { Field, FieldMap } from '../io/map/fields.js';
import { JOINS } from '../io/map/join.js';
import { foundPlaces, mapRow } from '../io/map/map.js';
import { fits } from '../io/map/presets.js';
import { mapText, proposePaths } from '../io/map/propose.js';
import { withHiveKeys } from '../io/read/find-files.js';
import { resolveInputs } from '../io/read/inputs.js';
import { plural } from '../plural.js';
import { printableJson } from '../printable.js';
import { drawInspection, type Inspection, type Missing } from '../report/inspect-view.js';
import type { Log } from '../report/log.js';
import { type Depth, terminalNotice } from '../report/terminal.js';
import { drawShown } from '../report/trace-view.js';
import { type BadRow, type InputRow, isBad } from '../rows.js';
import { type Mapping, type MappingOptions, resolveMapping } from '../run/mapping.js';
import { rewardNote } from '../run/reward-scale.js';
import { openScored } from '../scored/open-scored.js';
import { fitting, type Pick, type Picked, pickRow, pickTrace, rowAt } from '../scored/pick.js';
import { isScored } from '../scored/stored-rows.js';
import { parseWhere } from '../scored/where.js';
import type { Trace } from '../trace.js';
import { browse, type Terminal } from './pager.js';
import { shownFile, shownRecord, shownTrace } from './shown.js';

export interface InspectOptions extends MappingOptions {
  /** a row's number, or a trace's id; the first row that can be read where absent */
  readonly row: string | undefined;
  /** which trace of a scored file, where no row is named */
  readonly pick: Pick | undefined;
  /** of those that fit all of these */
  readonly where: readonly string[];
  /** all segments and whole texts */
  readonly all: boolean;
  readonly json: boolean;
  readonly depth: Depth;
  /** columns of the terminal, asked again where it may have changed */
  readonly width: () => number;
  /** where keys move from trace to trace; undefined where nobody sits there */
  readonly terminal: Terminal | undefined;
  readonly signal: AbortSignal;
}

/** @returns exit code 65 where the row is no trace that `score` would take */
export async function inspect(
  path: string,
  opts: InspectOptions,
  write: (text: string) => void,
  log: Log,
): Promise<ExitCode> {
  const inputs = withHiveKeys(await resolveInputs([path]));
  const notice = terminalNotice([path]);
  if (notice !== undefined) process.stderr.write(`${notice}\n`);
  const mapping = await resolveMapping(inputs, opts);
  const { picked, fits } = (await pickedOf(path, mapping, opts, log)) ?? {};
  const { row, id } =
    picked === undefined
      ? await findRow(mapping, opts)
      : { row: (await rowAt(picked.ordinal, mapping.read)) as InputRow, id: undefined };
  const isGiven = opts.map !== undefined || opts.preset !== 'auto' || opts.join !== undefined;
  const file = await shownFile(path, inputs, row.file, mapping, isGiven);
  const shown = isBad(row) ? undefined : await shownTrace(row, file, picked);
  if (shown !== undefined && !opts.json) {
    if (opts.terminal !== undefined && file.isFile)
      await browse(row as InputRow, shown, file, { ...opts, terminal: opts.terminal, fits });
    else write(`${drawShown(shown, { ...opts, width: opts.width() }).join('\n')}\n`);
    return EXIT.done;
  }
  const isRaw = shown === undefined && inputs.every(({ size }) => size !== null);
  const note = isRaw ? await rewardNote({ inputs, mapping }, opts.signal) : undefined;
  const { missing, ...rest } = inspectRow(row, id, mapping);
  const found = {
    ...rest,
    missing: note === undefined ? missing : [...missing, { field: 'reward', ...note }],
  };
  if (opts.json) {
    const scored = shown === undefined ? {} : { scored: shownRecord(shown, row as InputRow) };
    write(`${printableJson(JSON.stringify({ ...(forPrograms(found) as object), ...scored }))}\n`);
  } else write(`${drawInspection(found).join('\n')}\n`);
  return found.rejected === null || shown !== undefined ? EXIT.done : EXIT.data;
}

/** The row that was asked for by what it is, and the rows among which it was looked for. */
async function pickedOf(
  path: string,
  { first, read }: Mapping,
  { row, pick, where, signal }: InspectOptions,
  log: Log,
): Promise<{ picked: Picked; fits: ((row: InputRow) => boolean) | undefined } | undefined> {
  if (pick === undefined && where.length === 0) return undefined;
  if (row !== undefined)
    throw usageError(
      '--row names a row, and --worst, --best, --random and --where look for one',
      'leave out --row',
    );
  // chance asks for no values
  if (pick === 'random' && where.length === 0 && path !== STDIN && !isScored(first))
    return { picked: await pickRow(read, signal), fits: undefined };
  const source = await openScored(path, log);
  const conditions = where.map((text) => parseWhere(text, path, source));
  const picked = await pickTrace(source, pick ?? 'first', conditions, signal);
  return { picked, fits: conditions.length > 0 ? fitting(source, conditions) : undefined };
}

/** The row that was asked for, and the trace's id where that was asked for. */
async function findRow(
  { read, map }: Mapping,
  { row: asked, maxLineBytes }: InspectOptions,
): Promise<{ row: InputRow | BadRow; id?: string }> {
  let rows = 0;
  for await (const row of read({ maxLineBytes })) {
    rows++;
    if (asked === undefined && row.kind === 'row') return { row };
    if (asked === undefined) continue;
    if (/^\d+$/.test(asked)) {
      if (row.row === Number(asked)) return { row };
    } else if (row.kind === 'row' && hasTrace(row, asked, map)) return { row, id: asked };
  }
  if (asked === undefined && rows === 0)
    throw dataError('there are no rows in the input', 'name a file or folder that has some');
  if (asked === undefined) throw dataError(`none of ${plural(rows, 'row')} can be read`, '--row 0 says why');
  throw usageError(
    `--row ${asked}: no such row or id in ${plural(rows, 'row')}`,
    '--row <number from 0, or id of a trace>',
  );
}

const NOTHING_NEEDED = { prompt: false, references: false };
const ALL_NEEDED = { prompt: true, references: true };

/** Whether a trace of the row, or the scored one, has the id. */
function hasTrace(row: InputRow, id: string, map: FieldMap): boolean {
  if (row.columns.id === id) return true;
  return !isScored(row.columns) && tracesOf(row, map).some((each) => each.id === id);
}

function tracesOf(row: InputRow, map: FieldMap): (Trace | BadRow)[] {
  return [...mapRow(row, map, NOTHING_NEEDED)];
}

function inspectRow(
  row: InputRow | BadRow,
  id: string | undefined,
  { map, choice, join }: Mapping,
): Inspection {
  const preset =
    choice === undefined
      ? null
      : { name: choice.preset.name, what: choice.preset.what, why: choice.why, notes: choice.preset.notes };
  const about = { file: row.file, row: row.row, preset, join: join ?? null };
  const nothing = { columns: [], fields: {}, traces: 0, index: 0, trace: null };
  if (isBad(row)) return { ...about, ...nothing, rejected: row.rejection, missing: [], proposal: undefined };
  const traces = tracesOf(row, map);
  const index = Math.max(0, id === undefined ? 0 : traces.findIndex((each) => each.id === id));
  const shown = traces[index] as Trace | BadRow;
  const scoreable = [...mapRow(row, map, ALL_NEEDED)][index] as Trace | BadRow;
  const trace = isBad(shown) ? null : shown;
  return {
    ...about,
    columns: Object.keys(row.columns),
    fields: Object.fromEntries(foundPlaces(row, map)),
    traces: traces.length,
    index,
    trace,
    rejected: isBad(scoreable) ? scoreable.rejection : null,
    missing: trace === null ? noTrace(row) : missingOf(trace),
    proposal: proposalOf(row, map, trace),
  };
}

/** A data set without traces is of use beside one that has them. */
function noTrace({ columns }: InputRow): Missing[] {
  const found = JOINS.find((each) => fits(each, columns));
  if (found === undefined) return [];
  const what = `it looks like ${found.what}, prompts and answers`;
  return [{ field: 'traces', what, flag: 'give it with --join, beside the traces' }];
}

const PROPOSED = ['prompt', 'completion', 'reference', 'reward', 'group'] as const satisfies readonly Field[];

/** A `--map` for what was not found, where other columns look like it. */
function proposalOf(row: InputRow, map: FieldMap, trace: Trace | null): string | undefined {
  const found = foundPlaces(row, map);
  const hasGroup = trace?.group !== undefined;
  const lacking = PROPOSED.filter((field) => !found.has(field) && !(field === 'group' && hasGroup));
  return mapText(proposePaths(row.columns, lacking, found.get('completion')));
}

function missingOf({ prompt, promptIds, references, reward, group }: Trace): Missing[] {
  const missing: Missing[] = [];
  const add = (field: string, what: string, flag: string) => missing.push({ field, what, flag });
  if (prompt.length === 0 && promptIds === undefined)
    add('prompt', 'score needs one', '--map prompt=<path>, or --join <file>');
  const mates = group === undefined ? '' : ', or --bank group where rewards are known';
  if (references.length === 0)
    add('references', 'score needs the right answer', `--map reference=<path>, or --join <file>${mates}`);
  if (reward === null)
    add('reward', "the trace's own answer will be compared with the references", '--map reward=<path>');
  if (group === undefined) add('group', 'the baseline will be v̂ at the start', '--map group=<path>');
  return missing;
}

/** Without what is only a copy of the row; lists of ids as JSON has them. */
function forPrograms({ trace, ...rest }: Inspection): unknown {
  if (trace === null) return { ...rest, trace };
  const { source: _, promptIds, completionIds, segmentEnds, segmentCharEnds, ...fields } = trace;
  const lists = { promptIds, completionIds, segmentEnds, segmentCharEnds };
  const plain = Object.entries(lists).flatMap(([name, ids]) => (ids === undefined ? [] : [[name, [...ids]]]));
  return { ...rest, trace: { ...fields, ...Object.fromEntries(plain) } };
}
