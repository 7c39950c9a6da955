// Ends a run whose workers have rejected too many traces together, and says why they were rejected.
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { EXIT, RredcotError } from '../../errors.js';
import type { Shard } from '../../io/files/chunks.js';
import { runPaths } from '../../io/files/run-paths.js';
import { statIfThere } from '../../io/files/stat-if-there.js';
import { endEmptyRun } from '../../io/run/empty-run.js';
import { publishRejects } from '../../io/run/publish.js';
import { readRejects } from '../../io/scored/stored-rejects.js';
import { escapeControls } from '../../printable.js';
import { ownCounts } from './counts.js';
import {
  type CommonReject,
  checkRejects,
  type MaxRejects,
  RejectTally,
  reasonsFile,
  refuseAllRejected,
} from './reject-limits.js';
import type { Target } from './target.js';

/** Where workers share a run. */
export type FolderTarget = Target & { readonly folder: string };

/** What of the workers' options counts here. */
interface Limits {
  readonly devices: readonly unknown[];
  readonly maxRejects: MaxRejects | undefined;
}

/** The limits on rejects hold for all workers together. */
export async function checkAll(
  total: { readonly traces: number; readonly rejects: number },
  folder: string,
  target: FolderTarget,
  shard: Shard,
  opts: Limits,
): Promise<void> {
  try {
    checkRejects(total, opts.maxRejects, target, true);
    if (shard.count === 1) refuseAllRejected(total, target, await commonestReject(folder));
  } catch (error) {
    await rm(runPaths(folder).success, { force: true });
    if (isDataError(error)) throw await withRejects(error, folder, target, shard, opts);
    throw error;
  }
}

export function isDataError(error: unknown): error is RredcotError {
  return error instanceof RredcotError && error.exitCode === EXIT.data;
}

/**
 * The reasons of too many rejects are what the user needs next: put beside the file, and the error tells of that place. A
 * run without a trace goes.
 */
export async function withRejects(
  error: RredcotError,
  folder: string,
  target: FolderTarget,
  shard: Shard,
  { devices }: Limits,
): Promise<RredcotError> {
  // an input can be so damaged that no run was begun
  if ((await statIfThere(runPaths(folder).run)) === null) return error;
  const { traces, rejects } = await ownCounts(folder, shard, devices.length);
  const isEmpty = shard.count === 1 && traces === 0 && rejects > 0;
  const { kind } = target;
  const reasons = isEmpty ? reasonsFile(target) : target.rejects;
  if (isEmpty && kind !== 'stdout') await endEmptyRun(kind, folder, reasons, () => {});
  else if (kind === 'file') await publishRejects(folder, reasons, () => {});
  const { message, exitCode, hint } = error;
  // a worker knows the hidden folder alone
  const text = message.replace(escapeControls(join(folder, 'rejects')), reasons);
  return new RredcotError(text, { exitCode, ...(hint === undefined ? {} : { hint }) });
}

/** What most rejects of a run have in common. */
async function commonestReject(folder: string): Promise<CommonReject | undefined> {
  const tally = new RejectTally();
  for (const name of (await readdir(join(folder, 'rejects'), { recursive: true })).sort()) {
    if (!name.endsWith('.jsonl')) continue;
    for await (const reject of readRejects(join(folder, 'rejects', name))) tally.add(reject);
  }
  return tally.commonest;
}
