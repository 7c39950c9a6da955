// `rredcot inspect`: one row of a file as the program sees it: preset, trace, what is missing; scored rows as they were scored.
import { dataError, EXIT, type ExitCode, usageError } from '../errors.js';
import { STDIN } from '../io/files/files.js';
import { resolveInputs } from '../io/read/inputs.js';
import { plural } from '../plural.js';
import { printableJson } from '../printable.js';
import { drawInspection, forPrograms, hasTrace, inspectRow } from '../report/inspect-view.js';
import type { Log } from '../report/log.js';
import { type Depth, terminalNotice } from '../report/terminal.js';
import { drawShown } from '../report/trace-view.js';
import { type BadRow, type InputRow, isBad } from '../rows.js';
import { type Mapping, type MappingOptions, resolveMapping } from '../run/mapping.js';
import { rewardNote } from '../run/reward-scale.js';
import { openScored } from '../scored/open-scored.js';
import { type Pick, type Picked, pickRow, pickTrace, rowAt } from '../scored/pick.js';
import { isScored } from '../scored/stored-rows.js';
import { parseWhere } from '../scored/where.js';
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
  /** columns of the terminal */
  readonly width: number;
  readonly signal: AbortSignal;
}

/** @returns exit code 65 where the row is no trace that `score` would take */
export async function inspect(
  path: string,
  opts: InspectOptions,
  write: (text: string) => void,
  log: Log,
): Promise<ExitCode> {
  const inputs = await resolveInputs([path]);
  const notice = terminalNotice([path]);
  if (notice !== undefined) process.stderr.write(`${notice}\n`);
  const mapping = await resolveMapping(inputs, opts);
  const picked = await pickedOf(path, mapping, opts, log);
  const { row, id } =
    picked === undefined
      ? await findRow(mapping, opts)
      : { row: (await rowAt(picked.ordinal, mapping.read)) as InputRow, id: undefined };
  const isGiven = opts.map !== undefined || opts.preset !== 'auto' || opts.join !== undefined;
  const file = await shownFile(path, inputs, row.file, mapping, isGiven);
  const shown = isBad(row) ? undefined : await shownTrace(row, file, picked);
  if (shown !== undefined && !opts.json) {
    write(`${drawShown(shown, opts).join('\n')}\n`);
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

/** The row that was asked for by what it is. */
async function pickedOf(
  path: string,
  { first, read }: Mapping,
  { row, pick, where, signal }: InspectOptions,
  log: Log,
): Promise<Picked | undefined> {
  if (pick === undefined && where.length === 0) return undefined;
  if (row !== undefined)
    throw usageError(
      '--row names a row, and --worst, --best, --random and --where look for one',
      'leave out --row',
    );
  // chance asks for no values
  if (pick === 'random' && where.length === 0 && path !== STDIN && !isScored(first))
    return pickRow(read, signal);
  const source = await openScored(path, log);
  const conditions = where.map((text) => parseWhere(text, path, source));
  return pickTrace(source, pick ?? 'first', conditions, signal);
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
