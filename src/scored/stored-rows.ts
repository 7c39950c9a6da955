// A row that this program wrote: which of its cells are ours, and what they hold, as it was when it was scored.

import { type OutputColumn, readCell } from '../io/arrow/output-columns.js';
import { columnarColumns, type Input, readRows } from '../io/read/inputs.js';
import { CONFIG_KEY } from '../io/write/output.js';
import { type InputRow, isBad } from '../rows.js';
import type { OutputRow, SegmentRow } from '../scored.js';

/** A row's cells by column: plain values; lists are arrays. */
export type Cells = Readonly<Record<string, unknown>>;

/** The columns of files in their order, and their types where these bring them along; of JSON lines the first row's. */
export async function columnsOf(inputs: readonly Input[]) {
  const typed = (await columnarColumns(inputs))?.columns ?? null;
  if (typed !== null) return { typed, columns: typed.map(({ name }) => name) };
  for await (const row of readRows(inputs))
    if (!isBad(row)) return { typed, columns: Object.keys(row.columns) };
  return { typed, columns: undefined };
}

/** The configuration that a file's metadata hold; undefined where they hold none, or another program's. */
export function storedConfig(metadata: ReadonlyMap<string, string>): Cells | undefined {
  try {
    return JSON.parse(metadata.get(CONFIG_KEY) ?? '') as Cells;
  } catch {
    return undefined;
  }
}

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
  const { id, group, prompt, completion, segments, status, reference_logprobs: exits } = cells;
  const reward = numberOrNull(cells.reward);
  const item = numberOrNull(cells.source_item);
  const requested = further.map(({ name, type }) => [name, readCell(type, cells[name] ?? null)] as const);
  return {
    trace: {
      id: typeof id === 'string' ? id : `${row.stem}:${row.row}`,
      ...(typeof group === 'string' && { group }),
      prompt: typeof prompt === 'string' ? prompt : [],
      completion: typeof completion === 'string' ? completion : '',
      references: [],
      reward,
      ...(item !== null && { item }),
      source: row,
    },
    promptIds: ids(cells.prompt_ids),
    completionIds: ids(cells.completion_ids),
    logprobs: floats(cells.logprobs),
    entropies: floats(cells.entropies),
    sigma: floats(cells.sigma),
    segments: Array.isArray(segments) ? segments.map(segmentOf) : [],
    valueStart: numberOrNull(cells.value_start),
    referenceLogprobs: Array.isArray(exits) ? exits.map((exit) => floats(exit) as Float32Array) : null,
    reward,
    baseline: numberOrNull(cells.baseline),
    referenceUtilities: floats(cells.reference_utilities),
    referenceTokens: ids(cells.reference_tokens),
    sigmaEss: numberOrNull(cells.sigma_ess),
    sigmaMaxWeight: numberOrNull(cells.sigma_max_weight),
    sigmaGain: numberOrNull(cells.sigma_gain),
    status: typeof status !== 'string' || status === 'ok' ? [] : status.split(';'),
    ...(further.length > 0 && { requested: Object.fromEntries(requested) }),
  };
}

function segmentOf(segment: Cells): SegmentRow {
  return {
    start: numberOrNull(segment.start),
    end: numberOrNull(segment.end),
    charStart: numberOrNull(segment.char_start),
    charEnd: numberOrNull(segment.char_end),
    kind: segment.kind === 'answer' || segment.kind === 'shown' ? segment.kind : 'thought',
    entropy: numberOrNull(segment.entropy),
    value: numberOrNull(segment.value),
    delta: numberOrNull(segment.delta),
    sigma: numberOrNull(segment.sigma),
  };
}

/** Whether a row was scored. */
export function isScored({ segments, status, sigma }: Cells): boolean {
  return Array.isArray(segments) && Array.isArray(sigma) && typeof status === 'string';
}

/** Whether it was cut by `segment`, and not scored. */
export function isCut({ segments, status, sigma }: Cells): boolean {
  return (
    Array.isArray(segments) && segments.length > 0 && typeof status === 'string' && !Array.isArray(sigma)
  );
}

function numberOrNull(cell: unknown): number | null {
  return typeof cell === 'number' || typeof cell === 'bigint' ? Number(cell) : null;
}

function floats(cell: unknown): Float32Array | null {
  return isList(cell) ? Float32Array.from(cell, Number) : null;
}

function ids(cell: unknown): Int32Array | null {
  return isList(cell) ? Int32Array.from(cell, Number) : null;
}

/** Whether a cell holds a list. */
export function isList(cell: unknown): cell is ArrayLike<unknown> {
  return Array.isArray(cell) || ArrayBuffer.isView(cell);
}
