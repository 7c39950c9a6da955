// The estimators: what the program knows of values begins here. To add one is to write its file and to name it in this list.
import type { Nature } from '../estimate/nature.js';
import { ruleOf, SIGMA_RULES, type SigmaRule } from '../estimate/sigma.js';
import { attributeOf, type Flag } from '../flag-values.js';
import type { OutputColumn } from '../io/arrow/output-columns.js';
import { attention } from './attention.js';
import { calibrated } from './calibrated.js';
import type { Asked, Call, Config, Estimator, FlagValues } from './estimator.js';
import { given } from './given.js';
import { gradient } from './gradient.js';
import { joint } from './joint.js';
import { jointLog } from './joint-log.js';
import { loo } from './loo.js';
import { mc, mcTruncated } from './mc.js';
import { ofReferences, ofSeen } from './one-pass.js';
import { posterior } from './posterior.js';
import { pr } from './pr.js';
import { prGeo } from './pr-geo.js';
import { prMean } from './pr-mean.js';
import { prm } from './prm.js';
import { progress } from './progress.js';
import { siblings } from './siblings.js';
import { snis } from './snis.js';
import { surprise } from './surprise.js';

/** In the order in which help and errors name them; the first is the default. */
const known: Estimator[] = [
  ...[pr, prMean, prGeo, joint, jointLog, snis, calibrated, siblings, progress, prm, given, mc, mcTruncated],
  ...[loo, gradient, attention, surprise, posterior],
];

const BUILT_IN = known.length;

/** Those, and the user's own where a command line names one. */
export const ESTIMATORS: readonly Estimator[] = known;

/** Puts one of the user's own behind them, in the place of that of the command line before; undefined: none. */
export function setOwn(estimator: Estimator | undefined): void {
  known.splice(BUILT_IN, 1, ...(estimator === undefined ? [] : [estimator]));
}

/** The one with a name; undefined for a name that none has, and for what is no name. */
export function estimatorNamed(name: unknown): Estimator | undefined {
  return ESTIMATORS.find((each) => each.name === name);
}

/** The facts of the values in a file, by its configuration. */
export function storedNature(config: Config): Nature | undefined {
  const { estimator: name, estimatorModule, estimatorFacts } = config;
  // of a module of the user's own the file keeps the facts
  if (typeof estimatorFacts === 'object' && typeof name === 'string')
    return { ...(estimatorFacts as Omit<Nature, 'name'>), name, config: { estimatorModule, estimatorFacts } };
  const estimator = estimatorNamed(name);
  return estimator?.stored === undefined ? estimator : estimator.stored(config);
}

/** An estimator as flags ask for it. @param nature its facts, as its flags make them @throws RredcotError (exit 2) */
export async function askEstimator(nature: Nature, values: FlagValues, call: Call): Promise<Asked> {
  const { ask, of, flags = [] } = estimatorNamed(nature.name) ?? {};
  if (ask !== undefined) return ask(values, call, nature);
  if (of === undefined) return ofReferences(nature);
  const given = flags.map(attributeOf).filter((name) => values[name] !== undefined);
  const config = Object.fromEntries(given.map((name) => [name, values[name]]));
  return { config, ...ofSeen(nature.name, of, values) };
}

/** Keys of a configuration that go with an estimator, of all of them. */
export function configKeys(): readonly string[] {
  return ESTIMATORS.flatMap((each) => each.configKeys ?? []);
}

/** The columns that come with the values of a file. @param config its configuration */
export function valueColumns(config: Config): readonly OutputColumn[] {
  return estimatorNamed(config.estimator)?.columns?.(config) ?? [];
}

/** What the estimator and the σ rule of a configuration do, in the words of a dataset card. */
export function wordsOf({ estimator, rule }: Config) {
  const [first] = [rule].flat();
  return {
    estimator: estimatorNamed(estimator)?.card,
    rule: SIGMA_RULES.includes(first as SigmaRule) ? ruleOf(first as SigmaRule).words : undefined,
  };
}

/** Flags of all of them, each once. */
export function flagsOfAll(kind: 'flags' | 'creditFlags'): readonly Flag[] {
  const all = ESTIMATORS.flatMap((each) => each[kind] ?? []);
  return all.filter(([flag], n) => all.findIndex(([other]) => other === flag) === n);
}
