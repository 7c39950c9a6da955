// The first light pass over the inputs: rows counted, column types, the rewards of each group.

import type { GroupRewards } from '../credit/baseline.js';
import { throwIfInterrupted } from '../errors.js';
import { inferColumns, type PassThroughColumn } from '../io/arrow/schema.js';
import type { FieldMap } from '../io/map/fields.js';
import { mapRow } from '../io/map/map.js';
import { isJson } from '../io/read/input-file.js';
import { type Input, readRows } from '../io/read/inputs.js';
import type { Part } from '../io/write/facts.js';
import { count } from '../plural.js';
import { RejectTally } from '../report/counts.js';
import type { Log } from '../report/log.js';
import { type Named, SeenNames } from '../report/names.js';
import { refuseWithoutTrace } from '../report/reject-limits.js';
import type { Warning } from '../report/warnings.js';
import { type BadRow, isBad } from '../rows.js';
import { partOf } from '../scored/stored-run.js';
import { isOfTurns, type Trace } from '../trace.js';
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
    Pick<JobOptions, 'limit' | 'maxLineBytes' | 'signal'>,
    Partial<Pick<JobOptions, 'maxRejects'>> {
  readonly map: FieldMap;
  /** whether the columns' types are wanted */
  readonly typed: boolean;
  readonly log: Log;
}

/**
 * Reads files once from end to end, or as far as a limit goes where no group is needed whole. Columnar rows of which nothing but their
 * number is wanted are not decoded.
 */
export async function prescanInputs(inputs: readonly Input[], opts: PrescanOptions): Promise<Prescan> {
  const { reward: rewardOf, readsPeers: spans, groupReferences, typed, maxLineBytes, log, signal } = opts;
  const { limit = Number.POSITIVE_INFINITY } = opts;
  const inference = inferColumns();
  const groupRewards: Prescan['groupRewards'] = new Map();
  const isCounted =
    !inputs.some(({ layout }) => isJson(layout)) &&
    !(typed || rewardOf !== undefined || opts.rewards !== undefined || opts.limit !== undefined);
  const names = new SeenNames(rewardOf !== undefined);
  const [mib, total] = [2 ** 20, inputs.reduce((sum, { size }) => sum + (size ?? 0), 0)];
  let [rows, traces, bytes, told] = [0, 0, 0, 0];
  let last: { readonly lastRow: number; readonly lastItems: number } | undefined;
  let [isCut, hasGroup, hasTurns, isEnded] = [false, false, false, true];
  const onBytes = (read: number): void => {
    throwIfInterrupted(signal);
    bytes += read;
    // thousands of rows a second: the line is not made for each
    if (bytes < Math.min(told + mib, total)) return;
    told = bytes;
    log.progress(`reading: ${count(Math.round(bytes / mib))} of ${count(Math.round(total / mib))} MiB`, {
      bytes,
    });
  };
  const wanted = (ordinal: number): boolean => {
    rows = ordinal + 1;
    return !isCounted;
  };
  const tally = new RejectTally();
  const reject = (bad: BadRow): void => {
    tally.add(bad);
    const counted = { traces, rejects: tally.total };
    refuseWithoutTrace(counted, tally, opts.maxRejects, false, 'nothing was written');
  };
  for await (const row of readRows(inputs, { maxLineBytes, onBytes, wanted })) {
    isCut ||= traces + tally.total >= limit;
    if (isCut && rewardOf === undefined) {
      rows = row.ordinal;
      isEnded = false;
      break;
    }
    const before = traces + tally.total;
    const noteLast = (): void => {
      if (before < limit && traces + tally.total >= limit)
        last = { lastRow: row.ordinal, lastItems: limit - before };
    };
    if (isBad(row)) {
      reject(row);
      noteLast();
      continue;
    }
    let hasTrace = false;
    for (const trace of mapRow(row, opts.map, opts.needs)) {
      const isTaken = traces + tally.total < limit;
      isCut ||= !isTaken;
      if (isBad(trace)) {
        reject(trace);
        continue;
      }
      hasTrace = true;
      hasGroup ||= trace.group !== undefined;
      hasTurns ||= isOfTurns(trace);
      traces++;
      names.add(rewardOf ? namedTrace(trace, spans) : { id: trace.id, prompt: null }, isTaken);
      opts.rewards?.add(trace);
      const reward = rewardOf?.(trace) ?? null;
      groupReferences?.add(trace, reward);
      if (trace.group === undefined || (reward === null && !spans)) continue;
      const known = groupRewards.get(trace.group);
      groupRewards.set(trace.group, withReward(known, reward, spans ? row.ordinal : undefined));
    }
    noteLast();
    // a row that is rejected is not written, so it has no say in the columns
    if (hasTrace && typed) inference.add(row.columns);
  }
  opts.rewards?.assert();
  // of a prompt that names no group all completions are sampled
  const isWhole = opts.needs.completion === false && !hasGroup;
  const ofLimit: Part | undefined = isCut ? { by: 'limit', limit } : undefined;
  const part = isWhole ? undefined : (ofLimit ?? (await partOf(inputs))?.part);
  return {
    ...{ rows, columns: inference.finish(), groupRewards },
    ...(isCounted ? { traces: null, rejects: null } : { traces, rejects: tally.total }),
    ...(isCut && { whole: Math.round((traces + tally.total) * (isEnded ? 1 : total / Math.max(1, bytes))) }),
    ...last,
    ...(spans || rows === 0 ? {} : { rowBytes: Math.round(bytes / rows) }),
    ...(part && { part }),
    ...(hasTurns && { hasTurns }),
    warnings: names.warnings,
  };
}

/** @param ordinal of the row, where it is wanted between which rows a group lies */
function withReward(
  { sum, squares, count, span }: GroupRewards = NO_REWARDS,
  reward: number | null,
  ordinal: number | undefined,
): GroupRewards {
  return {
    sum: sum + (reward ?? 0),
    squares: squares + (reward ?? 0) ** 2,
    count: count + (reward === null ? 0 : 1),
    ...(ordinal !== undefined && { span: [span?.[0] ?? ordinal, ordinal] }),
  };
}

const NO_REWARDS: GroupRewards = { sum: 0, squares: 0, count: 0 };

/** @param isPeer whether others of its group are told by their completions */
function namedTrace({ id, group, prompt, completion, ...ids }: Trace, isPeer: boolean | undefined): Named {
  return {
    ...{ id, group, prompt: ids.promptIds?.join() ?? JSON.stringify(prompt) },
    ...(isPeer && { completion: ids.completionIds?.join() ?? completion }),
  };
}
