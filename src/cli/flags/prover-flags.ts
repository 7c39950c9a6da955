// The flags of score that name another policy: which estimators have one, and the method that asks for it.
import type { Command } from 'commander';
import type { CreditFlags } from '../../commands/job/options.js';
import { usageError } from '../../errors.js';
import { type Estimator, natureOf } from '../../estimate/estimators.js';
import type { HintOptions } from '../../estimate/hint/hint.js';

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

/** Raw flag values. */
export interface OtherPolicyFlags {
  readonly prover?: string;
  readonly hintTemplate?: string;
  readonly hintPolicy?: string;
}

/** Adds the flags. */
export function withOtherPolicyFlags(command: Command): Command {
  return command
    .option(
      '--prover <folder>',
      'of --estimator progress, which needs it: the policy folder under which states are valued (default: none)',
    )
    .option(
      '--hint-template <file>',
      "of posterior: how a prompt tells the answer (default: the policy's own)",
    )
    .option(
      '--hint-policy <folder>',
      'of posterior: a policy folder that reads the hint (default: --policy)',
    );
}

/** Where the hint is; undefined for estimators without one. @throws RredcotError (exit 2) for a flag without a meaning */
export function hintFlags(
  estimator: Estimator,
  { hintTemplate: template, hintPolicy: policy }: OtherPolicyFlags,
): HintOptions | undefined {
  if (natureOf(estimator).isHinted) return { template, policy };
  const given =
    template !== undefined ? '--hint-template' : policy !== undefined ? '--hint-policy' : undefined;
  if (given === undefined) return undefined;
  throw usageError(`${given} has no meaning with --estimator ${estimator}`, 'add --estimator posterior');
}
