// Shows each trace of a window the others of its group, wherever these lie.
import { usageError } from '../errors.js';
import { STDIN } from '../io/files/files.js';
import type { Windows } from '../question.js';
import { type BadRow, eachTrace, isBad } from '../rows.js';
import type { SegmentOptions } from '../segment/segment.js';
import { declarationOf, SEGMENTERS } from '../segment/segmenters.js';
import { type Candidate, candidateOf, type FarPeers, type Related } from './far-peers.js';

/** Another trace of the group, with the same prompt and another completion. */
export interface Peer extends Related {
  /** traces of the group that have its completion */
  readonly draws: number;
}

/** What a trace is shown of its group. */
export interface Peers {
  readonly peers: readonly Peer[];
  /** traces of the group that have the trace's own completion, itself among them */
  readonly draws: number;
}

/**
 * Shows every trace the others of its group that follow it, the first ones after the last.
 * @param far undefined where every group lies in one window as a whole
 * @param most of them at most
 */
export async function* withPeers<T extends Related>(
  windows: Windows<T>,
  far: FarPeers | undefined,
  most: number,
): AsyncGenerator<readonly ((T & Peers) | BadRow)[]> {
  for await (const items of windows) {
    const groups = candidatesOf(
      items.filter((item): item is T => !isBad(item)),
      far,
    );
    const draws = new Map(Array.from(groups, ([group, all]) => [group, drawsOf(all)] as const));
    const shown = eachTrace(items, async (item): Promise<T & Peers> => {
      const own = candidateOf(item, async () => item);
      const { group } = item.trace;
      const timesOf = (each: Candidate) => draws.get(group)?.get(textKey(each)) ?? 1;
      const others = othersOf(own, groups.get(group) ?? [], most);
      const peers = await Promise.all(
        others.map(async (other) => ({ ...(await other.get()), draws: timesOf(other) })),
      );
      return { ...item, peers, draws: timesOf(own) };
    });
    const window: ((T & Peers) | BadRow)[] = [];
    for await (const item of shown) window.push(item);
    yield window;
  }
}

/** @throws RredcotError (exit 2) where the inputs cannot be read twice @param name of the estimator */
export function refuseStream(name: string, inputs: readonly string[]): void {
  if (inputs.length === 0 || inputs.includes(STDIN))
    throw usageError(
      `--estimator ${name} looks for a trace's peers in the whole input, which stdin gives once`,
      'name a file',
    );
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

/** The traces of each group that can be peers, in input order: those of the window, and those that are kept. */
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
  for (const each of new Map(candidates.map((candidate) => [candidate.id, candidate])).values())
    draws.set(textKey(each), (draws.get(textKey(each)) ?? 0) + 1);
  return draws;
}

function textKey({ prompt, completion }: Candidate): string {
  return `${prompt} ${completion}`;
}

/**
 * The candidates that follow a trace, the first ones after the last, `most` of them. What goes on from another prompt says
 * nothing of this one; of one completion there is one, and none of the trace's own.
 */
function othersOf(own: Candidate, candidates: readonly Candidate[], most: number): Candidate[] {
  const place = candidates.findIndex((each) => placeOf(each) === placeOf(own));
  const found: Candidate[] = [];
  const known = new Set([own.id, own.completion]);
  // one of unknown reward is no candidate: all are asked, from the first on
  for (let n = 1; n <= candidates.length && found.length < most; n++) {
    const other = candidates[(place + n) % candidates.length] as Candidate;
    if (other.prompt !== own.prompt || known.has(other.id) || known.has(other.completion)) continue;
    known.add(other.id).add(other.completion);
    found.push(other);
  }
  return found;
}

function placeOf({ ordinal, item }: Candidate): string {
  return `${ordinal}/${item}`;
}
