// Windows of traces in, the same with each trace's mates out, and with the guests that these windows lack.
import { isBad } from '../../rows.js';
import type { Trace } from '../../trace.js';
import type { PassJob, Window } from '../passes/cut-windows.js';
import type { FarMates, Related } from './far-mates.js';
import { bagsOf, chooseMates, type GivenMate, type MateOptions, type Sibling, tailsAt } from './mates.js';

/** Others of a group that a trace is compared with, or as many as it may have mates; of more, those that follow it. */
const MOST_COMPARED = 15;

/** A trace with its mates. */
export interface WithMates {
  readonly mates: readonly GivenMate[];
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
    const groups = await membersOf(near, far);
    const present = new Set(near.map(({ trace }) => trace));
    const guests = new Map<Trace, PassJob>();
    const given = items.map((item) => {
      if (isBad(item)) return item;
      const members = groups.get(item.trace.group) ?? [];
      const place = members.findIndex(({ trace }) => isSame(trace, item.trace));
      const others = [...members.slice(place + 1), ...members.slice(0, Math.max(0, place))];
      const chosen = chooseMates(
        { ...item, bags: members[place]?.bags ?? bagsOf(item) },
        ofOnePrompt(others, item.promptIds, Math.max(MOST_COMPARED, opts.mates)),
        opts.mates,
      );
      for (const { mate } of chosen) if (!present.has(mate.trace)) guests.set(mate.trace, mate);
      return {
        ...item,
        mates: chosen.map(({ mate, at }) => ({ mate, at, reward: mate.reward.reward as number })),
        needs: chosen.map(({ mate }) => mate.trace),
        tails: tailsAt(item, chosen, opts),
      };
    });
    yield { items: given, guests: [...guests.values()] };
  }
}

/** The traces of each group that can be mates, in input order: those of the window, and those that are kept. */
async function membersOf(near: readonly Related[], far: FarMates | undefined) {
  const groups = new Map<string | undefined, Member[]>();
  for (const item of near) {
    const { group } = item.trace;
    if (group === undefined) continue;
    const members = groups.get(group) ?? [];
    groups.set(group, members);
    if (item.reward.reward !== null) members.push({ ...item, bags: bagsOf(item) });
  }
  for (const [group, members] of groups) {
    const others = (await far?.of(group as string)) ?? [];
    for (const other of others)
      if (!members.some(({ trace }) => isSame(trace, other.trace)))
        members.push({ ...other, bags: bagsOf(other) });
    members.sort((a, b) => orderOf(a.trace) - orderOf(b.trace) || (a.trace.item ?? 0) - (b.trace.item ?? 0));
  }
  return groups;
}

const orderOf = ({ source }: Trace): number => source.ordinal;

function isSame(a: Trace, b: Trace): boolean {
  return a.source.ordinal === b.source.ordinal && (a.item ?? 0) === (b.item ?? 0);
}

/** The first of those that go on from the same prompt, `most` of them: what follows another one says nothing of this one. */
function ofOnePrompt(others: readonly Member[], prompt: Int32Array, most: number): Member[] {
  const found: Member[] = [];
  for (const other of others) {
    if (found.length === most) break;
    const { promptIds } = other;
    if (promptIds.length === prompt.length && promptIds.every((id, n) => id === prompt[n])) found.push(other);
  }
  return found;
}
