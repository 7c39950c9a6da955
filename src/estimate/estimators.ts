// The value estimators by name, and what the rest of the method has to know of each (METHOD §3).

/** What an estimator's values are made of, and what they mean. */
interface Nature {
  /** what is scored after every exit: the answer behind the exit template, a whole continuation, or nothing */
  readonly scores: 'answers' | 'continuations' | 'nothing';
  /** values are logarithms: as baselines, and beside a reward, they mean nothing */
  readonly isLog: boolean;
  /** values are expected rewards, so that ζ − V(s) is an advantage */
  readonly onRewardScale: boolean;
  /** values follow from the stored `reference_logprobs`, `reference_tokens` and `reference_utilities` */
  readonly isStored: boolean;
  /** values are means over completions that the policy writes at every exit, judged by the row's references */
  readonly isSampled?: true;
  /** v̂ is put on the reward's scale by a calibration */
  readonly isCalibrated?: true;
  /** values rest on the outcomes of other traces of the group, and on the trace's own */
  readonly readsMates?: true;
  /** no state has a value: they are sums of what the segments so far count for, a_1 + … + a_k, and v_0 = 0 */
  readonly isAttribution?: true;
  /** of an attribution: a_k has no sign of its own, the outcome's stands for it */
  readonly isMagnitude?: true;
  /** of an attribution: a_k is no number of nats, and its size alone says nothing */
  readonly isUnitless?: true;
  /** values follow from the stored `logprobs` and the segments' ends */
  readonly isOfTokens?: true;
  /** of an attribution: how a hint of the answer changes what is said of the tokens so far; v_k is the logistic of that */
  readonly isHinted?: true;
  /** the references are scored by another policy, the prover, and values are its own */
  readonly isOfProver?: true;
  /** values are what a process reward model says of the steps: whether they are right, not what they will earn */
  readonly judgesSteps?: true;
}

const ANSWERS = { scores: 'answers', isLog: false, onRewardScale: false, isStored: true } as const;
const CONTINUATIONS = {
  scores: 'continuations',
  isLog: true,
  onRewardScale: false,
  isStored: true,
} as const;

const CALIBRATED = {
  ...({ scores: 'answers', isLog: false, onRewardScale: true, isStored: false } as const),
  isCalibrated: true,
} as const;

const EXPECTED = { scores: 'nothing', isLog: false, onRewardScale: true, isStored: false } as const;

const ATTRIBUTION = { onRewardScale: false, isLog: false, isStored: false, isAttribution: true } as const;

const NATURES = {
  pr: ANSWERS,
  // the mean of a reference's token probabilities does not follow from their product
  'pr-mean': { ...ANSWERS, isStored: false },
  'pr-geo': ANSWERS,
  joint: CONTINUATIONS,
  'joint-log': CONTINUATIONS,
  snis: ANSWERS,
  // they follow from what is stored and from the calibration's weights
  calibrated: CALIBRATED,
  siblings: { ...CALIBRATED, readsMates: true },
  progress: { ...ANSWERS, isOfProver: true },
  prm: { ...EXPECTED, onRewardScale: false, judgesSteps: true },
  given: EXPECTED,
  mc: { ...EXPECTED, isSampled: true },
  // the same with a low limit of tokens: what it cuts off counts as lost
  'mc-truncated': { ...EXPECTED, isSampled: true },
  loo: { ...ATTRIBUTION, scores: 'answers' },
  gradient: { ...ATTRIBUTION, scores: 'answers', isMagnitude: true, isUnitless: true },
  attention: { ...ATTRIBUTION, scores: 'answers', isMagnitude: true, isUnitless: true },
  surprise: { ...ATTRIBUTION, scores: 'nothing', isMagnitude: true, isOfTokens: true },
  posterior: { ...ATTRIBUTION, scores: 'nothing', isMagnitude: true, isHinted: true },
} as const satisfies Readonly<Record<string, Nature>>;

export type Estimator = keyof typeof NATURES;
export const ESTIMATORS = Object.keys(NATURES) as readonly Estimator[];

/** What an estimator's values are. */
export function natureOf(estimator: Estimator): Nature {
  return NATURES[estimator];
}

/** How a prover values a state: those that score answers. */
export const PROVER_ESTIMATORS = ['pr', 'pr-mean', 'pr-geo', 'snis'] as const satisfies readonly Estimator[];

/** Those of them whose values are probabilities, so that the best of K answers has one too. */
export const BEST_OF_ESTIMATORS: readonly Estimator[] = ['pr', 'snis'];

/** Values under another policy. */
export interface ProverChoice {
  readonly estimator: (typeof PROVER_ESTIMATORS)[number];
  /** K: the probability that one of K answers is right, 1 − (1 − v)^K */
  readonly bestOf: number;
}

/** By which of them a trace's references are scored: the prover's own, where there is one. */
export function scorerOf({
  estimator,
  prover,
}: {
  readonly estimator: Estimator;
  readonly prover?: ProverChoice | undefined;
}): Estimator {
  return prover?.estimator ?? estimator;
}

/** Whether its values are probabilities of answering right at once, that nothing has put on the reward's scale. */
export function isAnswerNow(estimator: unknown): boolean {
  const known = ESTIMATORS.find((name) => name === estimator);
  if (known === undefined) return false;
  const { scores, onRewardScale, isAttribution, isOfProver } = natureOf(known);
  return scores === 'answers' && !onRewardScale && !isAttribution && !isOfProver;
}

/** Whether the size of a value says something of the reward: that of a logarithm, a sum of attributions and a judgement of a step does not. */
export function hasLevel(estimator: Estimator): boolean {
  const { isLog, isAttribution, judgesSteps } = natureOf(estimator);
  return !isLog && isAttribution !== true && judgesSteps !== true;
}

/** Whether its differences have no sign of their own: that of R* stands for it. */
export function isMagnitude(estimator: unknown): boolean {
  const known = ESTIMATORS.find((name) => name === estimator);
  return known !== undefined && natureOf(known).isMagnitude === true;
}

/** How its values are called where they are shown. */
export function valueNameOf(estimator: unknown): string {
  const known = ESTIMATORS.find((name) => name === estimator);
  if (known === undefined || hasLevel(known)) return 'v̂';
  if (natureOf(known).isHinted) return 'p(hint)';
  const { isLog, judgesSteps } = natureOf(known);
  return isLog ? 'log v̂' : judgesSteps ? 'P(right)' : 'Σa';
}
