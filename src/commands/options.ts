// Checks the flags that commands share and turns them into one resolved configuration.
import { EXIT, RredcotError } from '../errors.js';
import type { Baseline, CreditOptions } from '../estimate/credit.js';
import { ESTIMATORS } from '../estimate/references.js';
import { RESIDUALS, SIGMA_RULES, WITHINS } from '../estimate/sigma.js';
import type { OurColumn, OutputFormat } from '../io/output.js';
import { plural } from '../plural.js';
import type { DeviceChoice } from '../policy/device.js';
import { SEGMENTERS, type SegmentOptions } from '../segment/segment.js';
import type { Target } from './target.js';

/** METHOD §2: thought segments a trace is cut into. */
export const DEFAULT_MAX_SEGMENTS = 40;
/** tokens a segment of `--segmenter fixed` */
export const DEFAULT_FIXED_LENGTH = 64;

/** At most so many rejects: a number, or a share of all traces. */
export type MaxRejects = { readonly count: number } | { readonly share: number };

/** What `score` and `segment` share. */
export interface JobOptions {
  readonly device: DeviceChoice;
  readonly map: string | undefined;
  readonly preset: string;
  readonly join: string | undefined;
  readonly joinOn: string | undefined;
  readonly output: string | undefined;
  readonly format: OutputFormat | undefined;
  /** ours that are written; undefined: all */
  readonly columns: readonly OurColumn[] | undefined;
  readonly limit: number | undefined;
  readonly maxLineBytes: number;
  readonly signal: AbortSignal;
  readonly maxRejects: MaxRejects | undefined;
  readonly segments: SegmentOptions;
  /** variables for the policy's chat template */
  readonly chatTemplateArgs: Readonly<Record<string, unknown>>;
}

/** An error in how the command was called (exit 2). */
export function usageError(message: string, hint: string): RredcotError {
  return new RredcotError(message, { exitCode: EXIT.usage, hint });
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
  if (estimator === 'joint' && baseline === 'value' && rule !== 'uniform')
    throw usageError(
      '--estimator joint scores whole continuations, so v̂(s_0) is no baseline for a reward',
      'use --baseline group or a number',
    );
  return {
    estimator,
    rule,
    baseline,
    residual: oneOf('--residual', flags.residual, RESIDUALS),
    within: oneOf('--within', flags.within, WITHINS),
    rewardRange: resolveRange(flags.rewardRange),
  };
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

/** `--max-rejects 100` or `--max-rejects 1.5%`; undefined: no limit. */
export function resolveMaxRejects(text: string | undefined): MaxRejects | undefined {
  if (text === undefined) return undefined;
  if (!text.endsWith('%')) return { count: positiveInteger('--max-rejects', text, 100, 0) };
  const share = finite('--max-rejects', text.slice(0, -1), 'a number or a percentage', '5%') / 100;
  if (share < 0 || share > 1)
    throw usageError(`--max-rejects ${text}: expected 0% to 100%`, '--max-rejects 1%');
  return { share };
}

type Counted = { readonly traces: number; readonly rejects: number };

/**
 * Stops a run that rejects too much: at once for a number, at the end for a share.
 * @throws RredcotError (exit 65)
 */
export function checkRejects(
  { traces, rejects }: Counted,
  limit: MaxRejects | undefined,
  target: Pick<Target, 'kind' | 'rejects'>,
  atEnd: boolean,
): void {
  const hint = 'raise --max-rejects, or mend the rows and start anew with --restart';
  const all = traces + rejects;
  if (limit !== undefined && 'count' in limit && rejects > limit.count)
    throw tooMany(`${plural(rejects, 'trace')} rejected, --max-rejects allows ${limit.count}`, target, hint);
  if (limit !== undefined && 'share' in limit && atEnd && rejects > limit.share * all)
    throw tooMany(
      `${rejects} of ${plural(all, 'trace')} rejected, --max-rejects allows ${100 * limit.share} %`,
      target,
      hint,
    );
}

/**
 * Stops a run at whose end there is not one trace.
 * @param first the reason of the first reject, where this run has met it
 * @throws RredcotError (exit 65)
 */
export function refuseAllRejected(
  { traces, rejects }: Counted,
  target: Pick<Target, 'kind' | 'rejects'>,
  first?: string,
): void {
  if (traces > 0 || rejects === 0) return;
  const reason = first === undefined ? '' : ` (the first: ${first})`;
  throw tooMany(
    `${rejects === 1 ? 'the only trace' : `every one of ${plural(rejects, 'trace')}`} was rejected${reason}`,
    target,
    `mend the rows, or tell where their fields are with --map${target.kind === 'folder' ? ', and start anew with --restart' : ''}`,
  );
}

/** Chunks of a run folder are kept; a file is not made. */
function tooMany(message: string, { kind, rejects }: Pick<Target, 'kind' | 'rejects'>, hint: string): Error {
  const where =
    kind === 'folder'
      ? `the reasons are in ${rejects}`
      : `nothing was written but the reasons, in ${rejects}`;
  return new RredcotError(`${message}; ${where}`, { exitCode: EXIT.data, hint });
}

/** Checks a flag with named choices. */
export function oneOf<T extends string>(flag: string, value: string, choices: readonly T[]): T {
  const found = choices.find((choice) => choice === value);
  if (found === undefined)
    throw usageError(`${flag} ${value}: unknown choice`, `${flag} ${choices.join('|')}`);
  return found;
}

/**
 * Checks a flag that takes a whole number of at least `least`.
 * @param example what the hint shows
 */
export function positiveInteger(flag: string, text: string, example: number, least = 1): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(value) || value < least)
    throw usageError(`${flag} ${text}: expected a whole number of at least ${least}`, `${flag} ${example}`);
  return value;
}

/** Checks a flag that takes a number. @param example what the hint shows */
export function finite(flag: string, text: string, expected: string, example: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value))
    throw usageError(`${flag} ${text}: expected ${expected}`, `${flag} ${example}`);
  return value;
}
