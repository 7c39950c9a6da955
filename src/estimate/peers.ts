// Shows each trace the others of its group, wherever these lie: in its window, or apart, where they are read once before all others and kept in a spill file.
import { createHash } from 'node:crypto';
import { tmpdir } from 'node:os';
import type { GroupRewards, Rewarded } from '../credit/credit.js';
import { throwIfInterrupted, usageError } from '../errors.js';
import { STDIN } from '../io/files/files.js';
import { partOfRow, windowOf } from '../io/files/run-folder.js';
import { plural } from '../plural.js';
import type { TokenizedTrace, Windows } from '../question.js';
import type { Log } from '../report/log.js';
import { type BadRow, eachTrace, isBad } from '../rows.js';
import { openSpill } from '../scored/spill.js';
import type { SegmentOptions } from '../segment/segment.js';
import { declarationOf, SEGMENTERS } from '../segment/segmenters.js';
import type { Trace } from '../trace.js';
import { eachInWindow } from './answerer/windows.js';

/** A trace that can be another's peer. */
export type Related = TokenizedTrace & Rewarded;

/** Another trace of the group, with the same prompt and another completion. */
export interface Peer extends TokenizedTrace, Rewarded {
  /** traces of the group that have its completion */
  readonly draws: number;
}

/** What a trace is shown of its group. */
export interface Peers {
  readonly peers: readonly Peer[];
  /** traces of the group that have the trace's own completion, itself among them */
  readonly draws: number;
}

/** Where a trace that can be a peer lies, of which prompt it is, and how it is read. */
export interface Candidate {
  /** of two rows with one id the second is the first one again, and no peer of it */
  readonly id: string;
  readonly ordinal: number;
  readonly item: number;
  /** the same for two traces of one prompt */
  readonly prompt: string;
  /** the same for two traces of one prompt and completion, whatever their ids */
  readonly text: string;
  get(): Promise<Related>;
}

/** Traces that can be peers: all of each group that lies apart, in input order. */
export type FarPeers = ReadonlyMap<string, readonly Candidate[]>;

/** Whether the inputs cannot be read twice. */
export const isStream = (inputs: readonly string[]) => inputs.length === 0 || inputs.includes(STDIN);

/** @throws RredcotError (exit 2) where they cannot @param name of the estimator */
export function refuseStream(name: string, inputs: readonly string[]): void {
  if (isStream(inputs)) throw onlyOnce(`--estimator ${name} looks for a trace's peers`, 'stdin');
}

function onlyOnce(what: string, input: string): Error {
  return usageError(`${what} in the whole input, which ${input} gives once`, 'name a file');
}

/** @throws RredcotError (exit 2) for a segmenter whose pieces are not known before the policy has read the trace @param what is aligned, for the error */
export function refuseLate(what: string, { segmenter }: SegmentOptions): void {
  const isLate = (name: typeof segmenter) => declarationOf(name).cuts !== undefined;
  if (isLate(segmenter))
    throw usageError(
      `${what} aligns pieces of text, and --segmenter ${segmenter} has none before the policy has read the trace`,
      `--segmenter ${SEGMENTERS.filter((name) => !isLate(name)).join('|')}`,
    );
}

// ------ which of its group a trace is shown

/**
 * Shows every trace the others of its group that follow it, the first ones after the last.
 * @param far undefined where every group lies in one window as a whole
 * @param most of them at most
 */
export function withPeers<T extends Related>(
  windows: Windows<T>,
  far: FarPeers | undefined,
  most: number,
): Windows<T & Peers> {
  return eachInWindow(windows, (items) => {
    const groups = candidatesOf(items, far);
    const draws = new Map(Array.from(groups, ([group, all]) => [group, drawsOf(all)] as const));
    return async (item) => {
      const own = candidateOf(item, async () => item);
      const { group } = item.trace;
      const timesOf = ({ text }: Candidate) => draws.get(group)?.get(text) ?? 1;
      const others = othersOf(own, groups.get(group) ?? [], most);
      const read = others.map(async (other) => ({ ...(await other.get()), draws: timesOf(other) }));
      return { ...item, peers: await Promise.all(read), draws: timesOf(own) };
    };
  });
}

/** A trace as a candidate. @param get gives it, where it is asked for */
export function candidateOf(own: TokenizedTrace, get: () => Promise<Related>): Candidate {
  const { id, source, item = 0 } = own.trace;
  const prompt = hashOf(own.promptIds);
  return { id, ordinal: source.ordinal, item, prompt, text: `${prompt} ${hashOf(own.completionIds)}`, get };
}

function hashOf({ buffer, byteOffset, byteLength }: Int32Array): string {
  const bytes = Buffer.from(buffer, byteOffset, byteLength);
  return createHash('sha256').update(bytes).digest('base64');
}

/** The traces of each group that can be peers, in input order: those of the window, and those that lie apart. */
function candidatesOf(near: readonly Related[], far: FarPeers | undefined) {
  const groups = new Map<string | undefined, Candidate[]>();
  for (const item of near) {
    const { group } = item.trace;
    if (group === undefined) continue;
    const candidates = groups.get(group) ?? [];
    groups.set(group, candidates);
    if (item.reward.reward !== null) candidates.push(candidateOf(item, async () => item));
  }
  for (const [group, candidates] of groups) {
    const own = new Set(candidates.map(placeOf));
    for (const other of far?.get(group as string) ?? []) {
      if (own.has(placeOf(other))) continue;
      let read: Promise<Related> | undefined;
      // once a window: it is one trace, whoever asks for it
      candidates.push({ ...other, get: () => (read ??= other.get()) });
    }
    candidates.sort((a, b) => a.ordinal - b.ordinal || a.item - b.item);
  }
  return groups;
}

/** How many traces of a group have each completion; rows of one id are one trace. */
function drawsOf(candidates: readonly Candidate[]): ReadonlyMap<string, number> {
  const draws = new Map<string, number>();
  for (const { text } of new Map(candidates.map((candidate) => [candidate.id, candidate])).values())
    draws.set(text, (draws.get(text) ?? 0) + 1);
  return draws;
}

/**
 * The candidates that follow a trace, the first ones after the last, `most` of them. What goes on from another prompt says
 * nothing of this one; of one completion there is one, and none of the trace's own.
 */
function othersOf(own: Candidate, candidates: readonly Candidate[], most: number): Candidate[] {
  const place = candidates.findIndex((each) => placeOf(each) === placeOf(own));
  const found: Candidate[] = [];
  const known = new Set([own.id, own.text]);
  // one of unknown reward is no candidate: all are asked, from the first on
  for (let n = 1; n <= candidates.length && found.length < most; n++) {
    const other = candidates[(place + n) % candidates.length] as Candidate;
    if (other.prompt !== own.prompt || known.has(other.id) || known.has(other.text)) continue;
    known.add(other.id).add(other.text);
    found.push(other);
  }
  return found;
}

function placeOf({ ordinal, item }: Candidate): string {
  return `${ordinal}/${item}`;
}

// ------ groups that do not lie in one window

/** An input that can be read once more. */
export interface WholeInput {
  again(wanted: (ordinal: number) => boolean): AsyncIterable<{ readonly trace: Trace } | BadRow>;
  readonly run: {
    /** undefined where the input can be read only once */
    readonly prescan:
      | (Readonly<Record<'traces' | 'rejects', number | null>> & {
          readonly groupRewards: ReadonlyMap<string, GroupRewards>;
          readonly rows: number;
          readonly lastRow?: number;
        })
      | undefined;
    readonly folder: string | undefined;
    readonly rowsPerPart: number;
    /** whether this process has still to make the part of an input row */
    wanted(ordinal: number): boolean;
  };
  /** Makes a trace ready as those of the first pass were; what is rejected is no peer. @throws TraceRejected */
  prepare(item: { readonly trace: Trace }): Promise<Related>;
}

/**
 * Reads the traces of groups that lie apart, and keeps them in a file without a name while they are needed; undefined where every
 * group that this process has to score lies in one window as a whole.
 * @throws RredcotError (exit 2) for what can be read only once
 */
export async function farPeers({ again, prepare, run }: WholeInput, log: Log, signal: AbortSignal) {
  const spans = spansApart(run);
  if (spans.size === 0) return undefined;
  const all = [...spans.values()];
  const first = all.reduce((least, [row]) => Math.min(least, row), Number.POSITIVE_INFINITY);
  const last = all.reduce((most, [, row]) => Math.max(most, row), 0);
  const spill = await openSpill(run.folder ?? tmpdir());
  async function* ofGroups() {
    let read = 0;
    for await (const item of again((row) => row >= first && row <= last)) {
      throwIfInterrupted(signal);
      if (isBad(item) || !spans.has(item.trace.group ?? '')) continue;
      const line = `reading peers: ${plural(++read, 'trace')} of ${plural(spans.size, 'group')}`;
      log.progress(line, { traces: read });
      yield item;
    }
  }
  const peers = new Map<string, Candidate[]>();
  try {
    for await (const item of eachTrace(ofGroups(), prepare)) {
      if (isBad(item) || item.reward.reward === null) continue;
      const number = await spill.add(keptOf(item));
      const group = item.trace.group as string;
      const candidates = peers.get(group) ?? [];
      peers.set(group, candidates);
      candidates.push(candidateOf(item, async () => (await spill.get(number)) as Related));
    }
    return { peers, [Symbol.asyncDispose]: () => spill.close() };
  } catch (error) {
    await spill.close();
    throw error;
  }
}

/** First and last rows of the groups that this process scores a part of, and that may not lie in one window as a whole. */
function spansApart({ prescan, rowsPerPart, wanted }: Omit<WholeInput['run'], 'folder'>) {
  // stdin is refused before; a pipe shows itself here
  if (prescan === undefined) throw onlyOnce("a trace's peers are looked for", 'a pipe');
  const { groupRewards, traces, rejects, rows, lastRow = Number.POSITIVE_INFINITY } = prescan;
  // of rows that hold several traces, a window of very many comes in parts
  const explodes = (traces ?? 0) + (rejects ?? 0) > rows;
  const isWhole = (first: number, last: number): boolean =>
    explodes
      ? first === last && last < lastRow
      : windowOf(first, rowsPerPart) === windowOf(last, rowsPerPart) && last <= lastRow;
  const isOwn = (first: number, last: number): boolean => {
    for (let part = partOfRow(first, rowsPerPart); part <= partOfRow(last, rowsPerPart); part++)
      if (wanted(part * rowsPerPart)) return true;
    return false;
  };
  const spans = new Map<string, readonly [first: number, last: number]>();
  for (const [group, { span, count }] of groupRewards)
    if (span !== undefined && count > 0 && span[0] <= lastRow && !isWhole(...span) && isOwn(...span))
      spans.set(group, span);
  return spans;
}

/** What is kept: enough to read the trace by the policy, to align its pieces, and to name it in an error. */
function keptOf({ trace, promptIds, completionIds, pieces, reward: { reward } }: Related): Related {
  const { columns: _, raw: __, arrow: ___, ...place } = trace.source;
  const { id, group, item } = trace;
  const { textEnd, own } = pieces.tokens;
  const { thought, opts, ends } = pieces;
  const tokens = { text: '', units: new Int32Array(completionIds.length + 1), textEnd };
  return {
    trace: {
      ...{ id, source: { ...place, columns: {}, raw: '' } },
      ...{ prompt: '', completion: '', references: [], reward },
      ...(group !== undefined && { group }),
      ...(item !== undefined && { item }),
    },
    ...{ promptIds, completionIds, reward: { reward } },
    pieces: { tokens: own ? { ...tokens, own } : tokens, thought, opts, ends, segments: ends.length },
  };
}
