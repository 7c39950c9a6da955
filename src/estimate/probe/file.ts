// The probe's file: what a fit has found, and the values that it gives the states of a trace.
import { isDeepStrictEqual } from 'node:util';
import { VERSION } from '../../package-files.js';
import { countsOf, type FitAbout, readFit, sealed } from '../calibration.js';
import { FittedValues } from '../fit/cross-fit.js';
import { FEATURES_OF } from '../states.js';
import { type ProbeFit, type ProbeTrace, probeRows } from './fit.js';

/** What a fit has found; numbers of weights are float32 in base64, intercepts first: of each fold, then of all traces. */
export type ProbeFile = Readonly<ReturnType<typeof probeFile>>;

const textOf = (x: ArrayLike<number>) => Buffer.from(Float32Array.from(x).buffer).toString('base64');
const floats = (text: string) =>
  Float64Array.from(new Float32Array(Uint8Array.from(Buffer.from(text, 'base64')).buffer));

/** The file of a fit. */
export function probeFile(
  { uses, why, hidden, seen, weights, l2, withStates, withoutStates }: ProbeFit,
  { layers, skipped, policy, scored_with }: Omit<FitAbout, 'base'>,
) {
  return sealed({
    ...{ version: 1, kind: 'probe', rredcot: VERSION, uses, why },
    ...{ layers: hidden > 0 ? layers : [], hidden, features: FEATURES_OF.probe },
    ...{ mean: textOf(seen.scale.mean), sd: textOf(seen.scale.sd) },
    ...{ weights: weights && textOf(weights.flatMap((own) => [...own])), l2, ...countsOf(seen, skipped) },
    ...{ with_states: withStates, without_states: withoutStates, policy, scored_with },
  });
}

/** What gives states their values; nothing where the file uses nothing of them. */
export class Probe {
  readonly #values: FittedValues;

  constructor(readonly file: ProbeFile) {
    const scale = { mean: floats(file.mean), sd: floats(file.sd) };
    const all = floats(file.weights ?? '');
    const Q = 1 + scale.mean.length;
    const weights = Array.from({ length: all.length / Q }, (_, n) => all.subarray(n * Q, (n + 1) * Q));
    this.#values = new FittedValues(file.group_marks, scale, weights);
  }

  /** V(s_0..K), as stored. @param key its group, or its id */
  values(key: string, trace: Pick<ProbeTrace, 'states' | 'features' | 'peers'>): Float32Array {
    return this.#values.of(key, probeRows(trace, this.file.hidden));
  }
}

/** @throws RredcotError as {@link readFit} */
export async function readProbe(path: string): Promise<Probe> {
  const file = await readFit(path, 'rredcot calibrate --probe scored.parquet -o probe.json', (found) => {
    const { kind, features } = Object(found) as ProbeFile;
    const isProbe = kind === 'probe' && isDeepStrictEqual(features, FEATURES_OF.probe);
    return isProbe ? (found as ProbeFile) : 'is no probe, which --estimator probe takes';
  });
  return new Probe(file);
}
