// The flags that say how values become credit: shared by `score`, which has defaults, and `redistribute`, which has a file's.
import type { Command } from 'commander';
import { HIERARCHICAL } from '../credit/hierarchical.js';
import { NORMALISERS } from '../credit/normalisers.js';
import { SHARE_EVEN } from '../credit/per-segment.js';
import { METHODS } from '../estimate/requested.js';
import { RESIDUALS, SIGMA_RULES, STEPS, WITHINS } from '../estimate/sigma.js';
import { isModule, loadEstimator } from '../estimators/module.js';
import { ESTIMATORS, flagsOfAll, setOwn } from '../estimators/registry.js';

/** What `score` takes where a flag is not given. */
const DEFAULTS: Readonly<Record<string, string>> = {
  estimator: ESTIMATORS[0]?.name ?? '',
  sigma: 'share',
  baseline: 'auto',
  residual: 'uniform',
  within: 'uniform',
  steps: 'free',
  'reward-range': 'auto',
};

/** A file says how it was scored, but for the calibration: that is given again. */
const NOT_STORED: ReadonlySet<string> = new Set(['calibration']);

/**
 * The name of an estimator: a module of the user's own gives it itself, and `--method hierarchical` takes a prover's where none is named.
 * @throws RredcotError (exit 2) for a module that is none
 */
export async function namedEstimator(
  { estimator, method }: { readonly estimator: string; readonly method?: string },
  isDefault: boolean,
): Promise<string> {
  const ofProver = ESTIMATORS.find(({ isOfProver }) => isOfProver)?.name;
  if (method === 'hierarchical' && isDefault) return ofProver ?? estimator;
  return isModule(estimator) ? loadEstimator(estimator) : estimator;
}

/** Loads the module that a command line names, so that its flags are there; what is wrong with it is said when the command runs. */
export async function withModule(argv: readonly string[]): Promise<void> {
  setOwn(undefined);
  const at = argv.findIndex((word) => /^--estimator(=|$)/.test(word));
  const given = argv[at]?.includes('=') ? argv[at]?.slice('--estimator='.length) : argv[at + 1];
  if (at >= 0 && given !== undefined && isModule(given)) await loadEstimator(given).catch(() => {});
}

/** Adds what estimators ask `score` for beside that. */
export function ofEstimators(command: Command): void {
  for (const [flag, text] of flagsOfAll('flags')) {
    const names = ESTIMATORS.filter(({ flags }) => flags?.some(([own]) => own === flag)).map(
      ({ name }) => name,
    );
    command.optionsGroup(`Of --estimator ${names.join(', ')}:`).option(flag, text);
  }
}

/** Adds the flags. @param hasDefaults whether a flag that is not given stands at METHOD's default; else it is absent */
export function credited(command: Command, hasDefaults: boolean): Command {
  const flag = (name: string, value: string, text: string): void => {
    if (!hasDefaults) {
      const own = NOT_STORED.has(name) ? '' : " (default: the file's own)";
      command.option(`--${name} ${value}`, text.replace(/ \(default: [^)]*\)$/, '') + own);
      return;
    }
    const fallback = DEFAULTS[name];
    if (fallback === undefined) command.option(`--${name} ${value}`, text);
    else command.option(`--${name} ${value}`, text, fallback);
  };
  command.optionsGroup('Values and credit:');
  flag(
    'estimator',
    '<name>',
    `value of a state: ${ESTIMATORS.map(({ name }) => name).join('|')} (docs/method.md), or ./mine.mjs, a module of your own (docs/your-own-credit.md)`,
  );
  for (const [own, text] of flagsOfAll('creditFlags')) {
    const [, name = '', value = ''] = /^--(\S+) (\S+)$/.exec(own) ?? [];
    flag(name, value, text);
  }
  flag(
    'sigma',
    '<rule,…>',
    `from values to σ: ${SIGMA_RULES.join('|')} (docs/method.md); the first in sigma, others in sigma_<rule>`,
  );
  flag(
    'baseline',
    '<b>',
    "auto|group|value|<number> in 0..1; auto: the group's mean reward, v̂(s_0) without a group, and for values on the reward's scale",
  );
  flag(
    'residual',
    '<where>',
    `of --sigma rudder, where the reward that no segment explains goes: ${RESIDUALS.join('|')}`,
  );
  flag('within', '<how>', `weights inside a segment: ${WITHINS.join('|')}`);
  flag(
    'even',
    '<x>',
    `of --sigma share, the part of σ that falls on all tokens alike, 0 to 1 (default: ${SHARE_EVEN})`,
  );
  flag('tau', '<x>', 'temperature of --sigma softmax (default: 1)');
  flag('smooth', '<n>', 'σ averaged with that of n segments on either side (default: 0)');
  flag('penalty', '<x>', 'factor on differences below 0 (default: 1)');
  flag(
    'steps',
    '<how>',
    `how far values may step where the policy was sure of the segment: ${STEPS.join('|')} (docs/method.md)`,
  );
  flag(
    'reward-range',
    '<low,high>',
    "the rewards' scale, mapped onto 0..1; auto: 0,1, and -1,1 where all rewards are -1 or 1; verdicts (true, false, acc) are on no scale",
  );
  flag(
    'method',
    '<name>',
    `${METHODS.join('|')}; segment: also token_advantage, segments as actions, not return-equivalent, for values on the reward's scale; hierarchical: also token_advantage of outcome, progress and token, not return-equivalent, implies --estimator progress (default: sigma)`,
  );
  flag(
    'alpha',
    '<x>',
    `of --method hierarchical: what progress counts for beside the outcome (default: ${HIERARCHICAL.alpha})`,
  );
  flag(
    'beta',
    '<x>',
    `of --method hierarchical: how far a token's entropy takes its share (default: ${HIERARCHICAL.beta})`,
  );
  flag('normalisers', '<a,b>', `columns of ${NORMALISERS.join('|')}, to be compared with σ`);
  flag('batch-size', '<n>', 'traces a batch, for --normalisers batch_tokens, which needs it (default: none)');
  flag('max-completion-length', '<n>', 'tokens, for --normalisers dr_grpo, which needs it (default: none)');
  return command;
}
