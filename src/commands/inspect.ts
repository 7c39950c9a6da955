// `rredcot inspect`: one row of a file as the program sees it: preset, trace, what is missing; scored rows as they were scored.
import { dataError, EXIT, type ExitCode, usageError } from '../errors.js';
import { valueNameOf } from '../estimate/estimators.js';
import { explodes } from '../io/map/field-map.js';
import { foundPlaces, mapRow } from '../io/map/map.js';
import { mapText, proposePaths } from '../io/map/propose.js';
import type { Field, FieldMap } from '../io/map/sources.js';
import { JOINS } from '../io/presets/joins.js';
import { fits } from '../io/presets/presets.js';
import { type Input, inputMetadata, resolveInputs } from '../io/read/inputs.js';
import { CONFIG_KEY, TEXT_KEY } from '../io/write/output.js';
import { plural } from '../plural.js';
import { printableJson } from '../printable.js';
import { drawInspection, type Inspection, type Missing } from '../report/inspect-view.js';
import { isScored, scoredRow } from '../report/scored-row.js';
import { terminalNotice } from '../report/terminal-input.js';
import { drawTrace } from '../report/trace-view.js';
import type { BadRow, InputRow } from '../rows.js';
import type { Trace } from '../trace.js';
import { type Mapping, type MappingOptions, resolveMapping } from './job/mapping.js';

export interface InspectOptions extends MappingOptions {
  /** a row's number, or a trace's id; the first row that can be read where absent */
  readonly row: string | undefined;
  readonly json: boolean;
  readonly colours: boolean;
  /** columns of the terminal */
  readonly width: number;
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
  const { row, id } = await findRow(mapping, opts);
  const found = inspectRow(row, id, mapping);
  const metadata = await metadataOf(inputs, row);
  const scored = row.kind === 'row' ? scoredRow(row, scoredText(row, metadata, mapping, found)) : undefined;
  const valueName = valueNameOf(metadataObject(metadata, CONFIG_KEY).estimator);
  if (opts.json) write(`${printableJson(JSON.stringify(forPrograms(found)))}\n`);
  else if (scored !== undefined) write(`${drawTrace(scored, { ...opts, valueName })}\n`);
  else write(`${drawInspection(found).join('\n')}\n`);
  return found.rejected === null || scored !== undefined ? EXIT.done : EXIT.data;
}

async function metadataOf(
  inputs: readonly Input[],
  { file }: InputRow | BadRow,
): Promise<ReadonlyMap<string, string>> {
  const input = inputs.find(({ path }) => path === file);
  return input === undefined ? new Map() : inputMetadata(input);
}

/** The completion in a scored row: where the file says, else in the column of that name, else where the preset finds it. */
function scoredText(
  { columns }: InputRow,
  metadata: ReadonlyMap<string, string>,
  { map }: Mapping,
  { trace }: Inspection,
): string {
  const { completion: name = 'completion' } = metadataObject(metadata, TEXT_KEY);
  const text = columns[String(name)];
  if (typeof text === 'string') return text;
  // a list of the input's has the texts of other traces too
  return explodes(map) ? '' : (trace?.completion ?? '');
}

function metadataObject(metadata: ReadonlyMap<string, string>, key: string): Record<string, unknown> {
  try {
    return JSON.parse(metadata.get(key) ?? '{}') as Record<string, unknown>;
  } catch {
    // another program's metadata may be anything
    return {};
  }
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

function tracesOf(row: InputRow, map: FieldMap): (Trace | (BadRow & { id: string }))[] {
  return [...mapRow(row, map, NOTHING_NEEDED)].map((each) =>
    'kind' in each ? { ...each, id: each.id ?? '' } : each,
  );
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
  if (row.kind === 'bad')
    return {
      ...about,
      columns: [],
      fields: {},
      traces: 0,
      index: 0,
      trace: null,
      rejected: row.rejection,
      missing: [],
      proposal: undefined,
    };
  const traces = tracesOf(row, map);
  const index = Math.max(0, id === undefined ? 0 : traces.findIndex((each) => each.id === id));
  const shown = traces[index] as Trace | BadRow;
  const scoreable = [...mapRow(row, map, ALL_NEEDED)][index] as Trace | BadRow;
  const trace = 'kind' in shown ? null : shown;
  return {
    ...about,
    columns: Object.keys(row.columns),
    fields: Object.fromEntries(foundPlaces(row, map)),
    traces: traces.length,
    index,
    trace,
    rejected: 'kind' in scoreable ? scoreable.rejection : null,
    missing: trace === null ? noTrace(row) : missingOf(trace),
    proposal: proposalOf(row, map, trace),
  };
}

/** A data set without traces is of use beside one that has them. */
function noTrace({ columns }: InputRow): Missing[] {
  const found = JOINS.find((each) => fits(each, columns));
  return found === undefined
    ? []
    : [
        {
          field: 'traces',
          what: `it looks like ${found.what}, prompts and answers`,
          flag: 'give it with --join, beside the traces',
        },
      ];
}

const PROPOSED = ['prompt', 'completion', 'reference', 'reward', 'group'] as const satisfies readonly Field[];

/** A `--map` for what was not found, where other columns look like it. */
function proposalOf(row: InputRow, map: FieldMap, trace: Trace | null): string | undefined {
  const found = foundPlaces(row, map);
  const hasGroup = trace?.group !== undefined;
  const lacking = PROPOSED.filter((field) => !found.has(field) && !(field === 'group' && hasGroup));
  return mapText(proposePaths(row.columns, lacking, found.get('completion')));
}

function missingOf(trace: Trace): Missing[] {
  const missing: Missing[] = [];
  const add = (isMissing: boolean, field: string, what: string, flag: string) => {
    if (isMissing) missing.push({ field, what, flag });
  };
  add(
    trace.prompt.length === 0 && trace.promptIds === undefined,
    'prompt',
    'score needs one',
    '--map prompt=<path>, or --join <file>',
  );
  add(
    trace.references.length === 0,
    'references',
    'score needs the right answer',
    `--map reference=<path>, or --join <file>${
      trace.group === undefined ? '' : ', or --bank group where rewards are known'
    }`,
  );
  add(
    trace.reward === null,
    'reward',
    "the trace's own answer will be compared with the references",
    '--map reward=<path>',
  );
  add(trace.group === undefined, 'group', 'the baseline will be v̂ at the start', '--map group=<path>');
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
