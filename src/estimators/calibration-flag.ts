// `--calibration`, which the estimators share whose values are put on the reward's scale by what `rredcot calibrate` has fitted.
import { usageError } from '../errors.js';
import type { Calibration } from '../estimate/calibrated/calibration.js';
import { calibrationDoubt, readCalibration, scoredWith, UNCALIBRATED } from '../estimate/calibrated.js';
import type { Flag } from '../flag-values.js';
import type { Asked, Config, FlagValues } from './estimator.js';

export const CALIBRATION: Flag = [
  '--calibration <file>',
  'of --estimator calibrated and siblings: what rredcot calibrate has written (default: none; both need it)',
];

/** @throws RredcotError (exit 2) where none is named, or it is none; 65 where it was edited */
export async function givenCalibration(name: string, { calibration }: FlagValues): Promise<Calibration> {
  if (calibration !== undefined) return readCalibration(String(calibration));
  throw usageError(
    `--estimator ${name} needs a calibration`,
    'rredcot calibrate scored.parquet -o calibration.json, then --calibration calibration.json',
  );
}

/** What an estimator has to say of its calibration; where that stands back, values are as they are. */
export function calibrationFacts(
  calibration: Calibration,
): Required<Pick<Asked, 'doubt' | 'status'>> & { readonly model: Config } {
  return {
    status: calibration.standsBack ? [UNCALIBRATED] : [],
    doubt: ({ policy, config }) => calibrationDoubt(calibration, { policy, scored_with: scoredWith(config) }),
    model: { calibration: calibration.model },
  };
}
