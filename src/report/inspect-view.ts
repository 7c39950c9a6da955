// One input row: which preset it is of, the trace made of it, what is missing; and how a terminal shows it.
import type { Rejection } from '../errors.js';
import type { Field, FieldMap } from '../io/map/fields.js';
import { JOINS } from '../io/map/join.js';
import { foundPlaces, helps, mapRow } from '../io/map/map.js';
import { fits, type Mapping } from '../io/map/mapping.js';
import { mapText, proposePaths } from '../io/map/propose.js';
import { count, plural } from '../plural.js';
import { escapeControls } from '../printable.js';
import { type BadRow, type InputRow, isBad } from '../rows.js';
import { kindOf } from '../scored/columns.js';
import { type Trace, turnsIn } from '../trace.js';
import { section as lined } from './lines.js';

/** What is to be said of a row. */
export interface Inspection {
  readonly file: string;
  readonly row: number;
  readonly columns: readonly string[];
  /** null where fields are taken by their names */
  readonly preset: {
    readonly name: string;
    readonly what: string;
    readonly why: string;
    readonly notes: readonly string[];
  } | null;
  readonly join: { readonly name: string; readonly on: string } | null;
  /** where each field of the trace was found */
  readonly fields: Readonly<Partial<Record<Field, string>>>;
  /** traces that the row holds, and which of them is shown */
  readonly traces: number;
  readonly index: number;
  readonly trace: Trace | null;
  /** why `score` would not take it */
  readonly rejected: Rejection | null;
  readonly missing: readonly Missing[];
  /** a `--map` for it, of columns that look like it */
  readonly proposal: string | undefined;
}

/** Something that the trace lacks, and the flag that gives it. */
export interface Missing {
  readonly field: string;
  readonly what: string;
  readonly flag: string;
}

const NOTHING_NEEDED = { prompt: false, references: false };
const ALL_NEEDED = { prompt: true, references: true };

/** Whether a trace of the row, or the scored one, has the id. */
export function hasTrace(row: InputRow, id: string, map: FieldMap): boolean {
  if (row.columns.id === id) return true;
  return kindOf(row.columns) !== 'scored' && tracesOf(row, map).some((each) => each.id === id);
}

function tracesOf(row: InputRow, map: FieldMap): (Trace | BadRow)[] {
  return [...mapRow(row, map, NOTHING_NEEDED)];
}

/** What is to be said of a row. @param id of the trace that is meant */
export function inspectRow(
  row: InputRow | BadRow,
  id: string | undefined,
  { map, choice, join }: Mapping,
): Inspection {
  const { name = '', what = '', notes = [] } = choice?.preset ?? {};
  const preset = choice === undefined ? null : { name, what, why: choice.why, notes };
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
  const paths = proposePaths(row.columns, lacking, found.get('completion'));
  const spelled = Array.from(paths, ([field, path]) => `${field}=${path}`).join(',');
  return helps(row, spelled, map, ALL_NEEDED) ? mapText(paths) : undefined;
}

function missingOf({ prompt, promptIds, references, reward, group }: Trace): Missing[] {
  const missing: Missing[] = [];
  const add = (field: string, what: string, flag: string) => missing.push({ field, what, flag });
  if (prompt.length === 0 && promptIds === undefined)
    add('prompt', 'score needs one', '--map prompt=<path>, or --join <file>');
  const peers = group === undefined ? '' : ', or --references group where rewards are known';
  if (references.length === 0)
    add('references', 'score needs the right answer', `--map reference=<path>, or --join <file>${peers}`);
  if (reward === null)
    add('reward', "the trace's own answer will be compared with the references", '--map reward=<path>');
  if (group === undefined) add('group', 'the baseline will be v̂ at the start', '--map group=<path>');
  return missing;
}

/** Without what is only a copy of the row; lists of ids as JSON has them. */
export function forPrograms({ trace, ...rest }: Inspection): unknown {
  if (trace === null) return { ...rest, trace };
  const { source: _, promptIds, completionIds, segmentEnds, segmentCharEnds, ...fields } = trace;
  const lists = { promptIds, completionIds, segmentEnds, segmentCharEnds };
  const plain = Object.entries(lists).flatMap(([name, ids]) => (ids === undefined ? [] : [[name, [...ids]]]));
  return { ...rest, trace: { ...fields, ...Object.fromEntries(plain) } };
}

/** characters of a text that are shown at its start, and at its end */
const HEAD = 320;
const TAIL = 120;

/** Control characters of its lines made visible. */
function section(label: string, lines: readonly string[]): string[] {
  return lined(label, lines.map(escapeControls));
}

/** The lines about a row. */
export function drawInspection(found: Inspection): string[] {
  const { preset, join, trace } = found;
  const missing = found.missing.map(({ field, what, flag }) => `${field}: ${what}: ${flag}`);
  return [
    ...section('row', [`${found.file}:${found.row}`, `columns ${found.columns.join(', ')}`]),
    ...section('preset', preset ? presetLines(preset) : ['none fits: fields by their names, or --map']),
    ...section('joined', join === null ? [] : [`${join.name}, on ${join.on}`]),
    ...section('rejected', found.rejected === null ? [] : [rejectedText(found.rejected)]),
    ...(trace === null ? [] : traceLines(trace, found)),
    ...section('missing', missing),
    ...section('try', found.proposal === undefined ? [] : [found.proposal]),
  ];
}

// a reason may begin with the field, and the code be called as the field is
function rejectedText({ code, reason }: NonNullable<Inspection['rejected']>): string {
  return reason.startsWith(`${code}: `) ? reason : `${code}: ${reason}`;
}

function presetLines({ name, what, why, notes }: NonNullable<Inspection['preset']>): string[] {
  return [`${name}: ${what}`, why, ...notes.map((note) => `note: ${note}`)];
}

function traceLines(trace: Trace, { fields, traces }: Inspection): string[] {
  const from = (field: keyof Inspection['fields']) =>
    fields[field] === undefined ? '' : `, from ${fields[field]}`;
  const { promptIds, completionIds, completionMask, turns, references } = trace;
  const { segmentEnds, segmentCharEnds } = trace;
  const place = traces === 1 ? 'the only one of the row' : `one of ${traces} in the row`;
  return [
    ...section('trace', [
      `${trace.id}, ${place}`,
      trace.group === undefined ? 'no group' : `group ${trace.group}${from('group')}`,
    ]),
    ...section('prompt', [
      ...promptLines(trace.prompt, from('prompt')),
      ...idLines(promptIds, from('prompt_ids')),
    ]),
    ...section('completion', [
      ...(turns ? promptLines(turns, from('completion')) : textLines(trace.completion, from('completion'))),
      ...idLines(completionIds, from('completion_ids')),
      ...maskLines(completionMask, from('completion_mask')),
    ]),
    ...section(
      'references',
      references.map(({ answer, solution, utility }) => {
        const begun = (text: string, most: number) => JSON.stringify(clip(text, most, 0));
        const more = solution === undefined ? '' : `, solution ${begun(solution, 60)}${from('solution')}`;
        return `${begun(answer, 200)}, utility ${utility}${from('reference')}${more}`;
      }),
    ),
    ...section('reward', trace.reward === null ? ['unknown'] : [`${trace.reward}${from('reward')}`]),
    ...section('segments', [
      ...endLines(segmentEnds, from('segment_ends')),
      ...endLines(segmentCharEnds, from('segment_char_ends')),
    ]),
  ];
}

function promptLines(prompt: Trace['prompt'], from: string): string[] {
  if (typeof prompt === 'string') return textLines(prompt, from);
  const turns = prompt.map(({ role, content }) => `${role}: ${clip(content, HEAD, TAIL)}`);
  return [`${prompt.length} messages${from}`, ...turns];
}

function textLines(text: string, from: string): string[] {
  return text === '' ? [] : [`${count([...text].length)} characters${from}`, clip(text, HEAD, TAIL)];
}

function idLines(ids: Int32Array | undefined, from: string): string[] {
  if (ids === undefined) return [];
  const first = ids.subarray(0, 8).join(' ');
  return [`${plural(ids.length, 'token id')}${from}: ${first}${ids.length > 8 ? ' …' : ''}`];
}

function maskLines(own: Trace['completionMask'], from: string): string[] {
  if (own === undefined) return [];
  const tokens = own.reduce((sum, isOwn) => sum + isOwn, 0);
  return [`${plural(turnsIn(own).length, 'turn')}, ${count(tokens)} tokens of the policy's${from}`];
}

function endLines(ends: Int32Array | undefined, from: string): string[] {
  return ends === undefined ? [] : [`${count(ends.length)} given ends${from} (--segmenter given)`];
}

/** A text's beginning and end, and how much was left out between them. */
function clip(text: string, head: number, tail: number): string {
  const characters = [...text];
  const left = characters.length - head - tail;
  if (left <= 0) return text;
  const end = tail === 0 ? '' : characters.slice(-tail).join('');
  return `${characters.slice(0, head).join('')} … ${count(left)} characters … ${end}`.trimEnd();
}
