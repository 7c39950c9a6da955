// Where the fields of a trace are in a row: paths, as `--map` spells them (`answer`, `steps[0]`, `generations[].text`), and rules, tried in turn.

import { TraceRejected, usageError } from '../../errors.js';
import { didYouMean } from '../../flag-values.js';
import type { InputRow } from '../../rows.js';
import type { Trace } from '../../trace.js';
import { jsonOf, noteExact } from '../arrow/json.js';
import type { PassThroughColumn } from '../arrow/schema.js';

export const FIELDS = [
  'id',
  'group',
  'prompt',
  'completion',
  'prompt_ids',
  'completion_ids',
  'completion_mask',
  'sampled_logprobs',
  'tools',
  'reference',
  'solution',
  'reward',
  'segment_ends',
  'segment_char_ends',
  'values',
] as const;

export type Field = (typeof FIELDS)[number];

export interface FieldMap {
  /** the fields that `--map` named: one of the places has to be there */
  readonly mapped: ReadonlyMap<Field, readonly FieldPath[]>;
  /** all others: where the join, the preset or their own names say that they may be */
  readonly defaults: FieldSources;
  /** the rows of another file, each as `join` beside the columns of the row that it belongs to */
  readonly join?: Join | undefined;
  /** cuts off what of a trace's ids and texts is padding */
  readonly unpadded?: ((trace: Trace) => Trace) | undefined;
}

/** Another file's rows (`--join`). */
export interface Join {
  /** what is kept of the row that belongs to an input row. @throws Mismatch (`join`) where none or several do */
  partnerOf(row: InputRow): Columns;
  /** columns that are written beside the row's own, with the types of the whole file */
  readonly written: readonly PassThroughColumn[];
}

/** What a command cannot do without. */
export interface Needs {
  readonly prompt: boolean;
  readonly references: boolean;
}

/** A field that no single path leads to. */
export interface FieldRule {
  /** where it comes from, for people */
  readonly text: string;
  /** whether the value is a list with an item for each trace of the row, as `[]` makes it */
  readonly each: boolean;
  /** null or undefined where the row has none. @throws Mismatch where the row is not as the preset says */
  value(row: InputRow): unknown;
}

export type FieldSource = FieldPath | FieldRule;

/** Where fields are; several places are looked at in turn, the first that is not null counts. */
export type FieldSources = ReadonlyMap<Field, readonly FieldSource[]>;

/** The same as presets spell it: rules, and paths as `--map` takes them. */
export type FieldTable = Partial<Record<Field, string | FieldRule | readonly (string | FieldRule)[]>>;

/** @param before what paths begin with */
export function fieldSources(table: FieldTable, before = ''): FieldSources {
  const entries = Object.entries(table) as [Field, string | FieldRule | (string | FieldRule)[]][];
  return new Map(
    entries.map(([field, places]) => [
      field,
      [places].flat().map((place) => (typeof place === 'string' ? parsePath(before + place) : place)),
    ]),
  );
}

export function isEach(source: FieldSource): boolean {
  return 'head' in source ? source.tail !== undefined : source.each;
}

/** A row or a trace that does not map. */
export class Mismatch extends TraceRejected {
  /** the trace's own id where it got that far */
  id: string | undefined;
}

/** A row's columns, or an object inside of them. */
export type Columns = Readonly<Record<string, unknown>>;

/** A path, split where its `[]` explodes a list into several traces. */
export interface FieldPath {
  readonly text: string;
  /** from the row to the value, or to the list where the path explodes one */
  readonly head: string;
  /** from the list's item to the value; absent where the path has no `[]` */
  readonly tail?: string;
}

/** Parses a path. @throws SyntaxError where it is malformed */
export function parsePath(text: string): FieldPath {
  const [head = '', tail, ...more] = text.split('[]');
  if (more.length > 0) throw new SyntaxError('more than one []');
  if (tail !== undefined && tail !== '' && !tail.startsWith('.'))
    throw new SyntaxError('expected . after []');
  const rest = tail?.replace(/^\./, '');
  for (const part of [head, ...(rest ? [rest] : [])].flatMap((each) => each.split('.')))
    if (!/^[^[\]]+(\[\d+\])*$/.test(part)) throw new SyntaxError(part === '' ? 'an empty part' : `"${part}"`);
  return { text, head, ...(rest === undefined ? {} : { tail: rest }) };
}

/** What a path leads to: one value, or one for each item of a list, or what is there in its place. */
export function resolvePath(row: Columns, path: FieldPath) {
  if (Object.hasOwn(row, path.text)) return { value: row[path.text] };
  const value = follow(row, path.head);
  const { tail } = path;
  if (tail === undefined || (value ?? null) === null) return { value };
  return Array.isArray(value) ? { items: value.map((item) => follow(item, tail)) } : { noList: value };
}

/** The one value that a path leads to; undefined where there is none. */
export function valueAt(row: Columns, path: FieldPath): unknown {
  return resolvePath(row, path).value;
}

/** What a text holds as JSON; undefined for any other text. */
export function objectIn(text: string): object | undefined {
  const found = /^\s*[{[]/.test(text) ? (jsonOf(text) as object | undefined) : undefined;
  return found && noteExact(text, found);
}

/** A literal key that holds dots or brackets comes before the way through nested values. */
function follow(value: unknown, path: string): unknown {
  if (path === '') return value;
  if (Array.isArray(value)) {
    const [, index, rest = ''] = /^\[(\d+)\]\.?(.*)$/s.exec(path) ?? [];
    return index === undefined ? undefined : follow(value[Number(index)], rest);
  }
  if (typeof value === 'string') return follow(objectIn(value), path);
  if (typeof value !== 'object' || value === null) return undefined;
  for (const { index: end } of [...path.matchAll(/(?!^)[.[]|$/g)].reverse()) {
    const key = path.slice(0, end);
    if (Object.hasOwn(value, key))
      return follow((value as Record<string, unknown>)[key], path.slice(end).replace(/^\./, ''));
  }
  return undefined;
}

/** Parses `--map`: `field=path,…`, where `a|b` is the first of two paths that is there. @throws RredcotError for what is none, or named twice */
export function parseFieldMap(spec: string | undefined): FieldMap {
  const mapped = new Map<Field, readonly FieldPath[]>();
  for (const entry of (spec ?? '').split(',')) {
    if (entry.trim() === '' && (spec ?? '').trim() === '') continue;
    const [, name, text] = /^\s*([^=\s]+)\s*=\s*(.+?)\s*$/.exec(entry) ?? [];
    if (name === undefined || text === undefined) refuseMap(`"${entry}" is not field=path`);
    const field = FIELDS.find((each) => each === name);
    if (field === undefined) {
      const meant = didYouMean(name, FIELDS);
      refuseMap(`"${name}" is no field of a trace${meant === undefined ? '' : `, did you mean ${meant}?`}`);
    }
    if (mapped.has(field)) refuseMap(`field "${field}" is mapped twice`);
    try {
      mapped.set(field, text.split('|').map(parsePath));
    } catch (error) {
      refuseMap(`path "${text}" of field "${field}" is malformed: ${(error as Error).message}`);
    }
  }
  return withSources({ mapped }, []);
}

/** Lets what is known of the file say where the fields are that `--map` did not name. @param known what comes first counts */
export function withSources(
  { mapped, join }: Pick<FieldMap, 'mapped' | 'join'>,
  known: readonly FieldSources[],
): FieldMap {
  const completion = mapped.get('completion') ?? mapped.get('completion_ids');
  const isOthers = completion !== undefined;
  const explodes = completion?.some(isEach) === true;
  const isExploded = known.some((fields) => [...fields.values()].flat().some(isEach));
  const defaults = new Map<Field, readonly FieldSource[]>();
  for (const field of FIELDS) {
    if (mapped.has(field)) continue;
    const sources = known
      .flatMap((fields) => fields.get(field) ?? [])
      // of a completion that the user found elsewhere the preset knows neither the segments nor the place in a list
      .filter(
        (source) =>
          !isOthers || !(field.startsWith('segment_') || field === 'values' || (isEach(source) && !explodes)),
      );
    const names = field === 'reference' ? ['reference', 'references', 'answer'] : [field];
    const beside = isOthers || isExploded ? [] : besideOf(field).map((name) => idsBeside(field, name));
    defaults.set(field, sources.length > 0 ? sources : [...names.map(parsePath), ...beside]);
  }
  return { mapped, defaults, join };
}

/** What dumps call the ids that stand beside a trace's texts, which of the completion's the policy wrote, and how likely it found them. */
const BESIDE: Partial<Record<Field, string>> = {
  prompt_ids: 'prompt_token_ids prompt_tokens input_ids',
  completion_ids:
    'completion_token_ids response_ids response_token_ids response_tokens output_token_ids output_ids',
  completion_mask: 'response_mask loss_mask action_mask',
  sampled_logprobs:
    'rollout_log_probs rollout_logprobs sampling_logprobs response_logprobs completion_logprobs logprobs',
};

const besideOf = (field: Field): readonly string[] => BESIDE[field]?.split(' ') ?? [];

/** Numbers under such a name, beside a completion's ids as many as these: a count, and a mask of something else, is called so as well. */
function idsBeside(field: Field, name: string): FieldRule {
  const listOf = ({ columns }: InputRow, key: string) =>
    Array.isArray(columns[key]) && typeof columns[key][0] === 'number' ? columns[key] : undefined;
  const others = field.endsWith('_ids') ? [name] : ['completion_ids', ...besideOf('completion_ids')];
  const isOne = (row: InputRow, key: string) => listOf(row, key)?.length === listOf(row, name)?.length;
  // beside segments they are what a policy said of the tokens later, when the row was scored
  const isScored = ({ columns }: InputRow) => name === 'logprobs' && Array.isArray(columns.segments);
  const value = (row: InputRow) =>
    others.some((key) => isOne(row, key)) && !isScored(row) ? listOf(row, name) : undefined;
  return { text: name, each: false, value };
}

export function explodes({ mapped, defaults }: FieldMap): boolean {
  return [...mapped.values(), ...defaults.values()].flat().some(isEach);
}

function refuseMap(problem: string): never {
  throw usageError(
    `--map: ${problem}`,
    `--map prompt=question,completion=generations[].text; fields: ${FIELDS.join(', ')}`,
  );
}
