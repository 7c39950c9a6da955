// What an estimator's values are made of, and what they mean: the facts by which the rest of the method goes (METHOD §3).

/** (N) of one reference set at one exit, as a row stores them. */
export interface StoredReferences {
  /** summed log-probabilities, nats */
  readonly logprobs: Float32Array;
  /** scored tokens */
  readonly tokens: Int32Array;
  /** ζ_n in [0, 1] */
  readonly utilities: Float32Array;
}

/** The facts. Estimators declare them; nobody asks for an estimator by its name. */
export interface Nature {
  readonly name: string;
  /** what is scored after every exit: a reference's answer behind the exit template, or as a whole continuation; a question's answers; nothing */
  readonly scores: 'answers' | 'continuations' | 'questions' | 'nothing';
  /** its values do without the references that are scored where a row has them */
  readonly needsNoReference?: true;
  /** v̂(s) from what a row stores of its references; absent where it does not follow from that */
  readonly fromStored?: ((referenceSet: StoredReferences) => number) | undefined;
  /** the same from the log-probabilities of the references' single tokens, where it follows from these alone */
  readonly fromTokens?: (logprobs: readonly Float32Array[], utilities: Float32Array) => number;
  /** (K+1) values from the tokens' own log-probabilities (T) and the thought segments' ends (K), for those that follow from these */
  readonly fromLogprobs?: (logprobs: Float32Array, ends: Int32Array) => Float32Array;
  /** what `fromStored` was made of beside the name, by key of the configuration */
  readonly config?: Readonly<Record<string, unknown>>;
  /** how a value is called where it is shown; v̂ where absent */
  readonly valueName?: string;
  /** what values are whose size says nothing of the reward, such as logarithms; absent where it does */
  readonly noLevel?: string;
  /** values are logarithms */
  readonly isLog?: true;
  /** differences are taken of exp(value − the trace's largest), and scaled to Σ|Δ| = |R*| */
  readonly hasOwnScale?: true;
  /** values are expected rewards, so that ζ − V(s) is an advantage */
  readonly onRewardScale?: true;
  /** values have the trace's own outcome in them, right to share it out, wrong as a baseline: the column that begins with a V(s_0) without it */
  readonly priorColumn?: string;
  /** right references are set against wrong ones */
  readonly isContrast?: true;
  /** no state has a value: they are sums of what the segments so far count for, a_1 + … + a_k, and v_0 = 0 */
  readonly isAttribution?: true;
  /** of an attribution: a_k has no sign of its own, the outcome's stands for it */
  readonly isMagnitude?: true;
  /** values are the row's own: nothing of the policy is read for them */
  readonly isOfRow?: true;
  /** the references are scored by another policy, the prover, and values are its own */
  readonly isOfProver?: true;
}

/** Whether references are what it scores, and without them there are no values. */
export function scoresReferences({ scores, needsNoReference }: Nature): boolean {
  return (scores === 'answers' || scores === 'continuations') && !needsNoReference;
}

/**
 * Whether its values are of the states of the policy that wrote the trace, on one scale: a martingale under it, but for their error,
 * so that what it was sure to write cannot have changed them (METHOD §3).
 */
export function isMartingale(nature: Nature): boolean {
  return nature.noLevel === undefined && nature.isOfProver !== true;
}

/** How its values are called where they are shown. @param nature undefined for what nobody knows */
export function valueNameOf(nature: Nature | undefined): string {
  return nature?.valueName ?? 'v̂';
}

/** Status of a trace without any reference: its values are 0, and mean nothing. */
export const NO_REFERENCES = 'uniform:no-references';
/** Status of a contrast that has one side alone. */
const ONE_SIDED = 'uniform:one-sided-references';
/** A completion counts as correct above this reward [ours]; its reward is its utility, and 0 that of a wrong one. */
export const CORRECT = 0.5;

/** Why the values of a reference set mean nothing; undefined where they do. */
export function referenceFault(utilities: Float32Array, nature: Nature): string | undefined {
  const { scores, isContrast, needsNoReference } = nature;
  if (scores === 'nothing' || needsNoReference) return undefined;
  if (utilities.length === 0) return NO_REFERENCES;
  const right = utilities.filter((utility) => utility > CORRECT).length;
  return isContrast && (right === 0 || right === utilities.length) ? ONE_SIDED : undefined;
}
