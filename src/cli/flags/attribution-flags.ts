// The flags of estimators that attribute, for which the policy reads a trace again.
import type { Command } from 'commander';
import { oneOf } from '../../commands/job/flag-values.js';
import { usageError } from '../../errors.js';
import type { AttributionOptions } from '../../estimate/attributing/attributed.js';
import { LOO } from '../../estimate/attributing/deletions.js';
import type { Estimator } from '../../estimate/estimators.js';

/** Raw flag values. */
export interface AttributionFlags {
  readonly loo?: string;
}

/** Adds the flags. */
export function withAttributionFlags(command: Command): Command {
  return command.option(
    '--loo <how>',
    `of loo: a segment is ${LOO.join('|')} (what follows moves up, or stays and does not see it; default: ${LOO[0]})`,
  );
}

/** Checks the values; undefined for other estimators. @throws RredcotError (exit 2) for a flag without a meaning */
export function resolveAttribution(
  { loo }: AttributionFlags,
  estimator: Estimator,
): AttributionOptions | undefined {
  if (loo !== undefined && estimator !== 'loo')
    throw usageError(`--loo has no meaning with --estimator ${estimator}`, 'add --estimator loo');
  if (estimator === 'attention' || estimator === 'gradient') return { estimator };
  return estimator === 'loo' ? { estimator, loo: oneOf('--loo', loo ?? LOO[0], LOO) } : undefined;
}
