// The probe's file: what a fit has found, checked, and the values that it gives the states of a trace.
import { z } from 'zod';
import { dataError, usageError } from '../errors.js';
import { readGivenJson } from '../io/files/files.js';
import { VERSION } from '../package-files.js';
import { contentHash, type ScoredWith } from './calibration.js';
import { FOLDS, groupPlace, KnownGroups, LogLoss, Reliability } from './calibration-fit.js';
import { sigmoid } from './logistic.js';
import { OF_PEERS, type ProbeFit, type ProbeTrace, probeRows } from './probe-fit.js';
import { FEATURES_OF } from './states.js';

const Count = z.int().nonnegative();
const Share = z.number().nullable();
/** float32 in base64 */
const Floats = z.base64();
const Judged = z.strictObject({
  log_loss: LogLoss,
  auc: z.strictObject({ start: Share, middle: Share, end: Share }),
  reliability: Reliability,
});

const FileSchema = z.strictObject({
  version: z.literal(1),
  kind: z.literal('probe'),
  rredcot: z.string(),
  /** what values are made of; `now`: the values of `pr` stay as they are */
  uses: z.enum(['states', 'features', 'now']),
  why: z.enum(['too-few-groups', 'one-reward', 'no-gain', 'no-states', 'no-gain-of-states']).nullable(),
  /** layers behind which states were read, and numbers of each; null and 0 where none is used */
  layer: Count.nullable(),
  hidden: Count,
  features: z.array(z.string()),
  ...{ mean: Floats, sd: Floats },
  /** intercept first; of all traces, and of the folds one after the other */
  weights: Floats.nullable(),
  fold_weights: Floats.nullable(),
  l2: Share,
  ...{ traces: Count, states: Count, groups: Count, skipped: z.record(z.string(), Count) },
  group_marks: z.base64().nullable(),
  mean_reward: Share,
  /** on groups that were left out: with hidden states, and without */
  with_states: Judged.nullable(),
  without_states: Judged.nullable(),
  policy: z.record(z.string(), z.string()).nullable(),
  scored_with: z.record(z.string(), z.unknown()).nullable(),
  sha256: z.string().length(64),
});
export type ProbeFile = Readonly<z.infer<typeof FileSchema>>;

const textOf = (x: Float64Array): string => Buffer.from(Float32Array.from(x).buffer).toString('base64');

function floats(text: string): Float32Array {
  const bytes = Buffer.from(text, 'base64');
  return new Float32Array(Uint8Array.from(bytes).buffer, 0, Math.floor(bytes.length / 4));
}

/** @param layer behind which its states were read */
export function probeFile(
  fit: ProbeFit,
  layer: number | null,
  about: ScoredWith & Pick<ProbeFile, 'skipped'>,
): ProbeFile {
  const { uses, why, weights, scale, l2, traces, states, groups, meanReward, withStates, withoutStates } =
    fit;
  const own = FEATURES_OF.probe.length + OF_PEERS;
  const D = uses === 'states' ? scale.mean.length - own : 0;
  const from = scale.mean.length - own - D;
  const ofUsed = (all: Float64Array) => Float64Array.of(all[0] as number, ...all.subarray(1 + from));
  const judged = (found: typeof withStates) =>
    found && { log_loss: found.logLoss, auc: found.auc, reliability: found.reliability };
  const content = {
    ...{ version: 1 as const, kind: 'probe' as const, rredcot: VERSION, uses, why },
    ...{ layer: uses === 'states' ? layer : null, hidden: D, features: [...FEATURES_OF.probe] },
    ...{ mean: textOf(scale.mean.subarray(from)), sd: textOf(scale.sd.subarray(from)) },
    weights: weights && textOf(ofUsed(weights.whole)),
    fold_weights: weights && textOf(Float64Array.from(weights.folds.flatMap((fold) => [...ofUsed(fold)]))),
    l2: uses === 'states' ? l2 : null,
    ...{ traces, states, groups: groups.size, skipped: about.skipped, group_marks: groups.toText() },
    mean_reward: traces === 0 ? null : meanReward,
    ...{ with_states: judged(withStates), without_states: judged(withoutStates) },
    ...{ policy: about.policy, scored_with: about.scored_with },
  };
  return { ...content, sha256: contentHash(content) };
}

/** What gives states their values; none where the file uses nothing of them. */
export class Probe {
  readonly #known: KnownGroups;
  readonly #fits: readonly Float32Array[];

  constructor(readonly file: ProbeFile) {
    this.#known = KnownGroups.ofText(file.group_marks);
    const [mean, sd] = [floats(file.mean), floats(file.sd)];
    const [P, folds] = [1 + mean.length, floats(file.fold_weights ?? '')];
    const all = Array.from({ length: FOLDS }, (_, fold) => folds.subarray(fold * P, (fold + 1) * P));
    this.#fits = [...all, floats(file.weights ?? '')].map((own) => {
      return own;
    });
    this.#scale = { mean, sd };
  }
  readonly #scale: Readonly<Record<'mean' | 'sd', Float32Array>>;

  /** V(s_0..K), as stored, by weights that have not seen a reward of the trace's group. @param key its group, or its id */
  values(key: string, trace: Pick<ProbeTrace, 'states' | 'features' | 'peers'>): Float32Array {
    const { hidden: D, features } = this.file;
    const place = groupPlace(key);
    const weights = this.#fits[this.#known.has(place) ? place.fold : FOLDS] as Float32Array;
    const { mean, sd } = this.#scale;
    const P = mean.length;
    const rows = probeRows(trace, { D, F: features.length }, Float64Array);
    return Float32Array.from({ length: rows.length / P }, (_, k) => {
      let logit = weights[0] as number;
      for (let i = 0; i < P; i++)
        logit +=
          ((weights[1 + i] as number) * ((rows[k * P + i] as number) - (mean[i] as number))) /
          (sd[i] as number);
      return sigmoid(logit);
    });
  }
}

/** @throws RredcotError (exit 2) naming what is not as it should be, 65 where it was edited */
export async function readProbe(path: string): Promise<Probe> {
  const found = await readGivenJson('--calibration', path, HINT);
  const { data, error } = FileSchema.safeParse(found);
  const [issue] = error?.issues ?? [];
  if (data === undefined)
    throw usageError(`--calibration ${path}: is no probe: ${issue?.path.join('.')}: ${issue?.message}`, HINT);
  if (contentHash(found as object) !== data.sha256)
    throw dataError(`${path}: was changed after it was written: its sha256 is that of other fields`, HINT);
  return new Probe(data);
}

const HINT = 'rredcot calibrate --probe scored.parquet -o probe.json';
