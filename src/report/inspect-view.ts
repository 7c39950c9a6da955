// Draws one input row for a terminal: which preset it is of, the trace made of it, what is missing.
import type { Rejection } from '../errors.js';
import type { Field } from '../io/map/fields.js';
import { count, plural } from '../plural.js';
import { escapeControls } from '../printable.js';
import type { Trace } from '../trace.js';
import { turnsIn } from '../turns.js';
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
  return [
    ...section('row', [`${found.file}:${found.row}`, `columns ${found.columns.join(', ')}`]),
    ...section(
      'preset',
      preset === null ? ['none fits: fields by their names, or --map'] : presetLines(preset),
    ),
    ...section('joined', join === null ? [] : [`${join.name}, on ${join.on}`]),
    ...section('rejected', found.rejected === null ? [] : [rejectedText(found.rejected)]),
    ...(trace === null ? [] : traceLines(trace, found)),
    ...section(
      'missing',
      found.missing.map(({ field, what, flag }) => `${field}: ${what}: ${flag}`),
    ),
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
        const text =
          solution === undefined
            ? ''
            : `, solution ${JSON.stringify(clip(solution, 60, 0))}${from('solution')}`;
        return `${JSON.stringify(clip(answer, 200, 0))}, utility ${utility}${from('reference')}${text}`;
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
  return ids === undefined
    ? []
    : [
        `${plural(ids.length, 'token id')}${from}: ${[...ids.subarray(0, 8)].join(' ')}${ids.length > 8 ? ' …' : ''}`,
      ];
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
