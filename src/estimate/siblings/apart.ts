// Reads the traces of groups that may not lie in one window, once and before all others, for the mates that they are.
import { randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { throwIfInterrupted, usageError } from '../../errors.js';
import { chunkOf } from '../../io/files/chunks.js';
import { openSpill } from '../../io/scored/spill.js';
import { count, plural } from '../../plural.js';
import type { Log } from '../../report/log.js';
import { type BadRow, eachTrace, isBad } from '../../rows.js';
import type { Trace } from '../../trace.js';
import type { GroupRewards } from '../baseline.js';
import { type FarMates, groupsApart, keepFarMates, type Related } from './far-mates.js';

/** A share of groups that lie apart from which on it is told what that costs. */
const MANY_APART = 0.25;

/** Them, in a file without a name while they are needed. */
interface KeptMates extends AsyncDisposable {
  readonly mates: FarMates;
}

interface Traced {
  readonly trace: Trace;
}

/** An input that can be read once more, and where its traces lie. */
export interface WholeInput {
  /** Traces of the rows that are wanted. @param wanted asked for every row in order */
  again(wanted: (ordinal: number) => boolean): AsyncIterable<Traced | BadRow>;
  /** Makes one ready as those of the first pass were; what is turned down is no mate. @throws TraceRejected */
  prepare(item: Traced): Promise<Related>;
  readonly run: {
    /** what a first pass has found; undefined where the input can be read only once */
    readonly survey:
      | {
          readonly groupRewards: ReadonlyMap<string, GroupRewards>;
          readonly traces: number | null;
          readonly rejects: number | null;
          readonly rows: number;
          readonly lastRow?: number;
        }
      | undefined;
    readonly folder: string | undefined;
    readonly rowsPerChunk: number;
    /** whether this process has still to make the chunk of an input row */
    wanted(ordinal: number): boolean;
  };
}

/**
 * Reads them; undefined where every group that this process has to score lies in one window as a whole.
 * @param windowOf the window of an input row
 * @throws RredcotError (exit 2) for what can be read only once
 */
export async function farMates(
  { again, prepare, run: { survey, folder, rowsPerChunk, wanted } }: WholeInput,
  windowOf: (ordinal: number) => number,
  log: Log,
  signal: AbortSignal,
): Promise<KeptMates | undefined> {
  const isOwn = (first: number, last: number): boolean => {
    for (let c = chunkOf(first, rowsPerChunk); c <= chunkOf(last, rowsPerChunk); c++)
      if (wanted(c * rowsPerChunk)) return true;
    return false;
  };
  // stdin is refused before; a pipe shows itself here
  if (survey === undefined)
    throw usageError(
      "a trace's mates are looked for in the whole input, which a pipe gives once",
      'name a file',
    );
  const { groupRewards, traces, rejects, rows, lastRow } = survey;
  const explodes = (traces ?? 0) + (rejects ?? 0) > rows;
  const apart = groupsApart(groupRewards, { windowOf, isOwn, explodes, lastRow });
  if (apart.groups.size === 0) return undefined;
  if (apart.groups.size > MANY_APART * groupRewards.size)
    log.warn(
      'mates_apart',
      `${count(apart.groups.size)} of ${plural(groupRewards.size, 'group')} lie apart, further than the rows that share runs of the policy: it reads mates again wherever they are needed; an input sorted by group takes less time`,
    );
  const spill = await openSpill(join(folder ?? tmpdir(), `.mates.${randomBytes(4).toString('hex')}.scratch`));
  try {
    const isOf = ({ trace }: Traced): boolean => trace.group !== undefined && apart.groups.has(trace.group);
    let read = 0;
    async function* ofGroups() {
      for await (const item of again(apart.wanted)) {
        throwIfInterrupted(signal);
        if (isBad(item) || !isOf(item)) continue;
        read++;
        const line = `reading mates: ${plural(read, 'trace')} of ${plural(apart.groups.size, 'group')}`;
        log.progress(line, { traces: read });
        yield item;
      }
    }
    const mates = await keepFarMates(eachTrace(ofGroups(), prepare), apart.groups, spill);
    return { mates, [Symbol.asyncDispose]: () => spill.close() };
  } catch (error) {
    await spill.close();
    throw error;
  }
}
