// The calibration file: what it says, checked, and the values that it gives the states of a trace.
import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { dataError, usageError } from '../errors.js';
import { readGivenJson } from '../io/files/files.js';
import { VERSION } from '../package-files.js';
import { FittedValues, openFit, type Pass, STANDS_BACK, type StandBack } from './fit/cross-fit.js';
import { FOLDS, type KnownGroups } from './fit/groups.js';
import { type Base, FEATURES_OF, type States, stateFeatures } from './states.js';

const Count = z.int().nonnegative();
const Maybe = z.number().nullable();
/** intercept first */
const Weights = z.array(z.number());

/** What a value is computed with. */
const ModelShape = {
  /** null: the calibration is used; else why it stands back */
  stands_back: z.enum(Object.keys(STANDS_BACK) as StandBack[]).nullable(),
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
  mean_reward: Maybe,
  /** nats a trace, each of folds that were left out; null where there was nothing to fit */
  log_loss: z
    .strictObject({ calibrated: z.number(), constant: z.number(), group_mean: Maybe, value: Maybe })
    .nullable(),
  reliability: z
    .array(z.strictObject({ from: z.number(), to: z.number(), states: Count, value: Maybe, reward: Maybe }))
    .nullable(),
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

/** Of which traces a fit is. */
export interface FitAbout extends ScoredWith, Pick<CalibrationFile, 'skipped'> {
  /** whose values they have */
  readonly base: Base;
  /** behind which hidden states were read */
  readonly layers: readonly number[];
}

/** λ of all features. */
const L2 = 1;
/** As near the least as sums of float64 lead. */
const TOLERANCE = 1e-11;

/**
 * Logistic regression of ζ on φ(s_k), every state a sample of weight 1/(K+1), cross-fitted by group: METHOD §3. Keeps sums alone.
 * @returns the file of the fit
 */
export async function fitCalibration(
  pass: Pass,
  { base, skipped, policy, scored_with }: FitAbout,
): Promise<CalibrationFile> {
  const features = FEATURES_OF[base];
  const fit = await openFit(pass, features.length, { tolerance: TOLERANCE });
  const ridge = { l2: new Float64Array(features.length).fill(L2) };
  const weights = fit.standsBack ? null : await fit.weights(Array(FOLDS + 1).fill(ridge));
  const quality = weights && (await fit.assessed(weights, base !== 'none'));
  const { calibrated = 0, constant = 1, value = null } = quality?.log_loss ?? {};
  const isGain = calibrated < constant && (value === null || calibrated < value);
  const { scale } = fit.seen;
  return sealed({
    version: 1 as const,
    rredcot: VERSION,
    stands_back: fit.standsBack ?? (isGain ? null : 'no-gain'),
    estimator: base,
    features: [...features],
    ...{ mean: [...scale.mean], sd: [...scale.sd] },
    weights: weights && [...(weights[FOLDS] as Float64Array)],
    fold_weights: weights?.slice(0, FOLDS).map((fold) => [...fold]) ?? null,
    ...{ l2: L2, ...countsOf(fit.seen, skipped) },
    log_loss: quality?.log_loss ?? null,
    reliability: quality?.reliability ?? null,
    ...{ policy, scored_with },
  });
}

/** What a fit's file says of its traces. */
export function countsOf(
  seen: Readonly<Record<'traces' | 'states' | 'meanReward', number>> & { readonly groups: KnownGroups },
  skipped: FitAbout['skipped'],
) {
  const { traces, states, groups, meanReward } = seen;
  return {
    ...{ traces, states, skipped, groups: groups.size, group_marks: groups.toText() },
    mean_reward: traces === 0 ? null : meanReward,
  };
}

/** The fields of a file, and their hash. */
export function sealed<T extends object>(content: T): T & { readonly sha256: string } {
  return { ...content, sha256: contentHash(content) };
}

/** SHA-256 of a file's fields, in their order, as JSON without spaces; its own `sha256` is left out. */
function contentHash(file: object): string {
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
  readonly #values: FittedValues;

  constructor(readonly file: CalibrationFile) {
    const { stands_back, estimator, features, mean, sd, weights, fold_weights } = file;
    this.model = { stands_back, estimator, features, mean, sd, weights, fold_weights };
    const scale = { mean: Float64Array.from(mean), sd: Float64Array.from(sd) };
    const all = fold_weights && weights ? [...fold_weights, weights] : [];
    const ofAll = all.map((own) => Float64Array.from(own));
    this.#values = new FittedValues(file.group_marks, scale, ofAll);
  }

  /** Whether the values are to stay as they are. */
  get standsBack(): boolean {
    return this.file.stands_back !== null;
  }

  /** V(s_0..K) of a trace, as it is stored. @param key the trace's group, or its id where it has none */
  values(key: string, states: States): Float32Array {
    return this.#values.of(key, stateFeatures(states, this.model.estimator));
  }
}

/** @throws RredcotError as {@link readFit} */
export async function readCalibration(path: string): Promise<Calibration> {
  return new Calibration(
    await readFit(path, 'rredcot calibrate scored.parquet -o calibration.json', parseCalibration),
  );
}

/**
 * Reads what a fit has written.
 * @param parse what it is, or what is wrong with it
 * @throws RredcotError (exit 2) naming what is not as it should be, 65 for what was edited
 */
export async function readFit<T extends { readonly sha256: string }>(
  path: string,
  hint: string,
  parse: (found: unknown) => T | string,
): Promise<T> {
  const found = await readGivenJson('--calibration', path, hint);
  const file = parse(found);
  if (typeof file === 'string') throw usageError(`--calibration ${path}: ${file}`, hint);
  if (contentHash(found as object) !== file.sha256)
    throw dataError(`${path}: was changed after it was written: its sha256 is that of other fields`, hint);
  return file;
}
