// The flags of `--estimator siblings`, and what it cannot do.
import type { Command } from 'commander';
import { positiveInteger } from '../../commands/job/flag-values.js';
import { usageError } from '../../errors.js';
import { type Estimator, natureOf } from '../../estimate/estimators.js';
import type { MateOptions } from '../../estimate/siblings/mates.js';
import { STDIN } from '../../io/files/byte-source.js';
import { LATE_SEGMENTERS, type SegmentOptions } from '../../segment/segment.js';

/** Raw flag values. */
export interface MateFlags {
  readonly mates?: string;
  readonly mateTokens?: string;
}

/** Measured: docs/fidelity.md. */
const DEFAULTS: MateOptions = { mates: 3, mateTokens: 40 };

/** Adds the flags. */
export function withMateFlags(command: Command): Command {
  return command
    .option(
      '--mates <n>',
      `of siblings: mates a trace, the most similar of its group (default: ${DEFAULTS.mates})`,
    )
    .option(
      '--mate-tokens <n>',
      `of siblings: tokens of a mate's tail that are scored (default: ${DEFAULTS.mateTokens})`,
    );
}

/** Checks the values; undefined for an estimator without mates. @throws RredcotError (exit 2) for what has no meaning together */
export function resolveMates(
  { mates, mateTokens }: MateFlags,
  estimator: Estimator,
  { segmenter }: SegmentOptions,
  inputs: readonly string[],
): MateOptions | undefined {
  if (!natureOf(estimator).readsMates) {
    const given = mates !== undefined ? '--mates' : mateTokens !== undefined ? '--mate-tokens' : undefined;
    if (given === undefined) return undefined;
    throw usageError(`${given} has no meaning with --estimator ${estimator}`, 'add --estimator siblings');
  }
  if (LATE_SEGMENTERS.includes(segmenter))
    throw usageError(
      `--estimator ${estimator} aligns pieces of text, and --segmenter ${segmenter} has none before the policy has read the trace`,
      '--segmenter hybrid, newline, sentence, keyword, fixed, adaptive or given',
    );
  if (inputs.length === 0 || inputs.includes(STDIN))
    throw usageError(
      `--estimator ${estimator} looks for a trace's mates in the whole input, which stdin gives once`,
      'name a file',
    );
  return {
    mates: positiveInteger('--mates', mates ?? String(DEFAULTS.mates), DEFAULTS.mates),
    mateTokens: positiveInteger(
      '--mate-tokens',
      mateTokens ?? String(DEFAULTS.mateTokens),
      DEFAULTS.mateTokens,
    ),
  };
}
