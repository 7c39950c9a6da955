// Our columns, each declared once: name, Arrow type, what it means, how a scored row fills it and is read back from it, and what a reader may rely on.

import { usageError } from '../errors.js';
import {
  FLOAT32,
  FLOAT32_LIST,
  INT32,
  INT32_LIST,
  isList,
  type OutputColumn,
  readCell,
  STRING,
} from '../io/arrow/output-columns.js';
import type { ColumnType } from '../io/arrow/schema.js';
import type { InputRow } from '../rows.js';
import { blankRow, type OutputRow, ownTokens, type SegmentRow } from '../scored.js';
import type { Trace } from '../trace.js';

/** What a cell says of a row. */
export type CellPart = Partial<Omit<OutputRow, 'trace'>> & { readonly trace?: Partial<Trace> };

/** One of our columns. */
export interface DeclaredColumn extends OutputColumn {
  readonly meaning: string;
  /** what a cell says of its row: nothing where the rest of the row says it */
  readonly read: (cell: unknown) => CellPart;
  /** a list with an entry for each completion token */
  readonly isPerToken?: true;
  /** between which its numbers lie */
  readonly range?: readonly [low: number, high: number];
  /** never null: in any row, in a scored one, in one that a policy has read */
  readonly isThere?: 'always' | 'scored' | 'read';
}

/** How one is declared: its cell is a field of the row, or of its trace, or what the two functions say. */
type Declaration = Omit<DeclaredColumn, 'name' | 'value' | 'read'> &
  (
    | ({ readonly key: keyof Omit<OutputRow, 'trace'> } & Partial<Pick<DeclaredColumn, 'read'>>)
    | { readonly ofTrace: 'id' | 'group' | 'completion' }
    | Pick<DeclaredColumn, 'value' | 'read'>
  );

/** Logits are sums of some thousand floats: log p and entropies are a little off. */
const LOGIT_TOLERANCE = 1e-4;
/** ids of 32 bits */
const MOST_TOKENS = 2 ** 31;

const SEGMENT: ColumnType = {
  kind: 'struct',
  fields: [
    { name: 'start', type: INT32 },
    { name: 'end', type: INT32 },
    { name: 'char_start', key: 'charStart', type: INT32 },
    { name: 'char_end', key: 'charEnd', type: INT32 },
    { name: 'kind', type: STRING },
    ...['entropy', 'value', 'delta', 'noise', 'sigma'].map((name) => ({ name, type: FLOAT32 })),
  ],
};

const NOTHING = () => ({});
const ID_RANGE = [0, MOST_TOKENS - 1] as const;
const LOGPROB_RANGE = [Number.NEGATIVE_INFINITY, LOGIT_TOLERANCE] as const;

/** In the order in which they are written. */
const OURS = {
  id: { ofTrace: 'id', type: STRING, isThere: 'always', meaning: 'the trace' },
  group: { ofTrace: 'group', type: STRING, meaning: 'traces of one prompt share it' },
  prompt: {
    type: STRING,
    meaning: 'the prompt: text, or messages of the input',
    // null where it is messages that nobody has rendered
    value: ({ trace: { prompt } }) => (typeof prompt === 'string' ? prompt : null),
    read: (cell) => (typeof cell === 'string' ? { trace: { prompt: cell } } : {}),
  },
  completion: {
    ...{ ofTrace: 'completion', type: STRING },
    meaning: 'the text that `char_start` and `char_end` count in',
  },
  prompt_ids: {
    ...{ key: 'promptIds', type: INT32_LIST, isThere: 'read', range: ID_RANGE },
    meaning: 'token ids of the prompt, as scored',
  },
  completion_ids: {
    ...{ key: 'completionIds', type: INT32_LIST, isPerToken: true, isThere: 'always', range: ID_RANGE },
    meaning: 'T token ids of the completion, as scored',
  },
  completion_mask: {
    ...{ type: INT32_LIST, isPerToken: true },
    meaning:
      '1 for a completion token that the policy wrote, 0 for one that it was shown; written where traces have several turns, and of streams',
    value: (row) => {
      const own = ownTokens(row) ?? new Uint8Array(row.segments.at(-1)?.end ?? 0).fill(1);
      return own.length === 0 ? null : Int32Array.from(own);
    },
    read: NOTHING,
  },
  logprobs: {
    ...{ key: 'logprobs', type: FLOAT32_LIST, isPerToken: true, isThere: 'read', range: LOGPROB_RANGE },
    meaning: 'log-probability of each completion token under the policy, nats, temperature 1',
  },
  entropies: {
    ...{ key: 'entropies', type: FLOAT32_LIST, isPerToken: true, isThere: 'read' },
    range: [-LOGIT_TOLERANCE, Math.log(MOST_TOKENS) + LOGIT_TOLERANCE],
    meaning: "entropy of the policy's distribution at each completion token, nats",
  },
  sigma: {
    ...{ key: 'sigma', type: FLOAT32_LIST, isPerToken: true, isThere: 'scored' },
    meaning: 'the credit of each completion token; sums to 1, may be negative',
  },
  segments: {
    ...{ key: 'segments', type: { kind: 'list', element: SEGMENT } },
    meaning:
      'steps of the trace: `start`, `end` (tokens, end exclusive), `char_start`, `char_end` (code points), `kind` (thought, answer, shown), `entropy` (sum), `value` after it, `delta`, `noise` (how far the change of the value may be off), `sigma` (sum)',
    read: (cell) => ({ segments: segmentsOf(cell) }),
  },
  value_start: {
    ...{ key: 'valueStart', type: FLOAT32, isThere: 'scored' },
    meaning: 'value before the first step',
  },
  reference_logprobs: {
    ...{ key: 'referenceLogprobs', isThere: 'scored', range: LOGPROB_RANGE },
    type: { kind: 'list', element: FLOAT32_LIST },
    meaning: 'log-probability of each reference answer at each exit point',
  },
  reward: {
    ...{ key: 'reward', type: FLOAT32, range: [0, 1] },
    meaning: 'the reward ζ of the trace; null where unknown',
    read: (cell) => {
      const reward = readCell(FLOAT32, cell) as number | null;
      return { reward, trace: { reward } };
    },
  },
  baseline: {
    ...{ key: 'baseline', type: FLOAT32 },
    meaning: 'the baseline b; R* = ζ − b is what σ spreads',
  },
  reference_utilities: {
    ...{ key: 'referenceUtilities', type: FLOAT32_LIST, isThere: 'scored', range: [0, 1] },
    meaning: 'what each reference answer earns',
  },
  reference_tokens: {
    ...{ key: 'referenceTokens', type: INT32_LIST, isThere: 'scored', range: [1, MOST_TOKENS - 1] },
    meaning: 'how many tokens of each reference answer were scored',
  },
  source_file: {
    ...{ type: STRING, isThere: 'always', read: NOTHING },
    meaning: 'input that the trace comes from, by the path that was given',
    value: (row) => row.trace.source.file,
  },
  source_row: {
    ...{ type: { kind: 'int64' }, isThere: 'always', read: NOTHING },
    meaning: 'row of the input that the trace comes from, counted from 0',
    value: (row) => row.trace.source.row,
  },
  source_item: {
    type: INT32,
    meaning: 'place in the list of a row that held several traces, counted from 0; null for a row of one',
    value: (row) => row.trace.item ?? null,
    read: (cell) => {
      const item = readCell(INT32, cell) as number | null;
      return item === null ? {} : { trace: { item } };
    },
  },
  sigma_ess: {
    ...{ key: 'sigmaEss', type: FLOAT32, isThere: 'scored' },
    meaning: 'effective number of tokens that carry the credit, 1/Σσ²',
  },
  sigma_max_weight: {
    ...{ key: 'sigmaMaxWeight', type: FLOAT32, isThere: 'scored' },
    meaning: 'the largest σ·T of a token, without its sign',
  },
  sigma_gain: {
    ...{ key: 'sigmaGain', type: FLOAT32 },
    meaning:
      'how much larger the gradient gets, Σ σ_t·T·(1 − p_t) / Σ (1 − p_t); null where the policy was sure of every token, or has not read the trace',
  },
  status: {
    ...{ type: STRING, isThere: 'always' },
    meaning: '`ok`, or codes for what was out of the ordinary',
    value: ({ status }) => (status.length === 0 ? 'ok' : [...new Set(status)].sort().join(';')),
    read: (cell) => ({ status: typeof cell !== 'string' || cell === 'ok' ? [] : cell.split(';') }),
  },
} satisfies Readonly<Record<string, Declaration>>;

function segmentsOf(cell: unknown): SegmentRow[] {
  const found = (readCell({ kind: 'list', element: SEGMENT }, cell) ?? []) as (SegmentRow | null)[];
  return found.filter(isObject).map((segment) => ({
    ...segment,
    kind: segment.kind === 'answer' || segment.kind === 'shown' ? segment.kind : 'thought',
  }));
}

function isObject<T>(cell: T): cell is T & object {
  return typeof cell === 'object' && cell !== null;
}

function columnOf(name: string, declaration: Declaration): DeclaredColumn {
  if ('key' in declaration) {
    const { key, type } = declaration;
    const value = (row: OutputRow) => row[key] ?? null;
    return { read: (cell) => ({ [key]: readCell(type, cell) }), name, ...declaration, value };
  }
  if ('value' in declaration) return { name, ...declaration };
  const { ofTrace: key } = declaration;
  const read = (cell: unknown) => (typeof cell === 'string' ? { trace: { [key]: cell } } : {});
  return { name, ...declaration, value: ({ trace }) => trace[key] ?? null, read };
}

/** Name of one of our columns. */
export type OurColumn = keyof typeof OURS;

/** All their names, in the order in which they are written. */
export const OUR_COLUMNS = Object.keys(OURS) as readonly OurColumn[];

const COLUMNS = new Map(OUR_COLUMNS.map((name) => [name, columnOf(name, OURS[name])]));

/** One of them by its name. */
export function ourColumn(name: OurColumn): DeclaredColumn {
  return COLUMNS.get(name) as DeclaredColumn;
}

/** One of our columns by its name, or a column that was asked for besides. */
export type WrittenColumn = OurColumn | OutputColumn;

/** Those of our columns that are written where no column of the input holds the same text. */
export const TEXT_COLUMNS = ['prompt', 'completion'] as const satisfies readonly OurColumn[];
export type TextColumn = (typeof TEXT_COLUMNS)[number];

export function isTextColumn(column: WrittenColumn): column is TextColumn {
  return TEXT_COLUMNS.some((name) => name === column);
}

/** A written column's name. */
export function columnName(column: WrittenColumn): string {
  return typeof column === 'string' ? column : column.name;
}

/** What is written of ours, in its fixed order, and behind it what was asked for besides. */
export function declared(columns: readonly WrittenColumn[]): OutputColumn[] {
  const ours = OUR_COLUMNS.filter((name) => columns.includes(name)).map(ourColumn);
  return [...ours, ...columns.filter((column) => typeof column !== 'string')];
}

/** A row's cells by column: plain values; lists are arrays. */
export type Cells = Readonly<Record<string, unknown>>;

/** The cells of our columns: one of their names that was not chosen is the input's own. @param chosen undefined: any that is there */
export function oursOf(columns: Cells, chosen: Iterable<string> | undefined): Cells {
  if (chosen === undefined) return columns;
  const own = [...chosen].filter((name) => Object.hasOwn(columns, name));
  return Object.fromEntries(own.map((name) => [name, columns[name]]));
}

/**
 * Decodes a row: what it lacks is null.
 * @param cells of our columns
 * @param further columns beside ours
 */
export function storedRow(cells: Cells, row: InputRow, further: readonly OutputColumn[] = []): OutputRow {
  const blank = blankRow({
    ...{ id: `${row.stem}:${row.row}`, prompt: [], completion: '', references: [], reward: null },
    source: row,
  });
  const there = OUR_COLUMNS.filter((name) => name in cells);
  const parts = there.map((name) => ourColumn(name).read(cells[name]));
  const requested = further.map(({ name, type }) => [name, readCell(type, cells[name])] as const);
  return {
    ...Object.assign({}, blank, ...parts),
    trace: Object.assign({}, blank.trace, ...parts.map((part) => part.trace)),
    ...(further.length > 0 && { requested: Object.fromEntries(requested) }),
  };
}

/** Whether a row was scored, or cut by `segment`; undefined: neither. */
export function kindOf({ segments, status, sigma }: Cells): 'scored' | 'cut' | undefined {
  const isRow = isList(segments) && !Array.from(segments).some((segment) => !isObject(segment));
  if (!isRow || typeof status !== 'string') return undefined;
  return isList(sigma) ? 'scored' : segments.length > 0 ? 'cut' : undefined;
}

/**
 * Those of a command's columns that `--columns` names, or all; and the texts that are written where no column of the input holds them.
 * @param beside what is written in any case, and may be named, too
 * @throws RredcotError (exit 2) for a name that is none of them
 */
export function chosenColumns(
  all: readonly OurColumn[],
  chosen: readonly string[] | undefined,
  beside: readonly OutputColumn[] = [],
) {
  if (chosen === undefined) {
    const columns = all.filter((name) => !isTextColumn(name));
    return { columns, texts: TEXT_COLUMNS.filter((name) => all.includes(name)) };
  }
  const names: readonly string[] = [...all, ...beside.map(columnName)];
  const unknown = chosen.find((name) => !names.includes(name));
  if (unknown !== undefined)
    throw usageError(
      `--columns ${unknown}: is none of the columns that are written beside the input's`,
      `--columns with some of ${names.join(',')}`,
    );
  return { columns: all.filter((name) => chosen.includes(name)), texts: [] };
}
