// Peers that may not lie in a trace's window: which groups lie apart, and their traces, read once before all others and kept aside.
import { createHash } from 'node:crypto';
import { tmpdir } from 'node:os';
import type { GroupRewards } from '../credit/baseline.js';
import { throwIfInterrupted, usageError } from '../errors.js';
import { partOfRow } from '../io/files/run-folder.js';
import { count, plural } from '../plural.js';
import type { TokenizedTrace } from '../question.js';
import type { Log } from '../report/log.js';
import { type BadRow, eachTrace, isBad } from '../rows.js';
import { openSpill, type Spill } from '../scored/spill.js';
import type { Trace } from '../trace.js';

/** A trace that can be another's peer. */
export interface Related extends TokenizedTrace {
  readonly reward: { readonly reward: number | null };
}

/** A trace that can be a peer: where it lies, of which prompt it is, and how it is had. */
export interface Candidate {
  /** of two rows with one id the second is the first one again, and no peer of it */
  readonly id: string;
  readonly ordinal: number;
  readonly item: number;
  /** the same for two traces of one prompt */
  readonly prompt: string;
  /** the same for two traces of one completion, whatever their ids */
  readonly completion: string;
  get(): Promise<Related>;
}

/** Traces that can be peers: all of each group that is kept, in input order. */
export type FarPeers = ReadonlyMap<string, readonly Candidate[]>;

/** A trace as a candidate. @param get gives it, where it is asked for */
export function candidateOf(
  { trace, promptIds, completionIds }: TokenizedTrace,
  get: () => Promise<Related>,
): Candidate {
  const { id, source, item = 0 } = trace;
  const [prompt, completion] = [hashOf(promptIds), hashOf(completionIds)];
  return { id, ordinal: source.ordinal, item, prompt, completion, get };
}

function hashOf({ buffer, byteOffset, byteLength }: Int32Array): string {
  return createHash('sha256')
    .update(Buffer.from(buffer, byteOffset, byteLength))
    .digest('base64');
}

/** Where a run's traces lie. */
export interface WindowLayout {
  /** the window of an input row */
  windowOf(ordinal: number): number;
  /** whether some row from the first to the last is still to be scored by this process */
  isOwn(first: number, last: number): boolean;
  /** whether a row may hold several traces: a window of very many comes in parts */
  readonly explodes: boolean;
  /** the row in which `--limit` ends the run; what follows is no window's, but a peer all the same */
  readonly lastRow: number | undefined;
}

/**
 * The groups that may not lie in one window as a whole, and whether a row may hold one of their traces: it stands between the first
 * and the last row of one. That is asked for rows in order.
 * @param rewards with spans
 */
export function groupsApart(
  rewards: ReadonlyMap<string, GroupRewards>,
  { windowOf, isOwn, explodes, lastRow = Number.POSITIVE_INFINITY }: WindowLayout,
) {
  const isWhole = (first: number, last: number): boolean =>
    windowOf(first) === windowOf(last) && (explodes ? first === last && last < lastRow : last <= lastRow);
  const groups = new Set<string>();
  const spans: (readonly [number, number])[] = [];
  for (const [group, { span, count }] of rewards) {
    if (span === undefined || count === 0 || isWhole(...span)) continue;
    if (span[0] > lastRow || !isOwn(...span)) continue;
    groups.add(group);
    spans.push(span);
  }
  spans.sort(([a], [b]) => a - b);
  let [next, end] = [0, -1];
  return {
    groups,
    wanted(ordinal: number): boolean {
      for (; next < spans.length && (spans[next] as readonly [number, number])[0] <= ordinal; next++)
        end = Math.max(end, (spans[next] as readonly [number, number])[1]);
      return ordinal <= end;
    },
  };
}

/**
 * Keeps what peers need of each trace of some groups.
 * @param traces what is rejected among them is no peer
 */
export async function keepFarPeers(
  traces: AsyncIterable<Related | BadRow>,
  groups: ReadonlySet<string>,
  spill: Spill,
): Promise<FarPeers> {
  const kept = new Map<string, Candidate[]>();
  for await (const item of traces) {
    if (isBad(item) || item.reward.reward === null) continue;
    const { group } = item.trace;
    if (group === undefined || !groups.has(group)) continue;
    const list = kept.get(group) ?? [];
    kept.set(group, list);
    const number = await spill.add(keptOf(item));
    list.push(candidateOf(item, async () => (await spill.get(number)) as Related));
  }
  return kept;
}

/** What is kept: enough to read the trace by the policy, to align its pieces, and to name it in an error. */
function keptOf({ trace, promptIds, completionIds, pieces, reward: { reward } }: Related): Related {
  const { columns: _, raw: __, arrow: ___, ...place } = trace.source;
  const { id, group, item } = trace;
  const source = { ...place, columns: {}, raw: '' };
  const { textEnd, own } = pieces.tokens;
  const { thought, opts, ends } = pieces;
  const tokens = { text: '', units: new Int32Array(completionIds.length + 1), textEnd };
  return {
    trace: {
      ...{ id, source, prompt: '', completion: '', references: [], reward },
      ...(group !== undefined && { group }),
      ...(item !== undefined && { item }),
    },
    ...{ promptIds, completionIds, reward: { reward } },
    pieces: { tokens: own ? { ...tokens, own } : tokens, thought, opts, ends, segments: ends.length },
  };
}

/** A share of groups that lie apart from which on it is told what that costs. */
const MANY_APART = 0.25;

/** A trace as the first stage takes it. */
export interface Traced {
  readonly trace: Trace;
}

/** An input that can be read once more, and where its traces lie. */
export interface WholeInput {
  /** Traces of the rows that are wanted. @param wanted asked for every row in order */
  again(wanted: (ordinal: number) => boolean): AsyncIterable<Traced | BadRow>;
  /** Makes one ready as those of the first pass were; what is rejected is no peer. @throws TraceRejected */
  prepare(item: Traced): Promise<Related>;
  readonly run: {
    /** what a first pass has found; undefined where the input can be read only once */
    readonly prescan:
      | {
          readonly groupRewards: ReadonlyMap<string, GroupRewards>;
          readonly traces: number | null;
          readonly rejects: number | null;
          readonly rows: number;
          readonly lastRow?: number;
        }
      | undefined;
    readonly folder: string | undefined;
    readonly rowsPerPart: number;
    /** whether this process has still to make the part of an input row */
    wanted(ordinal: number): boolean;
  };
}

/**
 * Reads them, and keeps them in a file without a name while they are needed; undefined where every group that this process has to score lies in one window as a whole.
 * @param windowOf the window of an input row
 * @throws RredcotError (exit 2) for what can be read only once
 */
export async function farPeers(
  { again, prepare, run: { prescan, folder, rowsPerPart, wanted } }: WholeInput,
  windowOf: (ordinal: number) => number,
  log: Log,
  signal: AbortSignal,
) {
  const isOwn = (first: number, last: number): boolean => {
    for (let c = partOfRow(first, rowsPerPart); c <= partOfRow(last, rowsPerPart); c++)
      if (wanted(c * rowsPerPart)) return true;
    return false;
  };
  // stdin is refused before; a pipe shows itself here
  if (prescan === undefined)
    throw usageError(
      "a trace's peers are looked for in the whole input, which a pipe gives once",
      'name a file',
    );
  const { groupRewards, traces, rejects, rows, lastRow } = prescan;
  const explodes = (traces ?? 0) + (rejects ?? 0) > rows;
  const apart = groupsApart(groupRewards, { windowOf, isOwn, explodes, lastRow });
  if (apart.groups.size === 0) return undefined;
  if (apart.groups.size > MANY_APART * groupRewards.size)
    log.warn(
      'peers_apart',
      `${count(apart.groups.size)} of ${plural(groupRewards.size, 'group')} lie apart, further than the rows that share runs of the policy: it reads peers again wherever they are needed; an input sorted by group takes less time`,
    );
  const spill = await openSpill(folder ?? tmpdir());
  try {
    const isOf = ({ trace }: Traced): boolean => trace.group !== undefined && apart.groups.has(trace.group);
    let read = 0;
    async function* ofGroups() {
      for await (const item of again(apart.wanted)) {
        throwIfInterrupted(signal);
        if (isBad(item) || !isOf(item)) continue;
        read++;
        const line = `reading peers: ${plural(read, 'trace')} of ${plural(apart.groups.size, 'group')}`;
        log.progress(line, { traces: read });
        yield item;
      }
    }
    const peers = await keepFarPeers(eachTrace(ofGroups(), prepare), apart.groups, spill);
    return { peers, [Symbol.asyncDispose]: () => spill.close() };
  } catch (error) {
    await spill.close();
    throw error;
  }
}
