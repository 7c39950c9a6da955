// Checks the raw field values of a trace.

import { markedAnswer } from '../../boxed.js';
import { plural } from '../../plural.js';
import { describeKeys, describeValue } from '../../printable.js';
import type { InputRow } from '../../rows.js';
import type { Message, OwnTokens, Reference, Trace } from '../../trace.js';
import { asNumber, noteExact } from '../arrow/json.js';
import { type Field, Mismatch, type Needs, objectIn } from './fields.js';
import {
  answerText,
  completionText,
  fromSolution,
  messagesIn,
  parseMessages,
  parseReferences,
  severalTurns,
} from './messages.js';
import { mapText, proposePaths } from './propose.js';

/** A field's value in one trace and where it came from. */
export interface Cell {
  /** the path, for messages */
  readonly path: string;
  /** undefined where a list's item lacks it */
  readonly value: unknown;
  /** named by `--map`, as against found by a preset or under its default name */
  readonly isMapped: boolean;
  /** from an item of an exploded list, so the trace's own */
  readonly isItem: boolean;
}

/** `prompt_text` is the prompt's text that the row shows where another file gave the messages. */
export type FieldCells = ReadonlyMap<Field | 'prompt_text', Cell>;

/** The names a trace has by default, and its place in a row that holds several. */
interface TracePlace {
  readonly id: string;
  readonly group?: string;
  readonly index?: number;
}

function refuse(reason: string, code = 'map'): never {
  throw new Mismatch(code, reason);
}

/** Builds one trace. @throws Mismatch naming path, found and expected */
export function buildTrace(row: InputRow, cells: FieldCells, place: TracePlace, needs: Needs): Trace {
  const own = name(cells, 'id');
  // an id of the row stands for all its traces, so each gets its number
  const isWhole = place.index === undefined || cells.get('id')?.isItem === true;
  const id = own === undefined ? place.id : isWhole ? own : `${own}/${place.index}`;
  try {
    for (const [field, { path, value }] of cells) {
      if (value === undefined) refuse(`${field}: ${path} is not in item ${place.index ?? 0}`);
      if (row.arrow?.batch.bytes.has(path) && value !== null)
        refuse(`${field}: ${path} is bytes, expected text: write the column as strings`);
    }
    const group = name(cells, 'group') ?? place.group;
    const promptIds = int32List(cells, 'prompt_ids', 'ids');
    const completionIds = int32List(cells, 'completion_ids', 'ids');
    const mask = cells.get('completion_mask');
    const completionMask = mask && maskOf(mask, completionIds);
    const sampled = cells.get('sampled_logprobs');
    const sampledLogprobs = sampled && numberList(sampled, 'sampled_logprobs', 'id', completionIds?.length);
    const segmentEnds = int32List(cells, 'segment_ends', 'map');
    const segmentCharEnds = int32List(cells, 'segment_char_ends', 'map');
    const given = cells.get('values');
    const values = given && numberList(given, 'values', 'exit point');
    const promptText = cells.get('prompt_text')?.value;
    const { path: at, value: written } = cells.get('completion') ?? {};
    const behind = severalTurns(written);
    // where there are ids, these decide, and a mask says which of them the policy wrote
    const turns = completionIds === undefined ? behind : undefined;
    if (completionIds && !completionMask && behind?.some(({ role }) => role !== 'assistant'))
      refuse(
        `completion_mask: ${at} has several turns, and nothing says which of completion_ids the policy wrote: --map completion_mask=<path>`,
        'completion_mask',
      );
    const completion =
      turns?.map(({ content }) => content).join('\n') ??
      textField(row, cells, 'completion', completionIds === undefined);
    const field = completionIds === undefined ? 'completion' : 'completion_ids';
    if (turns === undefined && (completionIds ?? completion).length === 0)
      refuse(
        `${field}: ${cells.get(field)?.path ?? field} is empty, expected what the policy wrote: --map ${field}=<path>`,
        'empty_completion',
      );
    const asked = prompt(row, cells, needs.prompt && promptIds === undefined);
    const dialogue = typeof asked === 'string' ? undefined : { prompt: asked, behind: behind ?? [] };
    if (dialogue !== undefined && row.arrow === undefined) noteExact(row.raw, row.columns);
    const texts = {
      prompt: asked,
      completion,
      ...present({ promptIds, completionIds, completionMask, sampledLogprobs, turns, dialogue }),
      ...(behind !== undefined ? present({ tools: toolsOf(cells) }) : {}),
      ...(typeof promptText === 'string' ? { promptText } : {}),
    };
    // what nobody reads may be what it likes
    if (needs.prompt) {
      refusePictures(row, asked);
      checkPrompt(texts, cells.get(promptIds ? 'prompt_ids' : 'prompt')?.path ?? 'prompt');
    }
    return {
      id,
      ...texts,
      ...present({ group, segmentEnds, segmentCharEnds, values, item: place.index }),
      ...(needs.prompt && beginsWithPrompt(texts) ? { status: ['completion:has-prompt'] } : {}),
      references: references(row, cells, needs.references, group !== undefined),
      ...rewardOf(row, cells),
      // the row itself: a columnar one makes its text only when asked
      source: row,
    };
  } catch (error) {
    if (error instanceof Mismatch) error.id = id;
    throw error;
  }
}

const PICTURES = /^(image|video|audio)s?(_(path|url)s?)?$/;
/** As a data URL, or in base64, as binary columns are read: PNG, JPEG, WebP, GIF. */
const PICTURE_BYTES = /^(data:(image|video|audio)\/|iVBORw0KGgo|\/9j\/|UklGR|R0lGOD)/;
/** Columns in which trainers keep them. */
const HOLDERS = /^(multi_?modal_(data|inputs)|extra_info)$/;

/** Pictures that a data set keeps beside its prompts are part of what was asked: a list, one as `datasets` stores it, or a name where the prompt has its place. */
function refusePictures({ columns }: InputRow, prompt: Trace['prompt']): void {
  const text = JSON.stringify(prompt);
  const found = Object.keys(columns).flatMap((name) => {
    if (!HOLDERS.test(name)) return isPicture(name, columns, text) ? name : [];
    const own = Object(columns[name]);
    return Object.keys(own).flatMap((inner) => (isPicture(inner, own, text) ? `${name}.${inner}` : []));
  });
  if (found.length > 0)
    refuse(`prompt: it was asked with what ${found[0]} holds, of which a policy reads nothing here`, 'ids');
}

function isPicture(name: string, columns: InputRow['columns'], text: string): boolean {
  const [, kind] = PICTURES.exec(name) ?? [];
  if (kind === undefined) return false;
  const value = columns[name];
  if (Array.isArray(value)) return value.length > 0;
  if (typeof value === 'string')
    return PICTURE_BYTES.test(value) || (value !== '' && text.includes(`<${kind}>`));
  return Object.hasOwn(Object(value), 'bytes');
}

/** The fields that are there: absent is not undefined. */
function present<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}

// an id or a group: text or a number; nothing, null or empty text is no name
function name(cells: FieldCells, field: 'id' | 'group'): string | undefined {
  const { path = field, value } = cells.get(field) ?? {};
  if (value === undefined || value === null || value === '') return undefined;
  const expected = 'expected text or a number';
  return answerText(value) ?? refuse(`${field}: ${path} is ${describeValue(value)}, ${expected}`);
}

function prompt(row: InputRow, cells: FieldCells, isNeeded: boolean): Trace['prompt'] {
  const cell = cells.get('prompt');
  const messages = messagesIn(cell?.value);
  if (cell === undefined || (messages.length === 0 && !Array.isArray(cell.value)))
    return textField(row, cells, 'prompt', isNeeded);
  const parsed = parseMessages(messages);
  if (!('problem' in parsed)) return parsed;
  if (!isNeeded && !cell.isMapped) return '';
  return refuse(
    `prompt: ${cell.path}${parsed.problem}: use ${mapFor(row, cells, 'prompt', otherPath(cell))}`,
  );
}

function textField(
  row: InputRow,
  cells: FieldCells,
  field: 'prompt' | 'completion',
  isNeeded: boolean,
): string {
  const cell = cells.get(field);
  const value = cell?.value;
  if (typeof value === 'string') return value;
  const message = field === 'completion' ? completionText(value) : null;
  if (message !== null) return message;
  const isAbsent = value === undefined || value === null;
  // what nobody asked for and nobody needs may look as it likes
  if (!isNeeded && (isAbsent || cell?.isMapped !== true)) return '';
  const expected = field === 'completion' ? "text or one message of the assistant's" : 'text';
  const isNull = value === null || (cell === undefined && row.columns[field] === null);
  const found = isNull
    ? `${cell?.path ?? field} is null, expected ${expected}`
    : isAbsent
      ? `no "${cell?.path ?? field}" in the row (${describeKeys(row.columns)})`
      : `${cell?.path} is ${describeValue(value)}, expected ${expected}`;
  return refuse(`${field}: ${found}: use ${mapFor(row, cells, field, otherPath(cell))}`);
}

/** What may lead to a text: into the list that stands in its place, where it holds texts. */
function otherPath(cell: Cell | undefined): string | undefined {
  const isTexts = Array.isArray(cell?.value) && typeof cell.value[0] === 'string' && !cell.isItem;
  return isTexts ? `${cell.path}[]` : undefined;
}

const PROPOSED = ['prompt', 'completion', 'reference', 'reward'] as const satisfies readonly Field[];

/** The `--map` for a field that was not found, and for the others that the row does not have under their names. */
function mapFor(row: InputRow, cells: FieldCells, field: Field, path?: string): string {
  const lacking = PROPOSED.filter((each) => each !== field && (cells.get(each)?.value ?? null) === null);
  const proposed = new Map(proposePaths(row.columns, [field, ...lacking], cells.get('completion')?.path));
  if (path !== undefined) proposed.set(field, path);
  // the one that is asked for has to be in it
  if (!proposed.has(field)) return `--map ${field}=<path>`;
  return mapText(proposed) as string;
}

function int32List(cells: FieldCells, field: Field, code: 'ids' | 'map'): Int32Array | undefined {
  const { path = field, value } = cells.get(field) ?? {};
  if (value === undefined || value === null) return undefined;
  const isId = (item: unknown) => typeof item === 'number' && (item | 0) === item && item >= 0;
  const wrong = wrongItem(path, value, isId);
  if (wrong === undefined) return new Int32Array(value as number[]);
  return refuse(`${field}: ${wrong}, expected a list of whole numbers from 0 to 2147483647`, code);
}

/** What a list of such items is instead, or the first other item in it. */
function wrongItem(path: string, value: unknown, isOne: (item: unknown) => boolean): string | undefined {
  if (!Array.isArray(value)) return `${path} is ${describeValue(value)}`;
  const at = value.findIndex((item) => !isOne(item));
  return at < 0 ? undefined : `${path}[${at}] is ${describeValue(value[at])}`;
}

/**
 * Which of the completion's tokens the policy wrote.
 * @returns undefined where it wrote all of them
 * @throws Mismatch (`completion_mask`) for anything but 0 and 1, one for each of the completion's ids, and at least one 1
 */
function maskOf({ path, value }: Cell, ids: Int32Array | undefined): OwnTokens | undefined {
  if (value === undefined || value === null) return undefined;
  const fail = (found: string, cure = '--map completion_mask=<path>') =>
    refuse(`completion_mask: ${found}: ${cure}`, 'completion_mask');
  if (!Array.isArray(value))
    return fail(`${path} is ${describeValue(value)}, expected a list of 0 and 1, one for each token`);
  if (ids === undefined)
    return fail(`${path} counts tokens, and the row has no completion_ids`, '--map completion_ids=<path>');
  if (value.length !== ids.length)
    return fail(
      `${path} has ${plural(value.length, 'entry', 'entries')}, completion_ids ${ids.length}, expected as many`,
    );
  const wrong = wrongItem(path, value, (bit) => typeof bit === 'boolean' || bit === 0 || bit === 1);
  if (wrong !== undefined) fail(`${wrong}, expected 0 or 1`);
  const own = Uint8Array.from(value, Number);
  if (own.length > 0 && !own.includes(1))
    fail(`${path} has no 1, expected one at least: a token that the policy wrote`);
  return own.includes(0) ? own : undefined;
}

/** What a chat template is given as `tools`; as text where a data set keeps it so. */
function toolsOf(cells: FieldCells): unknown {
  const { value = null } = cells.get('tools') ?? {};
  if (typeof value !== 'string') return value ?? undefined;
  return objectIn(value) ?? refuse('tools: is no JSON, expected a list of them: --map tools=<path>');
}

/** Numbers, one for every exit point, or for so many ids. A column that merely happens to be called so is no promise. */
function numberList(
  { path, value, isMapped }: Cell,
  field: Field,
  one: string,
  length?: number,
): Float32Array | undefined {
  if (value === undefined || value === null) return undefined;
  const isShort = Array.isArray(value) && length !== undefined && value.length !== length;
  const wrong = isShort
    ? `${path} has ${value.length} for ${plural(length, 'id')}`
    : wrongItem(path, value, Number.isFinite);
  if (wrong === undefined) return Float32Array.from(value as number[]);
  if (!isMapped) return undefined;
  return refuse(`${field}: ${wrong}, expected a list of finite numbers, one for every ${one}`);
}

function references(
  row: InputRow,
  cells: FieldCells,
  isNeeded: boolean,
  hasGroup: boolean,
): readonly Reference[] {
  const cell = cells.get('reference');
  const parsed = parseReferences(cell?.value);
  if ('problem' in parsed) {
    if (!isNeeded && cell?.isMapped !== true) return [];
    return refuse(`reference: ${cell?.path}${parsed.problem}`);
  }
  const beside = cells.get('solution');
  const solution = beside?.value;
  // a solution that boxes its answer needs no answer beside it
  if (parsed.length === 0 && typeof solution === 'string' && markedAnswer(solution) !== undefined)
    return [{ ...fromSolution(solution), solution, utility: 1 }];
  if (parsed.length === 0 && isNeeded) {
    const found =
      cell === undefined ? `none in the row (${describeKeys(row.columns)})` : `${cell.path} is empty`;
    refuse(`reference: ${found}: use ${referenceCure(row, cells, hasGroup)}`, 'no_reference');
  }
  return beside === undefined ? parsed : withSolution(parsed, beside);
}

/** Without answers, rewards and groups are enough for references. */
function referenceCure(row: InputRow, cells: FieldCells, hasGroup: boolean): string {
  const map = mapFor(row, cells, 'reference');
  if (!map.endsWith('reference=<path>')) return map;
  if (!hasGroup || (cells.get('reward')?.value ?? null) === null) return `${map}, or --join <file>`;
  return `--references group (the group's right completions give the answers), or ${map}`;
}

function withSolution(parsed: readonly Reference[], cell: Cell): readonly Reference[] {
  const { value: solution } = cell;
  const [only, ...others] = parsed;
  if (only === undefined || solution === undefined || solution === null) return parsed;
  if (typeof solution === 'string' && others.length === 0)
    return [{ ...only, solution: only.solution ?? solution }];
  // a column that merely happens to be called `solution` is no promise
  if (!cell.isMapped) return parsed;
  const found =
    typeof solution === 'string'
      ? `one text for ${plural(parsed.length, 'reference')}`
      : describeValue(solution);
  return refuse(
    `solution: ${cell.path} is ${found}, expected text for a single reference: use {answer, solution} references`,
  );
}

/** The reward; a verdict is on no scale: true, false, and what verl dumps as `acc` between 0 and 1. */
function rewardOf(row: InputRow, cells: FieldCells): Pick<Trace, 'reward' | 'isVerdict'> {
  const { path = 'reward', value: found } = cells.get('reward') ?? {};
  // Python writes them so as text
  const verdict = typeof found === 'string' ? /^\s*(?:(true)|false)\s*$/i.exec(found) : null;
  const value = verdict === null ? (asNumber(found) ?? Number.NaN) : verdict[1] !== undefined;
  const isNumber = typeof value === 'boolean' || typeof value === 'bigint';
  const reward = isNumber ? Number(value) : value;
  if (Number.isNaN(reward)) return { reward: null };
  if (typeof reward !== 'number' || !Number.isFinite(reward))
    return refuse(
      `reward: ${path} is ${describeValue(value)}, expected a finite number, true, false or null: use ${mapFor(row, cells, 'reward')}`,
      'reward',
    );
  const isNamed = /(?:^|\.)acc$/.test(path) && reward >= 0 && reward <= 1;
  return { reward, ...(typeof value === 'boolean' || isNamed ? { isVerdict: true } : {}) };
}

/** Shorter texts, and fewer ids, may stand in a prompt by chance, such as one of its choices. */
const TELLS = { characters: 24, ids: 8 };

type Texts = Pick<Trace, 'prompt' | 'completion' | 'promptIds' | 'completionIds'>;

/** Refuses a prompt that holds what the policy is to be asked for: the whole text, or the whole dialogue. @throws Mismatch (`prompt_holds_completion`) */
export function checkPrompt(
  { prompt, completion, promptIds, completionIds }: Texts,
  path: string,
  field = promptIds === undefined ? 'prompt' : 'prompt_ids',
): void {
  const fail = (found: string) =>
    refuse(
      `${field}: ${path} ${found}, expected what the policy was asked and nothing of its answer: --map ${field}=<path>`,
      'prompt_holds_completion',
    );
  if (promptIds !== undefined) {
    if (completionIds !== undefined && holdsIds(promptIds, completionIds)) fail('holds the completion_ids');
    return;
  }
  const last: Message | undefined = typeof prompt === 'string' ? undefined : prompt.at(-1);
  if (last?.role === 'assistant') fail("ends with the assistant's turn");
  const own = completion.trim();
  if (own.length < TELLS.characters) return;
  const texts = typeof prompt === 'string' ? [prompt] : prompt.map(({ content }) => content);
  if (texts.some((text) => text.includes(own))) fail('holds the completion');
}

/** Whether a completion is the whole text: what was asked, and then what was answered. */
export function beginsWithPrompt({ prompt, completion, promptIds, completionIds }: Texts): boolean {
  if (promptIds !== undefined && completionIds !== undefined)
    return promptIds.length >= TELLS.ids && promptIds.every((id, n) => id === completionIds[n]);
  const asked = (typeof prompt === 'string' ? prompt : (prompt.at(-1)?.content ?? '')).trim();
  return asked.length >= TELLS.characters && completion.trimStart().startsWith(asked);
}

function holdsIds(ids: Int32Array, part: Int32Array): boolean {
  if (part.length < TELLS.ids) return false;
  const [first = 0] = part;
  for (let from = ids.indexOf(first); from >= 0; from = ids.indexOf(first, from + 1))
    if (part.every((id, n) => ids[from + n] === id)) return true;
  return false;
}
