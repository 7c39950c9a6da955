// What score and segment are told, with every value checked: flags of the command line in, options out.
import { usageError } from '../../errors.js';
import type { Baseline, CreditOptions } from '../../estimate/credit.js';
import { ESTIMATORS, natureOf } from '../../estimate/estimators.js';
import { RESIDUALS, SIGMA_RULES, type SigmaRule, WITHINS } from '../../estimate/sigma.js';
import type { ExportName } from '../../io/export/exports.js';
import type { OurColumn } from '../../io/table/output-columns.js';
import type { ColumnChoice } from '../../io/write/column-choice.js';
import type { OutputFormat } from '../../io/write/output.js';
import type { TextChoice } from '../../io/write/text-columns.js';
import type { DeviceChoice } from '../../policy/device/device.js';
import { SEGMENTERS, type SegmentOptions } from '../../segment/segment.js';
import { finite, oneOf, positiveInteger } from './flag-values.js';
import type { MaxRejects } from './reject-limits.js';

/** METHOD §2: thought segments a trace is cut into. */
export const DEFAULT_MAX_SEGMENTS = 40;
/** tokens a segment of `--segmenter fixed` */
export const DEFAULT_FIXED_LENGTH = 64;

/** What `score` and `segment` share. */
export interface JobOptions {
  readonly device: DeviceChoice;
  readonly map: string | undefined;
  readonly preset: string;
  readonly join: string | undefined;
  readonly joinOn: string | undefined;
  readonly joinColumns?: readonly string[] | undefined;
  readonly output: string | undefined;
  readonly format: OutputFormat | undefined;
  /** ours that are written; undefined: all */
  readonly columns: readonly OurColumn[] | undefined;
  /** columns of the input that are written */
  readonly choice?: ColumnChoice;
  readonly text?: TextChoice;
  readonly limit: number | undefined;
  readonly maxLineBytes: number;
  readonly signal: AbortSignal;
  readonly maxRejects: MaxRejects | undefined;
  readonly segments: SegmentOptions;
  /** variables for the policy's chat template */
  readonly chatTemplateArgs: Readonly<Record<string, unknown>>;
}

/** Raw flag values of the segmentation, as commander hands them on. */
export interface SegmentFlags {
  readonly segmenter: string;
  readonly maxSegments?: string;
  readonly fixedLength?: string;
}

export function resolveSegmentOptions(flags: SegmentFlags): SegmentOptions {
  const segmenter = oneOf('--segmenter', flags.segmenter, SEGMENTERS);
  const asked =
    flags.maxSegments === undefined
      ? undefined
      : positiveInteger('--max-segments', flags.maxSegments, DEFAULT_MAX_SEGMENTS);
  if (flags.fixedLength !== undefined && segmenter !== 'fixed')
    throw usageError('--fixed-length has no meaning here', 'add --segmenter fixed');
  // only hybrid is defined by its merge; the others are cut down only where the user says so
  const maxSegments = asked ?? (segmenter === 'hybrid' ? DEFAULT_MAX_SEGMENTS : undefined);
  return {
    segmenter,
    fixedLength: positiveInteger(
      '--fixed-length',
      flags.fixedLength ?? String(DEFAULT_FIXED_LENGTH),
      DEFAULT_FIXED_LENGTH,
    ),
    ...(maxSegments === undefined ? {} : { maxSegments }),
  };
}

/** Raw flag values of the method, as commander hands them on. */
export interface CreditFlags {
  readonly estimator: string;
  readonly sigma: string;
  readonly baseline: string;
  readonly residual: string;
  readonly within: string;
  readonly rewardRange: string;
}

export function resolveCreditOptions(flags: CreditFlags): CreditOptions {
  const estimator = oneOf('--estimator', flags.estimator, ESTIMATORS);
  const rule = oneOf('--sigma', flags.sigma, SIGMA_RULES);
  const baseline = resolveBaseline(flags.baseline);
  if (natureOf(estimator).isLog && baseline === 'value' && rule !== 'uniform')
    throw usageError(
      `--estimator ${estimator} scores whole continuations, so v̂(s_0) is no baseline for a reward`,
      'use --baseline group or a number',
    );
  const residual = oneOf('--residual', flags.residual, RESIDUALS);
  if (residual !== 'uniform' && rule !== 'rudder')
    throw usageError(
      `--residual ${residual}: --sigma ${rule} leaves no residual`,
      'add --sigma rudder, or leave out --residual',
    );
  return {
    estimator,
    rule,
    baseline,
    residual,
    within: oneOf('--within', flags.within, WITHINS),
    rewardRange: resolveRange(flags.rewardRange),
  };
}

/**
 * Steps are labelled by the sign of their σ, which one rule alone gives them.
 * @throws RredcotError (exit 2) for an export that the rule cannot make
 */
export function checkExportRule(exportName: ExportName | undefined, rule: SigmaRule): void {
  if (exportName === 'prm' && rule !== 'rudder')
    throw usageError(
      `--export prm labels steps by the sign of σ, and with --sigma ${rule} all have the same`,
      'add --sigma rudder',
    );
}

function resolveBaseline(text: string): Baseline {
  if (text === 'auto' || text === 'group' || text === 'value') return text;
  return finite('--baseline', text, 'auto, group, value or a number', 'auto');
}

function resolveRange(text: string): readonly [number, number] {
  const expected = 'two numbers low,high with low below high, e.g. -1,1';
  const parts = text.split(',');
  if (parts.length !== 2)
    throw usageError(`--reward-range ${text}: expected ${expected}`, '--reward-range 0,1');
  const [low, high] = parts.map((part) => finite('--reward-range', part, expected, '0,1')) as [
    number,
    number,
  ];
  if (low >= high) throw usageError(`--reward-range ${text}: expected ${expected}`, '--reward-range 0,1');
  return [low, high];
}
