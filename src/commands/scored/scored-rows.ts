// Decodes a stored row: its columns become numbers again, and the input's own are passed on.
import { TraceRejected } from '../../errors.js';
import type { Creditable } from '../../estimate/credit.js';
import { readCell } from '../../io/arrow/output-columns.js';
import { checkRow } from '../../io/scored/check-row.js';
import type { StoredRow } from '../../io/scored/stored-rows.js';
import { segmentOf } from '../../report/scored-row.js';
import type { InputRow } from '../../rows.js';
import type { OutputRow } from '../../scored.js';
import type { Scored } from './open-scored.js';

type Cells = Readonly<Record<string, unknown>>;

/** Columns without which no credit can be made again. */
export const NEEDED = [
  ...(['segments', 'value_start', 'reward', 'baseline'] as const),
  ...(['reference_utilities', 'status'] as const),
] as const;

/** A stored trace. */
export interface StoredTrace {
  /** with what our columns hold; what the file lacks is null */
  readonly row: OutputRow;
  /** what credit follows from, but for the mean of its group */
  readonly creditable: Omit<Creditable, 'groupMean'>;
}

/**
 * Reads a row.
 * @throws TraceRejected (`scored`) where it is not as `score` writes one
 */
export function storedTrace(row: InputRow, { ours, valued, made, credit }: Scored): StoredTrace {
  const known: ReadonlySet<string> = new Set(ours);
  const cell = (name: string): unknown => (known.has(name) ? (row.columns[name] ?? null) : null);
  const stored: StoredRow = { number: row.row, has: (name) => known.has(name), cell };
  const [fault] = checkRow(stored, { isScored: true }).faults;
  if (fault !== undefined) throw new TraceRejected('scored', `${fault}: rredcot verify tells more`);

  const cells = cell('segments');
  const segments = Array.isArray(cells) ? (cells as Cells[]).map(segmentOf) : [];
  const ends = Int32Array.from(segments, ({ end }) => end ?? 0);
  const T = ends[ends.length - 1] ?? 0;
  const thoughts = segments.filter(({ kind }) => kind === 'thought').map(({ value }) => value);
  // JSON has no −∞
  const none = credit.estimator.isLog ? Number.NEGATIVE_INFINITY : 0;
  const values = Float32Array.from([cell('value_start'), ...thoughts], (value) => Number(value ?? none));
  const entropies = floats(cell('entropies'));
  const logprobs = floats(cell('logprobs'));
  const reward = numberOrNull(cell('reward'));
  const utilities = floats(cell('reference_utilities')) ?? new Float32Array(0);
  const status = String(cell('status') ?? 'ok');
  const exits = cell('reference_logprobs');
  const item = numberOrNull(cell('source_item'));
  const group = cell('group');
  const requested = Object.fromEntries(
    valued.map(({ name, type }) => [name, readCell(type, row.columns[name] ?? null)]),
  );
  return {
    row: {
      trace: {
        id: String(cell('id') ?? ''),
        ...(typeof group === 'string' ? { group } : {}),
        prompt: typeof cell('prompt') === 'string' ? (cell('prompt') as string) : [],
        completion: String(cell('completion') ?? ''),
        references: [],
        reward,
        ...(item === null ? {} : { item }),
        source: passedOn(row, made, {
          file: String(cell('source_file') ?? row.file),
          row: Number(cell('source_row') ?? row.row),
        }),
      },
      promptIds: ids(cell('prompt_ids')),
      completionIds: ids(cell('completion_ids')),
      logprobs,
      entropies,
      sigma: floats(cell('sigma')),
      segments,
      valueStart: values[0] as number,
      referenceLogprobs: Array.isArray(exits) ? exits.map((exit) => floats(exit) as Float32Array) : null,
      reward,
      baseline: numberOrNull(cell('baseline')),
      referenceUtilities: floats(cell('reference_utilities')),
      referenceTokens: ids(cell('reference_tokens')),
      sigmaEss: numberOrNull(cell('sigma_ess')),
      sigmaMaxWeight: numberOrNull(cell('sigma_max_weight')),
      sigmaGain: numberOrNull(cell('sigma_gain')),
      status: status === 'ok' ? [] : status.split(';'),
      ...(valued.length === 0 ? {} : { requested }),
    },
    creditable: {
      ...{ ends, values, reward, utilities },
      start: priorStart(requested),
      answered: segments[segments.length - 1]?.kind === 'answer',
      entropies: entropies ?? new Float32Array(T),
      logprobs: logprobs ?? new Float32Array(T),
    },
  };
}

/** V(s_0) for a baseline, where values rest on the trace's own outcome. */
function priorStart({ value_prior: prior }: Cells): number | undefined {
  return prior instanceof Float32Array ? prior[0] : undefined;
}

/** The row as the input's own columns have it, in the place where the input had it. */
function passedOn(
  row: InputRow,
  made: ReadonlySet<string>,
  place: { readonly file: string; readonly row: number },
): OutputRow['trace']['source'] {
  const { ordinal, byteOffset, arrow } = row;
  let columns: Cells | undefined;
  return {
    ...place,
    ...{ ordinal, byteOffset },
    ...(arrow === undefined ? {} : { arrow }),
    get columns() {
      columns ??= Object.fromEntries(Object.entries(row.columns).filter(([name]) => !made.has(name)));
      return columns;
    },
    get raw() {
      return row.raw;
    },
  };
}

function numberOrNull(value: unknown): number | null {
  return typeof value === 'number' || typeof value === 'bigint' ? Number(value) : null;
}

function floats(value: unknown): Float32Array | null {
  return Array.isArray(value) ? Float32Array.from(value as number[]) : null;
}

function ids(value: unknown): Int32Array | null {
  return Array.isArray(value) ? Int32Array.from(value as number[]) : null;
}
