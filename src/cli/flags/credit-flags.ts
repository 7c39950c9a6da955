// The flags that say how values become credit: shared by `score`, which has defaults, and `redistribute`, which has a file's.
import type { Command } from 'commander';
import { BEST_OF_ESTIMATORS, ESTIMATORS, PROVER_ESTIMATORS } from '../../estimate/estimators.js';
import { METHODS } from '../../estimate/requested.js';
import { HIERARCHICAL } from '../../estimate/rules/hierarchical.js';
import { NORMALISERS } from '../../estimate/rules/normalisers.js';
import { RESIDUALS, SIGMA_RULES, WITHINS } from '../../estimate/sigma.js';

/** What `score` takes where a flag is not given. */
const DEFAULTS: Readonly<Record<string, string>> = {
  estimator: 'pr',
  sigma: 'share',
  baseline: 'auto',
  residual: 'uniform',
  within: 'uniform',
  'reward-range': '0,1',
};

/** A file says how it was scored, but for the calibration: that is given again. */
const NOT_STORED: ReadonlySet<string> = new Set(['calibration']);

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
  flag('estimator', '<name>', `value of a state: ${ESTIMATORS.join('|')} (docs/method.md)`);
  flag(
    'calibration',
    '<file>',
    'of --estimator calibrated and siblings: what rredcot calibrate has written (default: none; both need it)',
  );
  flag(
    'prover-estimator',
    '<name>',
    `of --estimator progress, how the prover values a state: ${PROVER_ESTIMATORS.join('|')} (default: pr)`,
  );
  flag(
    'best-of',
    '<k>',
    `of --estimator progress: the best of k answers of the prover, for ${BEST_OF_ESTIMATORS.join(' and ')} (default: 1)`,
  );
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
  flag('tau', '<x>', 'temperature of --sigma softmax (default: 1)');
  flag('smooth', '<n>', 'σ averaged with that of n segments on either side (default: 0)');
  flag('penalty', '<x>', 'factor on differences below 0 (default: 1)');
  flag(
    'lambda',
    '<x>',
    'how much of the outcome a backward sweep mixes into the values, 0 to 1 (default: 0)',
  );
  flag('reward-range', '<low,high>', "the rewards' scale, mapped onto 0..1");
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
