// Our columns, each declared once: name, Arrow type, what it means, how a scored row fills it and is read back from it, and what a reader may rely on.

import {
  FLOAT32,
  FLOAT32_LIST,
  INT32,
  INT32_LIST,
  type OutputColumn,
  readCell,
  STRING,
} from '../io/arrow/output-columns.js';
import type { ColumnType } from '../io/arrow/schema.js';
import { type OutputRow, ownTokens, type SegmentRow } from '../scored.js';
import type { Trace } from '../trace.js';

/** What a cell says of a row. */
export type CellPart = Partial<Omit<OutputRow, 'trace'>> & { readonly trace?: Partial<Trace> };

/** What holds of a column's cells in whatever `score` and `segment` write. */
export interface Promised {
  /** a list with an entry for each completion token */
  readonly isPerToken?: true;
  /** between which its numbers lie */
  readonly range?: readonly [low: number, high: number];
  /** never null: in any row, in a scored one, in one that a policy has read */
  readonly isThere?: 'always' | 'scored' | 'read';
}

/** One of our columns. */
export interface DeclaredColumn extends OutputColumn, Promised {
  readonly meaning: string;
  /** absent where the rest of the row says it */
  readonly read?: (cell: unknown) => CellPart;
}

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
    { name: 'entropy', type: FLOAT32 },
    { name: 'value', type: FLOAT32 },
    { name: 'delta', type: FLOAT32 },
    { name: 'sigma', type: FLOAT32 },
  ],
};

/** A column whose cell is a field of the row as it is. */
function field(
  name: string,
  type: ColumnType,
  key: keyof Omit<OutputRow, 'trace'>,
  meaning: string,
  promise: Promised = {},
): DeclaredColumn {
  const value = (row: OutputRow) => row[key] ?? null;
  return { name, type, meaning, value, read: (cell) => ({ [key]: readCell(type, cell) }), ...promise };
}

/** A text of the trace. */
function text(name: string, key: 'id' | 'group' | 'completion', meaning: string, promise: Promised = {}) {
  const read = (cell: unknown) => (typeof cell === 'string' ? { trace: { [key]: cell } } : {});
  return {
    name,
    type: STRING,
    meaning,
    value: ({ trace }: OutputRow) => trace[key] ?? null,
    read,
    ...promise,
  };
}

/** In the order in which they are written. */
const OURS = {
  id: text('id', 'id', 'the trace', { isThere: 'always' }),
  group: text('group', 'group', 'traces of one prompt share it'),
  prompt: {
    name: 'prompt',
    type: STRING,
    meaning: 'the prompt: text, or messages of the input',
    // null where it is messages that nobody has rendered
    value: ({ trace: { prompt } }) => (typeof prompt === 'string' ? prompt : null),
    read: (cell) => (typeof cell === 'string' ? { trace: { prompt: cell } } : {}),
  },
  completion: text('completion', 'completion', 'the text that `char_start` and `char_end` count in'),
  prompt_ids: field('prompt_ids', INT32_LIST, 'promptIds', 'token ids of the prompt, as scored', {
    ...{ isThere: 'read', range: [0, MOST_TOKENS - 1] },
  }),
  completion_ids: field(
    'completion_ids',
    INT32_LIST,
    'completionIds',
    'T token ids of the completion, as scored',
    { isPerToken: true, isThere: 'always', range: [0, MOST_TOKENS - 1] },
  ),
  completion_mask: {
    name: 'completion_mask',
    type: INT32_LIST,
    meaning: '1 for a completion token that the policy wrote, 0 for one that it was shown',
    // of runs with traces of several turns alone
    value: (row) => {
      const own = ownTokens(row) ?? new Uint8Array(row.segments.at(-1)?.end ?? 0).fill(1);
      return own.length === 0 ? null : Int32Array.from(own);
    },
    isPerToken: true,
  },
  logprobs: field(
    'logprobs',
    FLOAT32_LIST,
    'logprobs',
    'log-probability of each completion token under the policy, nats, temperature 1',
    { isPerToken: true, isThere: 'read', range: [Number.NEGATIVE_INFINITY, LOGIT_TOLERANCE] },
  ),
  finish_reason: field(
    'finish_reason',
    STRING,
    'finish',
    'of `sample`: `stop`: ended by itself; `length`: cut at the limit of tokens',
  ),
  entropies: field(
    'entropies',
    FLOAT32_LIST,
    'entropies',
    "entropy of the policy's distribution at each completion token, nats",
    {
      ...{ isPerToken: true, isThere: 'read' },
      range: [-LOGIT_TOLERANCE, Math.log(MOST_TOKENS) + LOGIT_TOLERANCE],
    },
  ),
  sigma: field(
    'sigma',
    FLOAT32_LIST,
    'sigma',
    'the credit of each completion token; sums to 1, may be negative',
    { isPerToken: true, isThere: 'scored' },
  ),
  segments: {
    name: 'segments',
    type: { kind: 'list', element: SEGMENT },
    meaning:
      'steps of the trace: `start`, `end` (tokens, end exclusive), `char_start`, `char_end` (code points), `kind` (thought, answer, shown), `entropy` (sum), `value` after it, `delta`, `sigma` (sum)',
    value: (row) => row.segments,
    read: (cell) => ({ segments: segmentsOf(cell) }),
  },
  value_start: field('value_start', FLOAT32, 'valueStart', 'value before the first step', {
    isThere: 'scored',
  }),
  reference_logprobs: field(
    'reference_logprobs',
    { kind: 'list', element: FLOAT32_LIST },
    'referenceLogprobs',
    'log-probability of each reference answer at each exit point',
    { isThere: 'scored', range: [Number.NEGATIVE_INFINITY, LOGIT_TOLERANCE] },
  ),
  reward: {
    name: 'reward',
    type: FLOAT32,
    meaning: 'the reward ζ of the trace; null where unknown',
    value: (row) => row.reward,
    read: (cell) => {
      const reward = readCell(FLOAT32, cell) as number | null;
      return { reward, trace: { reward } };
    },
    range: [0, 1],
  },
  baseline: field('baseline', FLOAT32, 'baseline', 'the baseline b; R* = ζ − b is what σ spreads'),
  reference_utilities: field(
    'reference_utilities',
    FLOAT32_LIST,
    'referenceUtilities',
    'what each reference answer earns',
    { isThere: 'scored', range: [0, 1] },
  ),
  reference_tokens: field(
    'reference_tokens',
    INT32_LIST,
    'referenceTokens',
    'how many tokens of each reference answer were scored',
    { isThere: 'scored', range: [1, MOST_TOKENS - 1] },
  ),
  source_file: {
    name: 'source_file',
    type: STRING,
    meaning: 'input that the trace comes from, by the path that was given',
    value: (row) => row.trace.source.file,
    isThere: 'always',
  },
  source_row: {
    name: 'source_row',
    type: { kind: 'int64' },
    meaning: 'row of the input that the trace comes from, counted from 0',
    value: (row) => row.trace.source.row,
    isThere: 'always',
  },
  source_item: {
    name: 'source_item',
    type: INT32,
    meaning: 'place in the list of a row that held several traces, counted from 0; null for a row of one',
    value: (row) => row.trace.item ?? null,
    read: (cell) => {
      const item = readCell(INT32, cell) as number | null;
      return item === null ? {} : { trace: { item } };
    },
  },
  sigma_ess: field(
    'sigma_ess',
    FLOAT32,
    'sigmaEss',
    'effective number of tokens that carry the credit, 1/Σσ²',
    { isThere: 'scored' },
  ),
  sigma_max_weight: field(
    'sigma_max_weight',
    FLOAT32,
    'sigmaMaxWeight',
    'the largest σ·T of a token, without its sign',
    { isThere: 'scored' },
  ),
  sigma_gain: field(
    'sigma_gain',
    FLOAT32,
    'sigmaGain',
    'how much larger the gradient gets, Σ σ_t·T·(1 − p_t) / Σ (1 − p_t); null where the policy was sure of every token, or has not read the trace',
  ),
  status: {
    name: 'status',
    type: STRING,
    meaning: '`ok`, or codes for what was out of the ordinary',
    value: ({ status }) => (status.length === 0 ? 'ok' : [...new Set(status)].sort().join(';')),
    read: (cell) => ({ status: typeof cell !== 'string' || cell === 'ok' ? [] : cell.split(';') }),
    isThere: 'always',
  },
} satisfies Readonly<Record<string, DeclaredColumn>>;

function segmentsOf(cell: unknown): SegmentRow[] {
  const found = (readCell({ kind: 'list', element: SEGMENT }, cell) ?? []) as SegmentRow[];
  return found.map((segment) => ({
    ...segment,
    kind: segment.kind === 'answer' || segment.kind === 'shown' ? segment.kind : 'thought',
  }));
}

/** Name of one of our columns. */
export type OurColumn = keyof typeof OURS;

/** All their names, in the order in which they are written. */
export const OUR_COLUMNS = Object.keys(OURS) as readonly OurColumn[];

/** One of them by its name. */
export function ourColumn(name: OurColumn): DeclaredColumn {
  return OURS[name];
}

/** One of our columns by its name, or a column that was asked for besides. */
export type WrittenColumn = OurColumn | OutputColumn;

/** The columns of a run whose traces have one turn each. */
export function withoutMask(columns: readonly WrittenColumn[]): readonly WrittenColumn[] {
  return columns.filter((column) => columnName(column) !== 'completion_mask');
}

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
