// The calibration file: what it says, checked, and the values that it gives the states of a trace.
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { dataError, usageError } from '../errors.js';
import { readGivenJson } from '../io/files/files.js';
import { type Fit, FOLDS, groupPlace, KnownGroups, L2, LogLoss, Reliability } from './calibration-fit.js';
import { logitOf, sigmoid, standardise } from './logistic.js';
import { type Base, FEATURES_OF, type States, stateFeatures } from './states.js';

const Count = z.int().nonnegative();
/** intercept first */
const Weights = z.array(z.number());

/** What a value is computed with. */
const ModelShape = {
  /** null: the calibration is used; else why it stands back */
  stands_back: z.enum(['too-few-groups', 'one-reward', 'no-gain']).nullable(),
  /** whose v̂ φ is made of */
  estimator: z.enum(['pr', 'ask', 'none']),
  features: z.array(z.string()),
  mean: z.array(z.number()),
  sd: z.array(z.number().positive()),
  /** of all traces; null where there was nothing to fit */
  weights: Weights.nullable(),
  /** of each fold, fitted to the groups of the others */
  fold_weights: z.array(Weights).length(FOLDS).nullable(),
};

const CalibrationSchema = z.strictObject({
  version: z.literal(1),
  /** version of the program */
  rredcot: z.string(),
  ...ModelShape,
  l2: z.number().nonnegative(),
  traces: Count,
  states: Count,
  /** traces that were left out, by reason */
  skipped: z.record(z.string(), Count),
  /** at least so many where `group_marks` is null */
  groups: Count,
  /** 32 bits of each group's hash, sorted, in base64; null where they are too many */
  group_marks: z.base64().nullable(),
  mean_reward: z.number().nullable(),
  /** nats a trace, each of folds that were left out; null where there was nothing to fit */
  log_loss: LogLoss.nullable(),
  reliability: Reliability.nullable(),
  /** sha256 of the files of the policy that scored the traces; null where their files do not say */
  policy: z.record(z.string(), z.string()).nullable(),
  /** how the traces were scored, as far as φ depends on it; null where their files do not say */
  scored_with: z.record(z.string(), z.unknown()).nullable(),
  /** of all that stands before it, so that an edited weight is noticed: {@link contentHash} */
  sha256: z.string().length(64),
});

/** What `rredcot calibrate` writes. */
export type CalibrationFile = Readonly<z.infer<typeof CalibrationSchema>>;

const ModelSchema = z.strictObject(ModelShape);
/** The part of it that a run keeps in its configuration: enough to compute its values again. */
export type StoredModel = Readonly<z.infer<typeof ModelSchema>>;

/** How traces were scored, where a file of them says so. */
export type ScoredWith = Pick<CalibrationFile, 'policy' | 'scored_with'>;

/** The file that a fit makes. */
export function calibrationFile(
  fit: Fit,
  about: ScoredWith & Pick<CalibrationFile, 'rredcot' | 'skipped'>,
  base: Base = 'pr',
): CalibrationFile {
  const { traces, states, groups, meanReward, scale, weights, quality, standsBack } = fit;
  const { rredcot, skipped, policy, scored_with } = about;
  const content: Omit<CalibrationFile, 'sha256'> = {
    version: 1,
    rredcot,
    stands_back: standsBack,
    estimator: base,
    features: [...FEATURES_OF[base]],
    ...{ mean: [...scale.mean], sd: [...scale.sd] },
    weights: weights && [...weights.whole],
    fold_weights: weights?.folds.map((fold) => [...fold]) ?? null,
    ...{ l2: L2, traces, states, skipped },
    ...{ groups: groups.size, group_marks: groups.toText() },
    mean_reward: traces === 0 ? null : meanReward,
    log_loss: quality?.logLoss ?? null,
    reliability: quality?.reliability ?? null,
    ...{ policy, scored_with },
  };
  return { ...content, sha256: contentHash(content) };
}

/** SHA-256 of a calibration's fields, in their order, as JSON without spaces; its own `sha256` is left out. */
export function contentHash(file: object): string {
  const { sha256: _, ...content } = file as { readonly sha256?: unknown };
  return createHash('sha256').update(JSON.stringify(content)).digest('hex');
}

/** @returns the calibration, or what is wrong with it: the place in the file, and what was expected there */
export function parseCalibration(found: unknown): CalibrationFile | string {
  const parsed = CalibrationSchema.safeParse(found);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const place = issue?.path.join('.') ?? '';
    return place === '' ? `${issue?.message}` : `${place}: ${issue?.message}`;
  }
  return misfit(parsed.data) ?? parsed.data;
}

/** Why nothing can be valued with it: no weights, other features, or a list that has not a number for each; undefined where all is there. */
function misfit(model: StoredModel): string | undefined {
  const { stands_back, features, mean, sd, weights, fold_weights: folds } = model;
  if (stands_back === null && (weights === null || folds === null))
    return 'stands_back is null, and there are no weights';
  const own = FEATURES_OF[model.estimator];
  if (!isDeepStrictEqual(features, own)) return `features: expected ${own.join(', ')}`;
  const F = own.length;
  const fits = [mean, sd].every(({ length }) => length === F);
  const all = [...(weights ? [weights] : []), ...(folds ?? [])];
  if (fits && all.every(({ length }) => length === F + 1)) return undefined;
  return `mean, sd, weights, fold_weights: expected ${F} or ${F + 1} numbers each, for ${F} features`;
}

/** The model in a run's stored configuration; undefined where there is none. */
export function storedModel(found: unknown): StoredModel | undefined {
  const { data } = ModelSchema.safeParse(found);
  return data === undefined || misfit(data) !== undefined ? undefined : data;
}

/** A calibration as traces are valued with it. */
export class Calibration {
  /** what of it a run keeps in its configuration */
  readonly model: StoredModel;
  readonly #known: KnownGroups;

  constructor(readonly file: CalibrationFile) {
    const { stands_back, estimator, features, mean, sd, weights, fold_weights } = file;
    this.model = { stands_back, estimator, features, mean, sd, weights, fold_weights };
    this.#known = KnownGroups.ofText(file.group_marks);
  }

  /** Whether the values are to stay as they are. */
  get standsBack(): boolean {
    return this.file.stands_back !== null;
  }

  /**
   * V(s_0..K) of a trace, as it is stored (float32): by the weights of all traces, or, where its own group was among them,
   * by those of its fold, which never saw a reward of the group.
   * @param key the trace's group, or its id where it has none
   */
  values(key: string, states: States): Float32Array {
    const { estimator, features: names, weights, fold_weights } = this.model;
    const place = groupPlace(key);
    const own = this.#known.has(place) ? fold_weights?.[place.fold] : weights;
    if (!own) throw new Error('the calibration has no weights');
    const features = stateFeatures(states, estimator);
    const z = new Float64Array(names.length);
    return Float32Array.from(states.values, (_, k) => {
      standardise(features, k * z.length, this.model, z);
      return sigmoid(logitOf(own, z));
    });
  }
}

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
