// `--prover` of score: which estimators have one, and the method that asks for it.
import type { Command } from 'commander';
import type { CreditFlags } from '../commands/job/options.js';
import { usageError } from '../errors.js';
import { type Estimator, natureOf } from '../estimate/estimators.js';

/** The prover's folder; undefined for estimators without one. @throws RredcotError (exit 2) where one is without the other */
export function proverFlag(estimator: Estimator, folder: string | undefined): string | undefined {
  const { isOfProver } = natureOf(estimator);
  if (!isOfProver && folder !== undefined)
    throw usageError(`--prover has no meaning with --estimator ${estimator}`, 'add --estimator progress');
  if (isOfProver && folder === undefined)
    throw usageError(
      `--estimator ${estimator} needs a prover, another policy under which states are valued`,
      '--prover <policy folder>; rredcot policy build makes one of a checkpoint',
    );
  return folder;
}

/** `--method hierarchical` takes progress, where no other estimator is named. */
export function impliedEstimator(flags: CreditFlags, command: Command): CreditFlags {
  const isDefault = command.getOptionValueSource('estimator') === 'default';
  return flags.method === 'hierarchical' && isDefault ? { ...flags, estimator: 'progress' } : flags;
}
