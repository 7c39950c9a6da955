// The calibrated value at work: a calibration file in, V(s) in the place of v̂(s) out (METHOD §3).
import { readFile } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import { usageError } from '../errors.js';
import { fileError } from '../io/files/file-error.js';
import type { Trace } from '../trace.js';
import { Calibration, parseCalibration, type ScoredWith } from './calibrate/calibration.js';
import type { TraceResult } from './trace-result.js';
import type { TraceValues } from './value.js';

/** Status where a calibration stands back: the values are those of `pr`. */
export const UNCALIBRATED = 'value:uncalibrated';

/** What of a run's configuration decides where states are, and what their v̂ and ζ mean. */
const SCORED_WITH = [
  ...['segmenter', 'maxSegments', 'keywords', 'entropyShare', 'entropyThreshold'],
  ...['cutpointProbability', 'cutpointEvery', 'adaptiveLimit', 'bank', 'rewardRange'],
];

/** Reads what `rredcot calibrate` has written. @throws RredcotError (exit 2) naming what is not as it should be */
export async function readCalibration(path: string): Promise<Calibration> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    throw fileError(error, path, 'read');
  });
  let found: unknown;
  try {
    found = JSON.parse(text);
  } catch (error) {
    throw usageError(`--calibration ${path}: is not JSON: ${(error as Error).message}`, HINT);
  }
  const file = parseCalibration(found);
  if (typeof file === 'string') throw usageError(`--calibration ${path}: ${file}`, HINT);
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

/** V(s_0..K) in the place of v̂. A trace without a reference has no v̂: its values stay 0. */
export function calibratedValues(
  found: TraceValues,
  { group, id }: Trace,
  { segmentation, logprobs }: TraceResult,
  calibration: Calibration,
): TraceValues {
  if (found.referenceTokens.length === 0) return found;
  const { values } = found;
  return {
    ...found,
    values: calibration.values(group ?? id, { values, ends: segmentation.thoughtEnds, logprobs }),
  };
}
