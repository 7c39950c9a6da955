// `--max-rejects`, and the end of a run of which nothing is left: told early, with the commonest reason and its cure.
import { EXIT, RredcotError, usageError } from '../errors.js';
import { finite, positiveInteger } from '../flag-values.js';
import { filePaths } from '../io/files/run-folder.js';
import type { Target } from '../io/write/target.js';
import { count, plural } from '../plural.js';
import type { RejectTally } from './counts.js';

/** At most so many rejects: a number, or a share of all traces. */
export type MaxRejects = { readonly count: number } | { readonly share: number };

/** `--max-rejects 100` or `--max-rejects 1.5%`. */
export function resolveMaxRejects(text: string): MaxRejects {
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

/** What is allowed, and where the reasons are found. */
export interface RejectLimits {
  readonly maxRejects?: MaxRejects | undefined;
  readonly target: Pick<Target, 'kind' | 'path' | 'rejects'>;
  /** no other shard has a part of the run: where it has no trace, there is none */
  readonly isAll: boolean;
}

type Counted = { readonly traces: number; readonly rejects: number };

/** So many rejects without one trace are enough to tell that something is wrong with all of them. */
const HOPELESS = 1000;

/**
 * Stops a run that rejects too much: at once for a number, at the end for a share; and one that rejects everything.
 * @param tally of this process, for the commonest reason
 * @throws RredcotError (exit 65)
 */
export function checkRejects(
  counted: Counted,
  { maxRejects: limit, target, isAll }: RejectLimits,
  atEnd: boolean,
  tally?: RejectTally,
): void {
  const { traces, rejects } = counted;
  const all = traces + rejects;
  const isFolder = target.kind === 'folder';
  const isTooMany =
    limit !== undefined && ('count' in limit ? rejects > limit.count : atEnd && rejects > limit.share * all);
  if (isTooMany) {
    const most = 'count' in limit ? limit.count : `${100 * limit.share} %`;
    const where = isFolder ? 'the reasons are' : 'nothing was written but the reasons,';
    throw new RejectsError(
      `${rejects} of ${plural(all, 'trace')} rejected, --max-rejects allows ${most}; ${where} in ${target.rejects}`,
      'raise --max-rejects, or correct the rows and start again with --overwrite',
      false,
    );
  }
  // beside the folder, too, which goes: the mended command is no other one than the folder's
  const reasons = isFolder ? filePaths(target.path).rejects : target.rejects;
  if (isAll && tally !== undefined)
    refuseWithoutTrace(counted, tally, limit, atEnd, `nothing was written but the reasons, in ${reasons}`);
}

/**
 * Stops a run without a trace: at its end, or after its first thousand rejects, unless `--max-rejects` says that there may be so many.
 * @param where the reasons are found, as a sentence's end
 * @throws RredcotError (exit 65)
 */
export function refuseWithoutTrace(
  { traces, rejects }: Counted,
  tally: RejectTally,
  limit: MaxRejects | undefined,
  atEnd: boolean,
  where: string,
): void {
  if (traces > 0 || rejects === 0 || (!atEnd && (rejects < HOPELESS || limit !== undefined))) return;
  const [found] = tally.counts;
  const every = rejects === 1 ? 'the only trace was' : `every one of ${plural(rejects, 'trace')} was`;
  const what = atEnd ? every : `all of the first ${plural(rejects, 'trace')} were`;
  const reason = found === undefined ? '' : ` (${found.code} ${count(found.count)}, first ${found.first})`;
  const isUnread = /^(json|utf8|line_too_long|truncated|unanswered|engine)$/.test(found?.code ?? '');
  const who = /^(unanswered|engine)$/.test(found?.code ?? '') ? 'look at the engine' : 'correct the rows';
  const general = `${who}${isUnread ? '' : ', or tell where their fields are with --map'}`;
  const cure = (found && cureOf(found.first)) ?? general;
  throw new RejectsError(
    `${what} rejected${reason}; ${where}`,
    atEnd ? cure : `${cure}; --max-rejects 100% goes on all the same`,
    true,
  );
}

/** The flag, or the command, in a reason: what stands behind its last colon. */
export function cureOf(reason: string): string | undefined {
  return /: (?:use |did you mean )?((?:--|rredcot )[^?]*)\??$/.exec(reason)?.[1];
}
