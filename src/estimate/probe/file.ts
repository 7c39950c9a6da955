// The probe's file: what a fit has found, and the values that it gives the states of a trace.
import { isDeepStrictEqual } from 'node:util';
import { dataError, usageError } from '../../errors.js';
import { readGivenJson } from '../../io/files/files.js';
import { VERSION } from '../../package-files.js';
import { contentHash, type ScoredWith } from '../calibration.js';
import { FOLDS, groupPlace, KnownGroups } from '../calibration-fit.js';
import { logitOf, type Standardisation, sigmoid, standardise } from '../logistic.js';
import { FEATURES_OF } from '../states.js';
import { OF_PEERS, type ProbeFit, type ProbeTrace, probeRows } from './fit.js';

/** What a fit has found; numbers of weights are float32 in base64, intercepts first: of each fold, then of all traces. */
export type ProbeFile = Readonly<ReturnType<typeof probeFile>>;

const F = FEATURES_OF.probe.length;
const textOf = (x: ArrayLike<number>) => Buffer.from(Float32Array.from(x).buffer).toString('base64');
const floats = (text: string) =>
  Float64Array.from(new Float32Array(Uint8Array.from(Buffer.from(text, 'base64')).buffer));

/** @param layer behind which hidden states were read */
export function probeFile(
  { uses, why, scale, weights, groups, traces, ...fit }: ProbeFit,
  layer: number | null,
  { skipped, policy, scored_with }: ScoredWith & { readonly skipped: Readonly<Record<string, number>> },
) {
  const isOfStates = uses === 'states';
  const hidden = isOfStates ? scale.mean.length - F - OF_PEERS : 0;
  // without states theirs are no weights
  const from = scale.mean.length - F - OF_PEERS - hidden;
  const all = weights?.flatMap((own) => [own[0] as number, ...own.subarray(1 + from)]);
  const content = {
    ...{ version: 1, kind: 'probe', rredcot: VERSION, uses, why },
    ...{ layer: isOfStates ? layer : null, hidden, features: FEATURES_OF.probe },
    ...{ mean: textOf(scale.mean.subarray(from)), sd: textOf(scale.sd.subarray(from)) },
    ...{ weights: all ? textOf(all) : null, l2: isOfStates ? fit.l2 : null },
    ...{ traces, states: fit.states, skipped, groups: groups.size, group_marks: groups.toText() },
    mean_reward: traces === 0 ? null : fit.meanReward,
    ...{ with_states: fit.withStates, without_states: fit.withoutStates, policy, scored_with },
  };
  return { ...content, sha256: contentHash(content) };
}

/** What gives states their values; nothing where the file uses nothing of them. */
export class Probe {
  readonly #known: KnownGroups;
  readonly #scale: Standardisation;
  readonly #weights: Float64Array;

  constructor(readonly file: ProbeFile) {
    this.#known = KnownGroups.ofText(file.group_marks);
    this.#scale = { mean: floats(file.mean), sd: floats(file.sd) };
    this.#weights = floats(file.weights ?? '');
  }

  /** V(s_0..K), as stored, by weights that have not seen a reward of the trace's group. @param key its group, or its id */
  values(key: string, trace: Pick<ProbeTrace, 'states' | 'features' | 'peers'>): Float32Array {
    const place = groupPlace(key);
    const P = this.#scale.mean.length;
    const from = (1 + P) * (this.#known.has(place) ? place.fold : FOLDS);
    const rows = probeRows(trace, { D: this.file.hidden, F }, Float64Array);
    const z = new Float64Array(P);
    return Float32Array.from({ length: rows.length / P }, (_, k) => {
      standardise(rows, k * P, this.#scale, z);
      return sigmoid(logitOf(this.#weights.subarray(from, from + 1 + P), z));
    });
  }
}

/** @throws RredcotError (exit 2) for what is none, 65 for one that was edited */
export async function readProbe(path: string): Promise<Probe> {
  const hint = 'rredcot calibrate --probe scored.parquet -o probe.json';
  const found = Object(await readGivenJson('--calibration', path, hint)) as ProbeFile;
  if (found.kind !== 'probe' || !isDeepStrictEqual(found.features, FEATURES_OF.probe))
    throw usageError(`--calibration ${path}: is no probe, which --estimator probe takes`, hint);
  if (contentHash(found) !== found.sha256)
    throw dataError(`${path}: was changed after it was written: its sha256 is that of other fields`, hint);
  return new Probe(found);
}
