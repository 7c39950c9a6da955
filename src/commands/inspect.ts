// `rredcot inspect`: one row of a file as the program sees it: preset, trace, what is missing; scored rows as they were scored.

import { dataError, EXIT, type ExitCode, usageError } from '../errors.js';
import { STORED } from '../estimate/credit-flags.js';
import { type Mapping, type MappingOptions, resolveMapping } from '../io/map/mapping.js';
import { resolveInputs } from '../io/read/inputs.js';
import { plural } from '../plural.js';
import { printableJson } from '../printable.js';
import { drawInspection, forPrograms, hasTrace, inspectRow } from '../report/inspect-view.js';
import { drawShown } from '../report/trace-view.js';
import { type BadRow, type InputRow, isBad } from '../rows.js';
import { terminalNotice } from '../run/source.js';
import { type Picked, parseWhere, pickTrace } from '../scored/choose.js';
import { openScored } from '../scored/open-scored.js';
import { shownFile, shownRecord, shownTrace } from './shown.js';

export interface InspectOptions extends MappingOptions {
  /** a row's number, or a trace's id; the first row that can be read where absent */
  readonly row: string | undefined;
  /** the worst trace of a scored file, where no row is named */
  readonly worst: boolean;
  /** of those that fit all of these */
  readonly where: readonly string[];
  /** all segments and whole texts */
  readonly all: boolean;
  readonly json: boolean;
  readonly isColored: boolean;
  /** columns of the terminal */
  readonly width: number;
  readonly signal: AbortSignal;
}

/** @returns exit code 65 where the row is no trace that `score` would take */
export async function inspect(
  path: string,
  opts: InspectOptions,
  write: (text: string) => void,
): Promise<ExitCode> {
  const inputs = await resolveInputs([path]);
  const notice = terminalNotice([path]);
  if (notice !== undefined) process.stderr.write(`${notice}\n`);
  const mapping = await resolveMapping(inputs, opts);
  const picked = await pickedOf(path, opts);
  const { row, id } =
    picked === undefined
      ? await findRow(mapping, opts)
      : { row: await rowAt(picked.ordinal, mapping), id: undefined };
  const isGiven = opts.map !== undefined || opts.preset !== 'auto' || opts.join !== undefined;
  const file = await shownFile(inputs, row.file, mapping, isGiven);
  const shown = isBad(row) ? undefined : shownTrace(row, file, picked?.why);
  if (shown !== undefined && !opts.json) {
    write(`${drawShown(shown, opts).join('\n')}\n`);
    return EXIT.done;
  }
  const found = inspectRow(row, id, mapping);
  if (opts.json) {
    const scored = shown === undefined ? {} : { scored: shownRecord(shown, row as InputRow) };
    write(`${printableJson(JSON.stringify({ ...(forPrograms(found) as object), ...scored }))}\n`);
  } else write(`${drawInspection(found).join('\n')}\n`);
  return found.rejected === null || shown !== undefined ? EXIT.done : EXIT.data;
}

/** The row that was asked for by what it is. */
async function pickedOf(
  path: string,
  { row, worst, where, signal }: InspectOptions,
): Promise<Picked | undefined> {
  if (!worst && where.length === 0) return undefined;
  if (row !== undefined)
    throw usageError('--row names a row, and --worst and --where look for one', 'leave out --row');
  const source = await openScored(path, STORED);
  const conditions = where.map((text) => parseWhere(text, path, source));
  return pickTrace(source, worst, conditions, signal);
}

async function rowAt(ordinal: number, { read }: Mapping): Promise<InputRow | BadRow> {
  for await (const row of read({ wanted: (n) => n === ordinal })) if (row.ordinal === ordinal) return row;
  throw new Error(`there is no row ${ordinal} any more`);
}

/** The row that was asked for, and the trace's id where that was asked for. */
async function findRow(
  { read, map }: Mapping,
  { row: asked, maxLineBytes }: InspectOptions,
): Promise<{ row: InputRow | BadRow; id: string | undefined }> {
  const isNumber = asked !== undefined && /^\d+$/.test(asked);
  const id = isNumber ? undefined : asked;
  let rows = 0;
  for await (const row of read({ maxLineBytes })) {
    rows++;
    const isTrace = row.kind === 'row' && (id === undefined || hasTrace(row, id, map));
    if (isNumber ? row.row === Number(asked) : isTrace) return { row, id };
  }
  if (asked === undefined && rows === 0)
    throw dataError('there are no rows in the input', 'name a file or folder that has some');
  if (asked === undefined) throw dataError(`none of ${plural(rows, 'row')} can be read`, '--row 0 says why');
  throw usageError(
    `--row ${asked}: no such row or id in ${plural(rows, 'row')}`,
    '--row <number from 0, or id of a trace>',
  );
}
