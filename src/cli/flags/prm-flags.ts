// The flags of `--estimator prm`.
import type { Command } from 'commander';
import { usageError } from '../../errors.js';
import { type Estimator, natureOf } from '../../estimate/estimators.js';
import type { PrmOptions } from '../../estimate/prm/prm.js';

/** Raw flag values. */
export interface PrmFlags {
  readonly prm?: string;
  readonly prmReference: boolean;
}

/** Adds the flags. */
export function withPrmFlags(command: Command): Command {
  return command
    .option(
      '--prm <folder>',
      'of --estimator prm: folder of the process reward model that judges segments as steps, which it needs; rredcot policy build makes one (default: none)',
    )
    .option(
      '--prm-reference',
      "of --estimator prm: the model's prompt has the reference answer in it, by the folder's template",
      false,
    );
}

/** Checks the values; undefined for an estimator without a model. @throws RredcotError (exit 2) where one is without the other */
export function resolvePrm({ prm, prmReference }: PrmFlags, estimator: Estimator): PrmOptions | undefined {
  const { judgesSteps } = natureOf(estimator);
  if (judgesSteps && prm !== undefined) return { folder: prm, reference: prmReference };
  if (judgesSteps)
    throw usageError(
      `--estimator ${estimator} needs a process reward model`,
      '--prm <folder>; rredcot policy build makes one of a checkpoint whose head classifies',
    );
  const given = prm !== undefined ? '--prm' : prmReference ? '--prm-reference' : undefined;
  if (given === undefined) return undefined;
  throw usageError(`${given} has no meaning with --estimator ${estimator}`, 'add --estimator prm');
}
