// Which tokens of a completion the policy wrote, and lists of tokens without those that it was shown: answers of tools, others' turns.

/** (T) 1 for a token that the policy wrote, 0 for one that it was shown. */
export type OwnTokens = Uint8Array;

/** The policy's turns in a completion: token boundaries, end exclusive. */
export function turnsIn(own: OwnTokens): (readonly [from: number, to: number])[] {
  const turns: [number, number][] = [];
  for (const [t, isOwn] of own.entries()) {
    if (!isOwn) continue;
    const last = turns.at(-1);
    if (last?.[1] === t) last[1]++;
    else turns.push([t, t + 1]);
  }
  return turns;
}

/** A list with an entry for each token (T) without those of shown tokens. @param own undefined: all are the policy's */
export function compact<List extends Float32Array | Int32Array>(
  list: List,
  own: OwnTokens | undefined,
): List {
  return own === undefined ? list : (list.filter((_, t) => own[t] !== 0) as List);
}

/** The same with a 0 for each shown token again. @param list an entry for each of the policy's tokens */
export function scattered(list: Float32Array, own: OwnTokens | undefined): Float32Array {
  if (own === undefined) return list;
  let next = 0;
  return Float32Array.from(own, (isOwn) => (isOwn ? (list[next++] as number) : 0));
}

/** A list (T) with 0 in the place of each shown token: what is not the policy's surprises it as little as what it was sure of. */
export function silenced(list: Float32Array, own: OwnTokens | undefined): Float32Array {
  return own === undefined ? list : list.map((x, t) => (own[t] ? x : 0));
}

/** (T+1) the policy's tokens before each boundary. */
export function ownBefore(own: OwnTokens): Int32Array {
  const before = new Int32Array(own.length + 1);
  for (const [t, isOwn] of own.entries()) before[t + 1] = (before[t] as number) + (isOwn ? 1 : 0);
  return before;
}
