// Chooses the mates of a trace among its group, and what is scored of their tails.
import { candidateExits, type Pieces } from '../../segment/segment.js';
import type { Suffix } from '../references.js';
import { align, type PieceBags, pieceBags } from './alignment.js';

/** What of a trace its mates are chosen by. */
export interface Sibling {
  readonly completionIds: Int32Array;
  readonly pieces: Pick<Pieces, 'tokens' | 'thought' | 'ends'>;
  readonly bags: PieceBags;
}

/** How mates are used. */
export interface MateOptions {
  /** mates a trace at most, the most similar ones */
  readonly mates: number;
  /** L: tokens of a mate's tail that are scored */
  readonly mateTokens: number;
}

/** A mate, as one trace sees it. */
export interface Mate<T> {
  readonly mate: T;
  /** (P+1) for each exit that the trace's pieces allow: tokens of the mate's completion before the corresponding state */
  readonly at: Int32Array;
}

/** A mate that a trace was given, with its ζ. */
export interface GivenMate extends Mate<Pick<Sibling, 'completionIds'>> {
  readonly reward: number;
  /** traces of its group with its completion */
  readonly draws: number;
}

/** One that has begun as the trace did, word for word: at the states of that beginning its outcome counts as a whole. */
export interface SharedBeginning {
  /** tokens of the completion that both have */
  readonly tokens: number;
  readonly reward: number;
}

/** Pairs of pieces that are aligned at most, which take 16 bytes each: 4,000 pieces beside 4,000. */
const MOST_PAIRS = 2 ** 24;

/** The bags of a trace's pieces. */
export function bagsOf({ completionIds, pieces }: Omit<Sibling, 'bags'>): PieceBags {
  return pieceBags(completionIds, pieces.thought.start, pieces.ends);
}

/**
 * The mates whose thoughts are most like the trace's own, the most similar first; of equal ones those that come first.
 * @param others of the group, without the trace itself
 */
export function chooseMates<T extends Sibling>(own: Sibling, others: readonly T[], most: number): Mate<T>[] {
  return others
    .filter(({ bags }) => bags.length * own.bags.length <= MOST_PAIRS)
    .map((mate) => ({ mate, ...align(own.bags, mate.bags) }))
    .sort((a, b) => b.similarity - a.similarity)
    .slice(0, most)
    .map(({ mate, states }) => {
      const exits = candidateExits(mate.pieces);
      return { mate, at: states.map((state) => exits[state] as number) };
    });
}

/** Tokens with which two completions begin alike. */
export function sharedTokens(a: Int32Array, b: Int32Array): number {
  const length = Math.min(a.length, b.length);
  let n = 0;
  while (n < length && a[n] === b[n]) n++;
  return n;
}

/** What of a mate's tail is scored where it begins after `from` tokens of its completion; none is left at its end. */
export function tailFrom(
  { completionIds }: Pick<Sibling, 'completionIds'>,
  from: number,
  length: number,
): Int32Array {
  return completionIds.subarray(from, from + length);
}

/** The tails that are scored at an exit, mate after mate; a mate that has none there is left out. */
export function tailsAt(
  own: Pick<Sibling, 'pieces'>,
  mates: readonly Mate<Pick<Sibling, 'completionIds'>>[],
  { mateTokens }: MateOptions,
): (exit: number) => readonly Suffix[] {
  const places = placesOf(own.pieces);
  return (exit) =>
    mates.flatMap(({ mate, at }) => {
      const ids = tailFrom(mate, at[places.get(exit) as number] as number, mateTokens);
      return ids.length === 0 ? [] : [{ ids, scoredFrom: 0, utility: 0 }];
    });
}

/** The number of each exit that pieces allow; the first of those that stand at one place. */
export function placesOf(pieces: Sibling['pieces']): ReadonlyMap<number, number> {
  const exits = Array.from(candidateExits(pieces), (exit, n) => [exit, n] as const);
  return new Map(exits.reverse());
}
