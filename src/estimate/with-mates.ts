// Gives each trace of a window its mates, and the window the guests that it lacks.
import { TraceRejected, usageError } from '../errors.js';
import { STDIN } from '../io/files/file-bytes.js';
import { type BadRow, eachTrace, isBad } from '../rows.js';
import { candidateExits, type SegmentOptions } from '../segment/segment.js';
import { declarationOf, SEGMENTERS } from '../segment/segmenters.js';
import type { Trace } from '../trace.js';
import { CORRECT } from './bank.js';
import { type Candidate, candidateOf, type FarMates, type Related } from './far-mates.js';
import { bagsOf, chooseMates, type MateOptions, type Sibling, tailsAt, type WithMates } from './mates.js';
import { sharedTokens } from './references.js';
import type { PassJob, Window } from './windows.js';

/** Others of a group that a trace is compared with, or as many as it may have mates; of more, those that follow it. */
const MOST_COMPARED = 15;

type Member = Related & Sibling;

/**
 * Gives every trace the mates that are most like it, and what of their tails is scored at its exits.
 * @param far undefined where every group lies in one window as a whole
 * @param maxTokens that the policy takes: a trace is turned down (`too_long`) where a tail of its mates has no room behind it
 */
export async function* withMates<T extends Related>(
  windows: AsyncIterable<Window<T>>,
  far: FarMates | undefined,
  opts: MateOptions,
  maxTokens: number,
): AsyncGenerator<Window<T & WithMates>> {
  for await (const { items } of windows) {
    const near = items.filter((item): item is T => !isBad(item));
    const groups = candidatesOf(near, far);
    const drawn = new Map(Array.from(groups, ([group, all]) => [group, drawsOf(all)] as const));
    const present = new Set<Trace>();
    const asked = new Map<Trace, PassJob>();
    const mated = eachTrace(items, async (item): Promise<T & WithMates> => {
      const most = Math.max(MOST_COMPARED, opts.mates);
      const own = candidateOf(item, async () => undefined);
      const others = othersOf(own, groups.get(item.trace.group) ?? [], most);
      const members = await Promise.all(others.map(({ get }) => get()));
      const timesOf = (each: Candidate<unknown> | undefined): number =>
        (each && drawn.get(item.trace.group)?.get(textKey(each))) ?? 1;
      const chosen = chooseMates({ ...item, bags: bagsOf(item) }, members, opts.mates);
      const mates = new Set(chosen.map(({ mate }) => mate));
      const rest = members.filter((member) => !mates.has(member));
      const tails = tailsAt(item, chosen, opts);
      const lacking = roomNeeded(item, tails) - maxTokens;
      if (lacking > 0) throw noRoom(opts, lacking, maxTokens);
      present.add(item.trace);
      for (const mate of mates) asked.set(mate.trace, mate);
      return {
        ...item,
        draws: timesOf(own),
        mates: chosen.map(({ mate, at }) => ({
          ...{ mate, at, reward: mate.reward.reward as number },
          draws: timesOf(others[members.indexOf(mate)]),
        })),
        begunAlike: rest.map(({ completionIds, reward }) => ({
          tokens: sharedTokens(item.completionIds, completionIds),
          reward: reward.reward as number,
        })),
        needs: chosen.map(({ mate }) => mate.trace),
        tails,
      };
    });
    const given: ((T & WithMates) | BadRow)[] = [];
    for await (const item of mated) given.push(item);
    yield { items: given, guests: [...asked.values()].filter(({ trace }) => !present.has(trace)) };
  }
}

/** Which right mate is looked at: the one with the fewest tokens, or the one whose thought is most like the trace's own. */
export const WHICH_MATE = ['shortest', 'similar'] as const;

/**
 * Gives every trace a prompt with the text of a right mate in it; of equal ones it is the first that follows the trace.
 * @param far as of {@link withMates}
 * @param prompt makes it of the mate's ids, without its end tokens. @throws TraceRejected
 */
export async function* withRightMate<T extends Related>(
  windows: AsyncIterable<Window<T>>,
  far: FarMates | undefined,
  which: (typeof WHICH_MATE)[number],
  prompt: (item: T, mate: Int32Array) => Int32Array,
): AsyncGenerator<Window<T>> {
  const lengthOf = ({ completionIds, pieces }: Member) =>
    Math.min(completionIds.length, pieces.tokens.textEnd);
  for await (const { items, guests } of windows) {
    const groups = candidatesOf(
      items.filter((item): item is T => !isBad(item)),
      far,
    );
    const hinted = eachTrace(items, async (item): Promise<T> => {
      const own = candidateOf(item, async () => undefined);
      const others = othersOf(own, groups.get(item.trace.group) ?? [], Number.POSITIVE_INFINITY);
      const members = await Promise.all(others.map(({ get }) => get()));
      const right = members.filter(({ reward }) => (reward.reward as number) > CORRECT);
      const [mate] =
        which === 'similar'
          ? chooseMates({ ...item, bags: bagsOf(item) }, right, 1).map(({ mate: one }) => one)
          : right.toSorted((a, b) => lengthOf(a) - lengthOf(b));
      const ids = mate?.completionIds.subarray(0, lengthOf(mate));
      return { ...item, again: ids ? { promptIds: prompt(item, ids) } : { hasHint: false } };
    });
    const given: (T | BadRow)[] = [];
    for await (const item of hinted) given.push(item);
    yield { items: given, guests };
  }
}

/** @throws RredcotError (exit 2) where the inputs cannot be read twice @param name of the estimator */
export function refuseStream(name: string, inputs: readonly string[]): void {
  if (inputs.length === 0 || inputs.includes(STDIN))
    throw usageError(
      `--estimator ${name} looks for a trace's mates in the whole input, which stdin gives once`,
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

/** Tokens up to the end of the tail that lies furthest behind; 0 where there is none. */
function roomNeeded({ promptIds, pieces }: Related, tails: ReturnType<typeof tailsAt>): number {
  const ends = Array.from(candidateExits(pieces), (exit) =>
    tails(exit).map(({ length }) => promptIds.length + exit + length),
  );
  return Math.max(0, ...ends.flat());
}

function noRoom({ mateTokens }: MateOptions, lacking: number, maxTokens: number): TraceRejected {
  const fits = mateTokens - lacking;
  const flag = fits > 0 ? `--mate-tokens ${fits}, or ` : '';
  return new TraceRejected(
    'too_long',
    `behind its last exits the ${mateTokens} tokens of a mate's tail have no room: the policy takes ${maxTokens} tokens, ${lacking} too few: ${flag}--policy <one with a longer context>`,
  );
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
    for (const other of far?.get(group as string) ?? []) {
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

/** How many traces of a group have each completion; rows of one id are one trace. */
function drawsOf(candidates: readonly Candidate<unknown>[]): ReadonlyMap<string, number> {
  const draws = new Map<string, number>();
  for (const each of new Map(candidates.map((candidate) => [candidate.id, candidate])).values())
    draws.set(textKey(each), (draws.get(textKey(each)) ?? 0) + 1);
  return draws;
}

function textKey({ prompt, completion }: Candidate<unknown>): string {
  return `${prompt} ${completion}`;
}

/** The trace as a member, with its bags when it is first asked for. */
function memberOf(item: Related): () => Promise<Member> {
  let member: Member | undefined;
  return async () => (member ??= { ...item, bags: bagsOf(item) });
}

/**
 * The candidates that follow a trace, the first ones after the last, `most` of them. What goes on from another prompt says
 * nothing of this one; of one completion there is one, and none of the trace's own.
 */
function othersOf(
  own: Candidate<unknown>,
  candidates: readonly Candidate<Member>[],
  most: number,
): Candidate<Member>[] {
  const place = candidates.findIndex((each) => placeOf(each) === placeOf(own));
  const found: Candidate<Member>[] = [];
  const known = new Set([own.id, own.completion]);
  // one of unknown reward is no candidate: all are asked, from the first on
  for (let n = 1; n <= candidates.length && found.length < most; n++) {
    const other = candidates[(place + n) % candidates.length] as Candidate<Member>;
    if (other.prompt !== own.prompt || known.has(other.id) || known.has(other.completion)) continue;
    known.add(other.id).add(other.completion);
    found.push(other);
  }
  return found;
}

function placeOf({ ordinal, item }: Candidate<unknown>): string {
  return `${ordinal}/${item}`;
}
