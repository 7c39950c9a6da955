// `--max-rejects`, and the end of a run of which nothing is left.
import { EXIT, RredcotError, usageError } from '../../errors.js';
import { plural } from '../../plural.js';
import { finite, positiveInteger } from './flag-values.js';
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
  const hint = 'raise --max-rejects, or correct the rows and start again with --restart';
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
    `correct the rows, or tell where their fields are with --map${target.kind === 'folder' ? ', and start again with --restart' : ''}`,
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
