// Puts the calibrated value to work (METHOD §3): V(s) takes the place of v̂(s), also for the states of a stored row.
import { isDeepStrictEqual } from 'node:util';
import { dataError, TraceRejected, usageError } from '../errors.js';
import { readGivenJson } from '../io/files/json-file.js';
import type { StoredRow } from '../io/scored/stored-rows.js';
import type { Trace } from '../trace.js';
import { Calibration, contentHash, parseCalibration, type ScoredWith } from './calibrated/calibration.js';
import { type ColumnFeature, columnNumbers, writtenCell } from './calibrated/columns.js';
import type { States } from './calibrated/features.js';
import type { TraceResult } from './trace-result.js';
import { geometricMean, rightNow, type TraceValues } from './value.js';

/** Status where a calibration stands back: the values are those of `pr`. */
export const UNCALIBRATED = 'value:uncalibrated';

/** What of a run's configuration decides where states are, and what their v̂ and ζ mean. */
const SCORED_WITH = [
  ...['segmenter', 'maxSegments', 'keywords', 'entropyShare', 'entropyThreshold'],
  ...['cutpointProbability', 'cutpointEvery', 'adaptiveLimit', 'bank', 'rewardRange'],
];

/** Reads what `rredcot calibrate` has written. @throws RredcotError (exit 2) naming what is not as it should be */
export async function readCalibration(path: string): Promise<Calibration> {
  const found = await readGivenJson('--calibration', path, HINT);
  const file = parseCalibration(found);
  if (typeof file === 'string') throw usageError(`--calibration ${path}: ${file}`, HINT);
  if (contentHash(found as object) !== file.sha256)
    throw dataError(`${path}: was changed after it was written: its sha256 is that of other fields`, HINT);
  return new Calibration(file);
}

const HINT = 'rredcot calibrate scored.parquet -o calibration.json';

/** How a run scores, as far as φ depends on it. @param config the resolved configuration */
export function scoredWith(config: Readonly<Record<string, unknown>>): ScoredWith['scored_with'] {
  const keys = config.segmenter === 'fixed' ? [...SCORED_WITH, 'fixedLength'] : SCORED_WITH;
  return Object.fromEntries(
    keys.flatMap((key) => (config[key] === undefined ? [] : [[key, config[key]] as const])),
  );
}

/** Why the values that a calibration gives these traces are not to be trusted as they are, as a warning; undefined: they are. */
export function calibrationDoubt({ file }: Calibration, own: ScoredWith): string | undefined {
  if (file.stands_back !== null)
    return `the calibration stands back (${file.stands_back}): the values of pr stay as they are, status ${UNCALIBRATED}`;
  const doubts = [
    ...(isDeepStrictEqual(file.policy, own.policy) ? [] : ['by another policy']),
    ...(isDeepStrictEqual(file.scored_with, own.scored_with) ? [] : ['with other segments or flags']),
  ];
  if (doubts.length === 0) return undefined;
  return `the calibration was fitted to traces that were scored ${doubts.join(' and ')}, or that do not say how: values are off its scale as far as these differ`;
}

/**
 * V(s_0..K) in the place of v̂. A trace without a reference has no v̂: its values stay 0.
 * @param utilities (N) ζ_n of the references
 * @throws TraceRejected (`feature`) as {@link furtherNumbers}
 */
export function calibratedValues(
  found: TraceValues,
  trace: Trace,
  { segmentation, logprobs }: TraceResult,
  utilities: Float32Array,
  calibration: Calibration,
): TraceValues {
  const { values, referenceLogprobs, referenceTokens } = found;
  if (referenceTokens.length === 0) return found;
  const geoValues = geoValuesOf(referenceLogprobs, referenceTokens, utilities);
  const ends = segmentation.thoughtEnds;
  const columns = furtherNumbers(calibration, (name) => writtenCell(trace, name), ends);
  const states = { values, geoValues, ends, logprobs, columns };
  return { ...found, values: calibration.values(trace.group ?? trace.id, states) };
}

/**
 * What a calibration reads in columns of a trace's row.
 * @param cell of the row, by the name under which a column is written
 * @throws TraceRejected (`feature`) where one of them is missing, or has not a number for each state
 */
export function furtherNumbers(
  { further }: Calibration,
  cell: (column: string) => unknown,
  ends: Int32Array,
): ReadonlyMap<string, Float64Array> {
  const columns = columnNumbers(further, cell, ends);
  if (typeof columns !== 'string') return columns;
  const hint = '--join <file> --join-columns, or a calibration without --features';
  throw new TraceRejected('feature', `the calibration reads it, and ${columns}: ${hint}`);
}

/** (K+1) `pr-geo` of every exit, from what a row stores. */
export function geoValuesOf(
  logprobs: readonly Float32Array[],
  tokens: Int32Array,
  utilities: Float32Array,
): Float32Array {
  return Float32Array.from(logprobs, (exit) => geometricMean({ logprobs: exit, tokens, utilities }));
}

/** Columns that the states of a trace are read from. */
export const STATE_COLUMNS = [
  ...(['segments', 'logprobs', 'reference_logprobs', 'reference_tokens', 'reference_utilities'] as const),
] as const;

/**
 * @param further what of them stands in further columns
 * @returns the states, or why the row has none, as half a sentence
 */
export function storedStates(row: StoredRow, further: readonly ColumnFeature[] = []): States | string {
  const segments = row.cell('segments');
  if (!Array.isArray(segments)) return 'it has no segments';
  const ends = (segments as Readonly<Record<string, unknown>>[])
    .filter(({ kind }) => kind === 'thought')
    .map(({ end }) => end);
  const logprobs = floats(row.cell('logprobs'));
  if (logprobs === null) return 'it has no logprobs';
  const isRising = ends.every((end, k) => Number(end) > (k === 0 ? 0 : Number(ends[k - 1])));
  if (!isRising || !(Number(ends.at(-1) ?? 0) <= logprobs.length))
    return `its segments end at ${ends.join(', ')}, with ${logprobs.length} tokens`;
  const utilities = floats(row.cell('reference_utilities'));
  const exits = row.cell('reference_logprobs');
  if (utilities === null || !Array.isArray(exits)) return 'it has no reference_logprobs';
  if (utilities.length === 0) return 'it has no reference';
  if (exits.length !== ends.length + 1)
    return `reference_logprobs has ${exits.length} exits, its segments ${ends.length + 1}`;
  const found = exits.map(floats);
  if (!found.every((exit): exit is Float32Array => exit?.length === utilities.length))
    return `reference_logprobs does not have ${utilities.length} entries at every exit`;
  const counts = floats(row.cell('reference_tokens'));
  if (counts?.length !== utilities.length || !counts.every((count) => count > 0))
    return `its reference_tokens are not ${utilities.length} counts`;
  const tokens = Int32Array.from(counts);
  const values = Float32Array.from(found, (logprobs) => rightNow({ logprobs, tokens, utilities }));
  const geoValues = geoValuesOf(found, tokens, utilities);
  const isWhole = values.every(Number.isFinite) && logprobs.every(Number.isFinite);
  if (!isWhole) return 'its numbers are not finite';
  const thoughtEnds = Int32Array.from(ends, Number);
  const columns = columnNumbers(further, (name) => row.cell(name), thoughtEnds);
  return typeof columns === 'string' ? columns : { values, geoValues, ends: thoughtEnds, logprobs, columns };
}

function floats(cell: unknown): Float32Array | null {
  return Array.isArray(cell) || ArrayBuffer.isView(cell)
    ? Float32Array.from(cell as unknown as ArrayLike<number>, Number)
    : null;
}
