// `--max-rejects`, and the end of a run of which nothing is left: told early, with the commonest reason and its cure.
import { EXIT, RredcotError, usageError } from '../errors.js';
import { finite, positiveInteger } from '../flag-values.js';
import { rejectsPath } from '../io/files/run-folder.js';
import { count, plural } from '../plural.js';
import type { CommonReject, RejectTally } from '../report/summary.js';
import type { Target } from './target.js';

/** At most so many rejects: a number, or a share of all traces. */
export type MaxRejects = { readonly count: number } | { readonly share: number };

/** `--max-rejects 100` or `--max-rejects 1.5%`; undefined: no limit. */
export function resolveMaxRejects(text: string | undefined): MaxRejects | undefined {
  if (text === undefined) return undefined;
  if (!text.endsWith('%')) return { count: positiveInteger('--max-rejects', text, 100, 0) };
  const share = finite('--max-rejects', text.slice(0, -1), 'a number or a percentage', '5%') / 100;
  if (share < 0 || share > 1)
    throw usageError(`--max-rejects ${text}: expected 0% to 100%`, '--max-rejects 1%');
  return { share };
}

/** Too many rejects, or all: their reasons are what the user needs next. */
export class RejectsError extends RredcotError {
  /** @param isAll there is no trace beside them */
  constructor(
    message: string,
    hint: string,
    readonly isAll: boolean,
  ) {
    super(message, { exitCode: EXIT.data, hint });
  }
}

type Counted = { readonly traces: number; readonly rejects: number };

/** Where the reasons are found when the run is over. */
export type Reasons = Pick<Target, 'kind' | 'path' | 'rejects'>;

/**
 * Where the reasons of a run without a trace are put: beside its folder too, which goes, so that the mended command is not
 * taken for another one than the folder's.
 */
export function reasonsFile({ kind, path, rejects }: Reasons): string {
  return kind === 'folder' ? rejectsPath(path) : rejects;
}

/**
 * Stops a run that rejects too much: at once for a number, at the end for a share.
 * @throws RredcotError (exit 65)
 */
export function checkRejects(
  counted: Counted,
  limit: MaxRejects | undefined,
  target: Reasons,
  atEnd: boolean,
): void {
  const message = tooMany(counted, limit, atEnd);
  if (message === undefined) return;
  const where = target.kind === 'folder' ? 'the reasons are' : 'nothing was written but the reasons,';
  const hint = 'raise --max-rejects, or correct the rows and start again with --overwrite';
  throw new RejectsError(`${message}; ${where} in ${target.rejects}`, hint, false);
}

/** What is said of more rejects than the limit allows; undefined: they are within it. */
function tooMany(
  { traces, rejects }: Counted,
  limit: MaxRejects | undefined,
  atEnd: boolean,
): string | undefined {
  const all = traces + rejects;
  if (limit === undefined) return undefined;
  if ('count' in limit)
    return rejects > limit.count
      ? `${plural(rejects, 'trace')} rejected, --max-rejects allows ${limit.count}`
      : undefined;
  return atEnd && rejects > limit.share * all
    ? `${rejects} of ${plural(all, 'trace')} rejected, --max-rejects allows ${100 * limit.share} %`
    : undefined;
}

/** So many rejects without one trace are enough to tell that something is wrong with all of them. */
const HOPELESS = 1000;

/**
 * Stops a run whose first traces are all rejected; a user who gives `--max-rejects` has other plans.
 * @param where the reasons are found, as a sentence's end
 * @throws RredcotError (exit 65)
 */
export function refuseHopeless(
  traces: number,
  tally: RejectTally,
  limit: MaxRejects | undefined,
  where: string,
): void {
  const [found] = tally.counts;
  if (traces > 0 || tally.total < HOPELESS || limit !== undefined || found === undefined) return;
  throw new RejectsError(
    `all of the first ${plural(tally.total, 'trace')} were rejected (${found.code} ${count(found.count)}, first ${found.first}); ${where}`,
    `${cureOf(found.first) ?? 'correct the rows'}; --max-rejects 100% goes on all the same`,
    true,
  );
}

/**
 * Stops a run at whose end there is not one trace.
 * @param commonest the reason of most rejects, where this run has met them
 * @throws RredcotError (exit 65)
 */
export function refuseAllRejected(
  { traces, rejects }: Counted,
  target: Reasons,
  commonest?: CommonReject,
): void {
  if (traces > 0 || rejects === 0) return;
  const reason =
    commonest === undefined ? '' : ` (${commonest.code} ${count(commonest.count)}, first ${commonest.first})`;
  throw new RejectsError(
    `${rejects === 1 ? 'the only trace' : `every one of ${plural(rejects, 'trace')}`} was rejected${reason}; ${nothingBut(target)}`,
    (commonest && cureOf(commonest.first)) ?? 'correct the rows, or tell where their fields are with --map',
    true,
  );
}

/** How a message tells of a run without a trace. */
export function nothingBut(target: Reasons): string {
  return `nothing was written but the reasons, in ${reasonsFile(target)}`;
}

/** The flag in a reason: what stands behind its last colon. */
export function cureOf(reason: string): string | undefined {
  return /: (?:use |did you mean )?(--[^?]*)\??$/.exec(reason)?.[1];
}
