// The calibration file: what a fit has found, and of which traces; sealed by its hash, and the values that it gives the states of a trace.
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { dataError, usageError } from '../errors.js';
import { readGivenJson } from '../io/files/files.js';
import { VERSION } from '../package-files.js';
import type { Trace } from '../trace.js';
import { type Fit, fitRows, type Known } from './fit/fit.js';
import { FOLDS, groupPlace, KnownGroups } from './fit/groups.js';
import { logitOf, type Standardisation, sigmoid, standardised } from './fit/logistic.js';
import { FEATURES_OF, type FitKind } from './states.js';

/** How traces were scored, where a file of them says so. */
export interface ScoredWith {
  /** sha256 of the policy's files; null where theirs do not say */
  readonly policy: Readonly<Record<string, string>> | null;
  /** as far as what is known of states depends on it */
  readonly scored_with: Readonly<Record<string, unknown>> | null;
}

/** Of which traces a fit is. */
export interface FitAbout extends ScoredWith {
  readonly kind: FitKind;
  /** behind which hidden states were read */
  readonly layers: readonly number[];
  /** traces that were left out, by reason */
  readonly skipped: Readonly<Record<string, number>>;
}

/** What `rredcot calibrate` writes. */
export type CalibrationFile = Readonly<ReturnType<typeof calibrationFile>>;

const FORMAT = 2;

/** The file of a fit. */
export function calibrationFile(fit: Fit, { kind, layers, skipped, policy, scored_with }: FitAbout) {
  const { seen, uses, why, hidden, weights, l2, quality, withStates, withoutStates } = fit;
  const { traces, states, groups, meanReward, scale } = seen;
  const content = {
    ...{ version: FORMAT, rredcot: VERSION, uses, why, estimator: kind },
    ...{ layers: hidden > 0 ? layers : [], hidden, features: FEATURES_OF[kind] },
    ...{ mean: [...scale.mean], sd: [...scale.sd] },
    /** intercept first, then by hidden state, feature and peers: of each fold, and of all traces; null where nothing is used */
    weights: weights?.map((own) => [...own]) ?? null,
    ...{ l2, traces, states, skipped, mean_reward: traces === 0 ? null : meanReward },
    /** at least so many where `group_marks`, 32 bits of each group's hash, are null: too many to be named */
    ...{ groups: groups.size, group_marks: groups.toText() },
    /** nats a trace, each of folds that were left out */
    ...{ log_loss: quality?.log_loss ?? null, with_states: withStates, without_states: withoutStates },
    ...{ auc: quality?.auc ?? null, reliability: quality?.reliability ?? null, policy, scored_with },
  };
  return { ...content, sha256: contentHash(content) };
}

/** SHA-256 of a file's fields, in their order, as JSON without spaces; its own `sha256` is left out. */
function contentHash(file: object): string {
  const { sha256: _, ...content } = file as { readonly sha256?: unknown };
  return createHash('sha256').update(JSON.stringify(content)).digest('hex');
}

/** The part of it that a run keeps in its configuration. */
export type StoredModel = Calibration['model'];

/** That of a run's stored configuration; undefined where there is none. */
export function storedModel(found: unknown): StoredModel | undefined {
  const { uses, estimator } = Object(found) as StoredModel;
  return uses && Object.hasOwn(FEATURES_OF, estimator) ? (found as StoredModel) : undefined;
}

/** A calibration as traces are valued with it. */
export class Calibration {
  readonly model;
  readonly #groups: KnownGroups;
  readonly #scale: Standardisation;
  readonly #weights: readonly Float64Array[];

  constructor(readonly file: CalibrationFile) {
    const { uses, why, estimator, layers, traces, sha256 } = file;
    this.model = { uses, why, estimator, layers, traces, sha256 };
    this.#groups = KnownGroups.ofText(file.group_marks);
    this.#scale = { mean: Float64Array.from(file.mean), sd: Float64Array.from(file.sd) };
    this.#weights = file.weights?.map((own) => Float64Array.from(own)) ?? [];
  }

  get isProbe(): boolean {
    return this.file.estimator === 'probe';
  }

  /** Whether the values are to stay as they are. */
  get standsBack(): boolean {
    return this.file.uses === 'now';
  }

  /**
   * V(s_0..K) of a trace, as it is stored, by weights that have not seen a reward of its group: of all traces, or, where the group was
   * among them, of its fold.
   */
  values(trace: Pick<Trace, 'group' | 'id'>, known: Known): Float32Array {
    const place = groupPlace(trace);
    const own = this.#weights[this.#groups.has(place) ? place.fold : FOLDS];
    if (own === undefined) throw new Error('the fit has no weights');
    const z = standardised(fitRows(known, this.file.estimator, this.file.hidden), this.#scale);
    const F = own.length - 1;
    return Float32Array.from({ length: z.length / F }, (_, k) => sigmoid(logitOf(own, z, k * F)));
  }
}

/**
 * Reads what `rredcot calibrate` has written.
 * @param isProbe whether it is to be one of hidden states
 * @throws RredcotError (exit 2) for what is no such file, 65 for what was edited
 */
export async function readCalibration(path: string, isProbe = false): Promise<Calibration> {
  const hint = isProbe
    ? 'rredcot calibrate --probe scored.parquet -o probe.json'
    : 'rredcot calibrate scored.parquet -o calibration.json';
  const found = Object(await readGivenJson('--calibration', path, hint)) as CalibrationFile;
  const refuse = (what: string) => usageError(`--calibration ${path}: ${what}`, hint);
  const { version, estimator, features } = found;
  const own = Object.hasOwn(FEATURES_OF, estimator) ? FEATURES_OF[estimator] : undefined;
  if (own === undefined || version !== FORMAT)
    throw refuse(`is no calibration file of version ${FORMAT}, as this program writes it`);
  if (isProbe !== (estimator === 'probe'))
    throw refuse(
      isProbe ? 'is no probe, which --estimator probe takes' : 'is a probe, for --estimator probe',
    );
  if (!isDeepStrictEqual(features, own)) throw refuse(`features: expected ${own.join(', ')}`);
  if (contentHash(found) !== found.sha256)
    throw dataError(`${path}: was changed after it was written: its sha256 is that of other fields`, hint);
  return new Calibration(found);
}
