// How good a calibration is on traces that its weights have not seen: log losses, and the reliability curve.
import { z } from 'zod';
import { crossEntropy, logitOf, sigmoid } from './logistic.js';
import { clipped } from './states.js';

/** Mean cross-entropy of ζ, nats a trace: every state counts 1/(K+1). Each figure is of folds that were left out. */
export const LogLoss = z.strictObject({
  calibrated: z.number(),
  /** the mean reward of the other folds */
  constant: z.number(),
  /** the mean reward of the trace's mates, with the constant as one more of them; null where groups are too many */
  group_mean: z.number().nullable(),
  /** v̂ as it is; null where nothing was scored */
  value: z.number().nullable(),
  /** the same regression on v̂ alone */
  value_fitted: z.number().nullable(),
});

/** The states whose value fell between `from` and `to`. */
export const Reliability = z.array(
  z.strictObject({
    from: z.number(),
    to: z.number(),
    states: z.int().nonnegative(),
    /** mean value, and mean reward of these traces, weighted by 1/(K+1); null in an empty bin */
    value: z.number().nullable(),
    reward: z.number().nullable(),
  }),
);

export interface Quality {
  readonly logLoss: z.infer<typeof LogLoss>;
  readonly reliability: z.infer<typeof Reliability>;
}

const BINS = 10;

/** Sum and number of the rewards of each group. */
export type RewardSums = Map<number, { sum: number; count: number }>;

/** Gathers them in one pass. */
export class Assessment {
  #traces = 0;
  #calibrated = 0;
  #value = 0;
  #valueFitted = 0;
  #constant = 0;
  #groupMean: number | null = 0;
  readonly #bins = Array.from({ length: BINS }, () => ({ states: 0, weight: 0, value: 0, reward: 0 }));
  /**
   * @param folds (1+F) of each fold, fitted without it
   * @param values the same on v̂ alone; null where there is none
   * @param constants of each fold: the mean reward of the others
   * @param groups rewards of all traces; of some groups alone where they are too many
   */
  constructor(
    private readonly folds: readonly Float64Array[],
    private readonly values: readonly Float64Array[] | null,
    private readonly constants: readonly number[],
    private readonly groups: RewardSums,
  ) {}

  /** @param z (F) standardised features of a state @param value its v̂, where there is one */
  addState(z: Float64Array, value: number, reward: number, fold: number, weight: number): void {
    const logit = logitOf(this.folds[fold] as Float64Array, z);
    const calibrated = sigmoid(logit);
    this.#calibrated += weight * crossEntropy(logit, reward);
    if (this.values !== null) {
      this.#valueFitted += weight * crossEntropy(logitOf(this.values[fold] as Float64Array, z), reward);
      this.#value += weight * lossOf(value, reward);
    }
    const bin = this.#bins[Math.min(BINS - 1, Math.floor(calibrated * BINS))];
    if (bin === undefined) return;
    bin.states++;
    bin.weight += weight;
    bin.value += weight * calibrated;
    bin.reward += weight * reward;
  }

  /** After a trace's states. */
  endTrace(reward: number, { fold, mark }: { readonly fold: number; readonly mark: number }): void {
    const constant = this.constants[fold] as number;
    this.#traces++;
    this.#constant += lossOf(constant, reward);
    const mates = this.groups.get(mark);
    if (mates === undefined) this.#groupMean = null;
    else if (this.#groupMean !== null)
      this.#groupMean += lossOf((mates.sum - reward + constant) / mates.count, reward);
  }

  quality(): Quality {
    const traces = this.#traces;
    return {
      logLoss: {
        calibrated: this.#calibrated / traces,
        constant: this.#constant / traces,
        group_mean: this.#groupMean === null ? null : this.#groupMean / traces,
        value: this.values === null ? null : this.#value / traces,
        value_fitted: this.values === null ? null : this.#valueFitted / traces,
      },
      reliability: this.#bins.map(({ states, weight, value, reward }, n) => ({
        from: n / BINS,
        to: (n + 1) / BINS,
        states,
        value: states === 0 ? null : value / weight,
        reward: states === 0 ? null : reward / weight,
      })),
    };
  }
}

/** Cross-entropy of a probability that is held away from 0 and 1. */
function lossOf(probability: number, reward: number): number {
  const p = clipped(probability);
  return -reward * Math.log(p) - (1 - reward) * Math.log1p(-p);
}
