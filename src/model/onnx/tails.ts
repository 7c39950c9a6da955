// Tails scored at several exits of a trace as few branches: what goes on as the trace itself does, or as another tail does, is read once.
import type { Continuation, TailsAt } from '../../question.js';
import { sharedTokens } from '../text/encode.js';

/** Where the scores of a tail are: those of its first tokens are the trace's own, the others a branch's. */
interface TailPlace {
  /** tokens with which the trace itself goes on from the exit */
  readonly along: number;
  readonly length: number;
  /** undefined where the trace has them all */
  branch: number | undefined;
}

export type SharedTails = ReturnType<typeof shareTails>;

/**
 * Finds the branches that are enough for the tails of some exits. A tail that shares n tokens with the trace's own has the trace's n
 * log-probabilities, and goes on behind the exit n tokens later; there two tails are one where the shorter begins the longer.
 * @param completion (T)
 * @param exits (E)
 */
export function shareTails(completion: Int32Array, exits: readonly number[], tails: TailsAt) {
  const parting = new Map<number, { rest: Int32Array; place: TailPlace }[]>();
  /** (E) of the tails at each exit */
  const places = exits.map((exit) =>
    tails(exit).map((tail) => {
      const along = sharedTokens(tail, completion.subarray(exit));
      const place: TailPlace = { along, length: tail.length, branch: undefined };
      const here = parting.get(exit + along) ?? [];
      if (along < tail.length) parting.set(exit + along, [...here, { rest: tail.subarray(along), place }]);
      return place;
    }),
  );
  /** by the exit behind which they are scored: where a tail parts from the trace. None begins another one of its exit */
  const branches: { readonly exit: number; readonly suffix: Continuation }[] = [];
  for (const [exit, rests] of [...parting].sort(([a], [b]) => a - b)) {
    const first = branches.length;
    for (const { rest, place } of rests.sort((a, b) => b.rest.length - a.rest.length)) {
      const known = branches.findIndex(
        ({ suffix }, b) => b >= first && sharedTokens(rest, suffix.ids) === rest.length,
      );
      if (known < 0) branches.push({ exit, suffix: { ids: rest, scoredFrom: 0 } });
      place.branch = known < 0 ? branches.length - 1 : known;
    }
  }
  return { branches, places };
}

/** The log-probabilities of each tail's tokens (E), nats. @param exits (E) those of {@link shareTails} @param logprobs (T) of the completion */
export function tailScores(
  { places }: SharedTails,
  exits: readonly number[],
  logprobs: Float32Array,
  scored: readonly Float32Array[],
): Float32Array[][] {
  return places.map((own, k) =>
    own.map(({ along, length, branch }) => {
      const exit = exits[k] as number;
      const all = new Float32Array(length);
      all.set(logprobs.subarray(exit, exit + along));
      if (branch !== undefined) all.set((scored[branch] as Float32Array).subarray(0, length - along), along);
      return all;
    }),
  );
}
