// The options that `score`, `segment` and `sample` share, and what of a credit a pass over traces cannot write.
import { ruleOf, SIGMA_RULES } from '../../credit/rules.js';
import { usageError } from '../../errors.js';
import type { CreditOptions } from '../../estimate/credit.js';
import { OF_OTHERS } from '../../estimate/requested.js';
import type { ColumnChoice, OurColumn } from '../../io/arrow/output-columns.js';
import type { ExportName } from '../../io/write/exports.js';
import type { OutputFormat } from '../../io/write/output.js';
import type { TextChoice } from '../../io/write/output-layout.js';
import type { DeviceChoice } from '../../policy/device.js';
import type { SegmentOptions } from '../../segment/segment.js';
import type { MappingOptions } from './mapping.js';
import type { RunOptions } from './open-run.js';
import type { MaxRejects } from './reject-limits.js';

/** What `score`, `segment` and `sample` share. */
export interface JobOptions extends MappingOptions, RunOptions {
  readonly device: DeviceChoice;
  readonly output: string | undefined;
  readonly format: OutputFormat | undefined;
  /** ours that are written; undefined: all */
  readonly columns: readonly OurColumn[] | undefined;
  /** columns of the input that are written */
  readonly choice?: ColumnChoice;
  readonly text?: TextChoice;
  readonly maxRejects: MaxRejects | undefined;
  /** variables for the policy's chat template */
  readonly chatTemplateArgs: Readonly<Record<string, unknown>>;
}

/** What `score` and `segment` share. */
export interface CutOptions extends JobOptions {
  readonly segments: SegmentOptions;
}

/**
 * What a pass over traces cannot know is made of the file that it writes.
 * @throws RredcotError (exit 2) for normalisers that count the tokens of other traces
 */
export function refuseOfOthers({ normalisers = [] }: CreditOptions): void {
  const found = normalisers.find((name) => OF_OTHERS.includes(name));
  if (found !== undefined)
    throw usageError(
      `--normalisers ${found} counts the tokens of other traces, which are known when all are scored`,
      `score without it, then rredcot redistribute <scored> --normalisers ${normalisers.join(',')}`,
    );
}

/**
 * Steps are labelled by the sign of their σ, which not all rules give them.
 * @throws RredcotError (exit 2) for an export that the rule cannot make, or beside columns that it has no place for
 */
export function checkExport(exportName: ExportName | undefined, credit: CreditOptions): void {
  if (exportName === undefined) return;
  const { rule, others = [], method, normalisers = [] } = credit;
  if (others.length > 0 || method !== undefined || normalisers.length > 0)
    throw usageError(
      `--export ${exportName} writes a trainer's columns alone`,
      'leave it out, or name one --sigma, and no --method or --normalisers',
    );
  if ((exportName === 'prm' || exportName === 'progress') && credit.estimator.isMagnitude)
    throw usageError(
      `--export ${exportName} labels steps by what has a sign, and what segments count for by --estimator ${credit.estimator.name} has none`,
      'take another --estimator',
    );
  if (exportName === 'prm' && !ruleOf(rule).isSigned)
    throw usageError(
      `--export prm labels steps by the sign of σ, and with --sigma ${rule} all have the same`,
      `add --sigma ${SIGMA_RULES.find((each) => ruleOf(each).isSigned)}`,
    );
}
