// The first light pass over the inputs: rows counted, column types, the rewards of each group.

import type { GroupRewards } from '../credit/credit.js';
import { throwIfInterrupted } from '../errors.js';
import { inferColumns, type PassThroughColumn } from '../io/arrow/schema.js';
import type { FieldMap } from '../io/map/fields.js';
import { mapRow } from '../io/map/map.js';
import { hiveFolders } from '../io/read/hive.js';
import { isJson } from '../io/read/input-file.js';
import { type Input, readRows } from '../io/read/inputs.js';
import type { Part } from '../io/write/facts.js';
import { count } from '../plural.js';
import { RejectTally } from '../report/counts.js';
import type { Log } from '../report/log.js';
import { refuseWithoutTrace } from '../report/reject-limits.js';
import { seenNames, type Warning } from '../report/warnings.js';
import { isBad } from '../rows.js';
import { partOf } from '../scored/stored-run.js';
import { isOfTurns } from '../trace.js';
import type { JobOptions, Work } from './options.js';

/** What the whole of the inputs holds. */
export interface Prescan {
  /** all rows, the bad ones too; up to the limit of a run that needs no group whole */
  readonly rows: number;
  /** mean length of a row in the inputs' own bytes; absent where traces are looked at together with their group's */
  readonly rowBytes?: number;
  /** traces that mapped; null where the rows were counted alone */
  readonly traces: number | null;
  /** rows, and traces of rows, that did not map; null where the rows were counted alone */
  readonly rejects: number | null;
  /** traces of the whole inputs where a limit takes fewer, rejects among them; about, where it has ended the first pass */
  readonly whole?: number;
  /** columns of the rows that hold a trace, in the order first seen */
  readonly columns: PassThroughColumn[];
  /** known rewards of each group */
  readonly groupRewards: Map<string, GroupRewards>;
  /** the row in which the limit is reached, and how many of its traces are taken */
  readonly lastRow?: number;
  readonly lastItems?: number;
  /** what has cut the job's rows out of a data set: its limit, or what has made the inputs */
  readonly part?: Part;
  /** a trace has several turns */
  readonly hasTurns?: true;
  /** what stands against the names of its traces; nothing where the rows were counted alone */
  readonly warnings: readonly Warning[];
}

/** Where groups count, the rows between which one lies are wanted too if its traces are looked at together. */
export interface PrescanOptions
  extends Pick<Work, 'needs' | 'reward' | 'rewards' | 'readsPeers' | 'groupReferences'>,
    Pick<JobOptions, 'limit' | 'maxLineBytes' | 'signal' | 'partition'>,
    Partial<Pick<JobOptions, 'maxRejects'>> {
  readonly map: FieldMap;
  /** whether the columns' types are wanted */
  readonly typed: boolean;
  readonly log: Log;
}

/** Reads files once from end to end, or up to a limit where no group is needed whole; columnar rows that are only counted are not decoded. */
export async function prescanInputs(inputs: readonly Input[], opts: PrescanOptions): Promise<Prescan> {
  const { reward: rewardOf, readsPeers: spans, groupReferences, typed, maxLineBytes, log, signal } = opts;
  const { limit = Number.POSITIVE_INFINITY } = opts;
  const inference = inferColumns();
  const groupRewards: Prescan['groupRewards'] = new Map();
  const isCounted =
    !inputs.some(({ layout }) => isJson(layout)) &&
    !(typed || rewardOf !== undefined || opts.rewards !== undefined || opts.limit !== undefined) &&
    opts.partition === undefined;
  const folderOf = opts.partition === undefined ? undefined : hiveFolders(opts.partition);
  const names = seenNames(rewardOf !== undefined);
  const [mib, total] = [2 ** 20, inputs.reduce((sum, { size }) => sum + (size ?? 0), 0)];
  let [rows, traces, bytes, told] = [0, 0, 0, 0];
  let last: { readonly lastRow: number; readonly lastItems: number } | undefined;
  let [isCut, hasTurns, isEnded] = [false, false, true];
  const onBytes = (read: number): void => {
    throwIfInterrupted(signal);
    bytes += read;
    // thousands of rows a second: the line is not made for each
    if (bytes < Math.min(told + mib, total)) return;
    told = bytes;
    const line = `reading: ${count(Math.round(bytes / mib))} of ${count(Math.round(total / mib))} MiB`;
    log.progress(line, { bytes });
  };
  const wanted = (ordinal: number): boolean => {
    rows = ordinal + 1;
    return !isCounted;
  };
  const tally = new RejectTally();
  for await (const row of readRows(inputs, { maxLineBytes, onBytes, wanted })) {
    const before = traces + tally.total;
    isCut ||= before >= limit;
    if (isCut && rewardOf === undefined) {
      rows = row.ordinal;
      isEnded = false;
      break;
    }
    let hasTrace = false;
    for (const trace of isBad(row) ? [row] : mapRow(row, opts.map, opts.needs)) {
      const isTaken = traces + tally.total < limit;
      isCut ||= !isTaken;
      if (isBad(trace)) {
        tally.add(trace);
        const counted = { traces, rejects: tally.total };
        refuseWithoutTrace(counted, tally, opts.maxRejects, false, 'nothing was written');
        continue;
      }
      const { id, group, promptIds, completionIds, padding, source } = trace;
      hasTrace = true;
      // a padded mask may not stand beside ids without padding
      hasTurns ||= isOfTurns(trace) || (padding !== undefined && 'completion_mask' in source.columns);
      traces++;
      const named = { id, group, prompt: promptIds?.join() ?? JSON.stringify(trace.prompt) };
      names.add(spans ? { ...named, completion: completionIds?.join() ?? trace.completion } : named, isTaken);
      opts.rewards?.add(trace);
      const reward = rewardOf?.(trace) ?? null;
      groupReferences?.add(trace, reward);
      if (group === undefined || (reward === null && !spans)) continue;
      const { sum, squares, count, span } = groupRewards.get(group) ?? { sum: 0, squares: 0, count: 0 };
      groupRewards.set(group, {
        sum: sum + (reward ?? 0),
        squares: squares + (reward ?? 0) ** 2,
        count: count + (reward === null ? 0 : 1),
        ...(spans && { span: [span?.[0] ?? row.ordinal, row.ordinal] }),
      });
    }
    if (before < limit && traces + tally.total >= limit)
      last = { lastRow: row.ordinal, lastItems: limit - before };
    // a row that is rejected is not written, so it has no say in the columns
    if (hasTrace && typed && !isBad(row)) inference.add(row.columns);
    if (hasTrace && before < limit && !isBad(row)) folderOf?.(row.columns[opts.partition as string]);
  }
  opts.rewards?.assert();
  const part: Part | undefined = isCut ? { by: 'limit', limit } : (await partOf(inputs))?.part;
  return {
    ...{ rows, columns: inference.finish(), groupRewards },
    ...(isCounted ? { traces: null, rejects: null } : { traces, rejects: tally.total }),
    ...(isCut && { whole: Math.round((traces + tally.total) * (isEnded ? 1 : total / Math.max(1, bytes))) }),
    ...last,
    ...(spans || rows === 0 ? {} : { rowBytes: Math.round(bytes / rows) }),
    ...(part && { part }),
    ...(hasTurns && { hasTurns }),
    warnings: names.warnings(),
  };
}
