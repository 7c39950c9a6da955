// Windows of traces in, the same with each trace's mates out, and with the guests that these windows lack.
import { type BadRow, isBad } from '../../rows.js';
import type { Trace } from '../../trace.js';
import type { PassJob, Window } from '../passes/cut-windows.js';
import { type Candidate, candidateOf, type FarMates, type Related } from './far-mates.js';
import {
  bagsOf,
  chooseMates,
  type GivenMate,
  type MateOptions,
  type SharedBeginning,
  type Sibling,
  sharedTokens,
  tailsAt,
} from './mates.js';

/** Others of a group that a trace is compared with, or as many as it may have mates; of more, those that follow it. */
const MOST_COMPARED = 15;

/** A trace with its mates. */
export interface WithMates {
  readonly mates: readonly GivenMate[];
  /** the others it was compared with */
  readonly begunAlike: readonly SharedBeginning[];
}

type Member = Related & Sibling;

/**
 * Gives every trace the mates that are most like it, and what of their tails is scored at its exits.
 * @param far undefined where every group lies in one window as a whole
 */
export async function* withMates<T extends Related>(
  windows: AsyncIterable<Window<T>>,
  far: FarMates | undefined,
  opts: MateOptions,
): AsyncGenerator<Window<T & WithMates>> {
  for await (const { items } of windows) {
    const near = items.filter((item): item is T => !isBad(item));
    const groups = candidatesOf(near, far);
    const present = new Set(near.map(({ trace }) => trace));
    const guests = new Map<Trace, PassJob>();
    const given: ((T & WithMates) | BadRow)[] = [];
    for (const item of items) {
      if (isBad(item)) {
        given.push(item);
        continue;
      }
      const most = Math.max(MOST_COMPARED, opts.mates);
      const others = othersOf(item, groups.get(item.trace.group) ?? [], most);
      const members = await Promise.all(others.map(({ get }) => get()));
      const chosen = chooseMates({ ...item, bags: bagsOf(item) }, members, opts.mates);
      const mates = new Set(chosen.map(({ mate }) => mate));
      const rest = members.filter((member) => !mates.has(member));
      for (const mate of mates) if (!present.has(mate.trace)) guests.set(mate.trace, mate);
      given.push({
        ...item,
        mates: chosen.map(({ mate, at }) => ({ mate, at, reward: mate.reward.reward as number })),
        begunAlike: rest.map(({ completionIds, reward }) => ({
          tokens: sharedTokens(item.completionIds, completionIds),
          reward: reward.reward as number,
        })),
        needs: chosen.map(({ mate }) => mate.trace),
        tails: tailsAt(item, chosen, opts),
      });
    }
    yield { items: given, guests: [...guests.values()] };
  }
}

/** The traces of each group that can be mates, in input order: those of the window, and those that are kept. */
function candidatesOf(near: readonly Related[], far: FarMates | undefined) {
  const groups = new Map<string | undefined, Candidate<Member>[]>();
  for (const item of near) {
    const { group } = item.trace;
    if (group === undefined) continue;
    const candidates = groups.get(group) ?? [];
    groups.set(group, candidates);
    if (item.reward.reward !== null) candidates.push(candidateOf(item, memberOf(item)));
  }
  for (const [group, candidates] of groups) {
    const own = new Set(candidates.map(placeOf));
    for (const other of far?.of(group as string) ?? []) {
      if (own.has(placeOf(other))) continue;
      let read: Promise<Member> | undefined;
      // once a window: it is one guest, whoever asks for it
      const get = () => (read ??= other.get().then((item) => memberOf(item)()));
      candidates.push({ ...other, get });
    }
    candidates.sort((a, b) => a.ordinal - b.ordinal || a.item - b.item);
  }
  return groups;
}

/** The trace as a member, with its bags when it is first asked for. */
function memberOf(item: Related): () => Promise<Member> {
  let member: Member | undefined;
  return async () => (member ??= { ...item, bags: bagsOf(item) });
}

/**
 * The candidates that follow a trace, the first ones after the last, `most` of them. What goes on from another prompt says
 * nothing of this one.
 */
function othersOf(
  item: Related,
  candidates: readonly Candidate<Member>[],
  most: number,
): Candidate<Member>[] {
  const own = candidateOf(item, async () => undefined);
  const place = candidates.findIndex((candidate) => isSame(candidate, own));
  const found: Candidate<Member>[] = [];
  const known = new Set([item.trace.id]);
  // one of unknown reward is no candidate: all are asked, from the first on
  for (let n = 1; n <= candidates.length && found.length < most; n++) {
    const other = candidates[(place + n) % candidates.length] as Candidate<Member>;
    if (other.prompt !== own.prompt || known.has(other.id)) continue;
    known.add(other.id);
    found.push(other);
  }
  return found;
}

function isSame(a: Candidate<unknown>, b: Candidate<unknown>): boolean {
  return a.ordinal === b.ordinal && a.item === b.item;
}

function placeOf({ ordinal, item }: Candidate<unknown>): string {
  return `${ordinal}/${item}`;
}
