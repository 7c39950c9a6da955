// Packs traces, on prompts of their own or of several, and their branches into the rows that the scoring graph runs over: pure index arithmetic.
import type { Device } from '../device.js';

/** A continuation of a trace from one exit point, of which a span is scored. */
export interface Branch {
  /** tokens of the trace in sight: the branch stands at position `exit` */
  readonly exit: number;
  /** the continuation's token ids (A) */
  readonly ids: Int32Array;
  /** tokens scoredFrom..A-1 are scored, each given everything before it; at least 1: the token before must be in `ids` */
  readonly scoredFrom: number;
  /** another token in the place of the last one, which is scored too */
  readonly also?: number;
  /** tokens of the trace that are hidden from the branch: their places stay free, so many positions before `ids[before]` */
  readonly gap?: { readonly before: number; readonly tokens: number };
}

/** One more than the last position of a branch's tokens. */
export function branchEnd({ exit, ids, gap }: Branch): number {
  return exit + ids.length + (gap?.tokens ?? 0);
}

/** How many log-probabilities a branch has. */
export function scoresOf({ ids, scoredFrom, also }: Branch): number {
  return ids.length - scoredFrom + (also === undefined ? 0 : 1);
}

/** A trace in a run: its own tokens, of which promptLength.. are scored, and its branches. */
export interface PackedTrace {
  readonly ids: Int32Array;
  readonly promptLength: number;
  readonly branches: readonly Branch[];
  /** traces of a run with the same number here have the same prompt, which is read once; absent: read with the trace */
  readonly shares?: number | undefined;
}

/** What the policy says of one trace of a run; every token is predicted from everything before it. */
export interface TraceScores {
  /** (T) entropy of the predicting distribution, nats, full vocabulary; T = 0 where only branches were run */
  readonly entropies: Float32Array;
  /** (T) log-probability of the token itself, nats */
  readonly logprobs: Float32Array;
  /** log-probabilities of every branch's scored tokens, and then of `also`, nats */
  readonly branches: readonly Float32Array[];
}

/** Where a trace's keys are: on a trunk, and where that is its prompt alone, on a limb behind it. */
export interface Place {
  /** which of the trunks */
  readonly trunk: number;
  readonly limb?: {
    /** which of the limbs */
    readonly number: number;
    /** tokens of the trace that are on the trunk */
    readonly from: number;
  };
}

/** What a run reads. */
export interface Placed {
  /** (B) ids of each trunk: a trace, or a prompt that traces share */
  readonly trunks: readonly Int32Array[];
  /** (N) ids of each limb: the completion of a trace that shares its prompt */
  readonly limbs: readonly Int32Array[];
  /** of each trace */
  readonly places: readonly Place[];
}

/** The branch rows of a run: G groups of R rows. */
export interface PackedBranches {
  readonly groups: number;
  readonly rowsPerGroup: number;
  /** (G·R) token, position, tokens of the trace in sight, branch number */
  readonly ids: BigInt64Array;
  readonly pos: BigInt64Array;
  readonly exit: BigInt64Array;
  readonly number: BigInt64Array;
  /** (G,2) where the group's keys begin and end among the trunks' [B,T]: its trace's, up to its last branch's exit */
  readonly from: BigInt64Array;
  readonly to: BigInt64Array;
  /** (G,2) the same among the limbs' [N,L], of what is behind the trunk */
  readonly limbFrom: BigInt64Array;
  readonly limbTo: BigInt64Array;
  /** (N) the row of each limb's tokens in the flattened [G·R] */
  readonly limbRows: readonly Int32Array[];
  /** rows of the flattened [G·R] to read out and the token that follows each, in the order of the branches given */
  readonly rows: Int32Array;
  readonly targets: Int32Array;
}

/**
 * Traces with the same number in `shares` stand on one trunk.
 * @throws RangeError where their prompts differ
 */
export function placeTraces(traces: readonly Omit<PackedTrace, 'branches'>[]): Placed {
  const trunks: Int32Array[] = [];
  const limbs: Int32Array[] = [];
  const shared = new Map<number, number>(); // number of a prompt → its trunk
  const places = traces.map(({ ids, promptLength, shares }): Place => {
    if (shares === undefined) return { trunk: trunks.push(ids) - 1 };
    const prompt = ids.subarray(0, promptLength);
    const trunk = shared.get(shares) ?? trunks.push(prompt) - 1;
    shared.set(shares, trunk);
    const read = trunks[trunk] as Int32Array;
    if (read.length !== promptLength || prompt.some((id, t) => id !== read[t]))
      throw new RangeError(`traces that share prompt ${shares} have different ones`);
    return { trunk, limb: { number: limbs.push(ids.subarray(promptLength)) - 1, from: promptLength } };
  });
  return { trunks, limbs, places };
}

/**
 * Rows of a group, of a trace alone and behind a shared prompt, whose keys all rows see and every group copies. On the CPU few enough
 * that no row attends to many keys beyond its exit, enough to keep a MatMul busy (bench/exits.mjs). On a GPU by arithmetic, none was at
 * hand: a group starts some 20 kernels a layer, 5 µs each; 64 rows of a 7 B model over 4,096 keys are 3.8 GFLOP there, 19 µs at 200
 * TFLOP/s, so that five times as many keep it busy. 256 rows of 32 heads over 25,000 keys are .8 GB of float32.
 */
const ROWS_PER_GROUP = {
  cpu: { alone: 64, behind: 128 },
  cuda: { alone: 256, behind: 512 },
  webgpu: { alone: 256, behind: 512 },
} as const satisfies Record<Device['name'], object>;

/**
 * R: the longest branch fits, and no more than {@link ROWS_PER_GROUP} otherwise.
 * @param busiest most rows of a trace
 * @param isBehind whether traces stand behind shared prompts
 */
export function rowsPerGroup(
  longest: number,
  busiest: number,
  isBehind: boolean,
  device: Device['name'],
): number {
  const most = ROWS_PER_GROUP[device][isBehind ? 'behind' : 'alone'];
  return Math.max(1, longest, Math.min(most, busiest));
}

/**
 * The branches of each trace, sorted by exit, fill one group after the other. A group belongs to one trace, and a branch
 * never straddles two groups, since its rows attend to each other inside their group only. Before them stands the trace's limb,
 * cut into branches as long as a group, each of which sees those before it as keys. Without any branch there is one idle group of one row.
 * @param traces (B) branches of each trace
 * @param places (B) where each trace's keys are; default: each on a trunk of its own
 * @param limbs (N) ids of the limbs that are read in this run
 */
export function packBranches(
  traces: readonly (readonly Branch[])[],
  places: readonly Place[] = traces.map((_, trunk) => ({ trunk })),
  limbs: readonly Int32Array[] = [],
  device: Device['name'] = 'cpu',
): PackedBranches {
  // copies: the same branch may be given twice
  const own = traces.map((branches) => branches.map((branch) => ({ ...branch })));
  const all = own.flat();
  const ownLimb = places.map(({ limb }) => (limb && limbs[limb.number]) ?? new Int32Array(0));
  const R = rowsPerGroup(
    all.reduce((most, { ids }) => Math.max(most, ids.length), 1),
    own.reduce((most, rows, b) => Math.max(most, rowsOf(rows) + (ownLimb[b] as Int32Array).length), 1),
    places.some(({ limb }) => limb !== undefined),
    device,
  );
  const pieces = places.map(({ limb }, b) => piecesOf(ownLimb[b] as Int32Array, limb?.from ?? 0, R));

  const groups: { readonly place: Place; keys: number }[] = [];
  const start = new Map<Row, number>(); // first row of each branch and piece in the flattened [G·R]
  for (const [b, branches] of own.entries()) {
    let free = 0; // rows left in the last group
    const byExit = [...branches].sort((one, other) => one.exit - other.exit);
    for (const row of [...(pieces[b] as Row[]), ...byExit]) {
      if (row.ids.length > free) {
        groups.push({ place: places[b] as Place, keys: 0 });
        free = R;
      }
      start.set(row, groups.length * R - free);
      free -= row.ids.length;
      const group = groups[groups.length - 1] as { keys: number };
      group.keys = Math.max(group.keys, row.exit);
    }
  }
  if (groups.length === 0) groups.push({ place: { trunk: 0 }, keys: 0 });

  const G = groups.length;
  // rows that stay padding: token 0 at position 0, in sight of nothing but their own kind (branch -1)
  const ids = new BigInt64Array(G * R);
  const pos = new BigInt64Array(G * R);
  const exits = new BigInt64Array(G * R);
  const number = new BigInt64Array(G * R).fill(-1n);
  for (const [i, row] of [...all, ...pieces.flat()].entries()) {
    const { exit, gap } = row;
    const first = start.get(row) as number;
    for (let j = 0; j < row.ids.length; j++) {
      ids[first + j] = BigInt(row.ids[j] as number);
      pos[first + j] = BigInt(exit + j + (gap !== undefined && j >= gap.before ? gap.tokens : 0));
      exits[first + j] = BigInt(exit);
      number[first + j] = BigInt(i);
    }
  }

  const limbRows: Int32Array[] = [];
  for (const [b, { limb }] of places.entries())
    if (limb !== undefined)
      limbRows[limb.number] = Int32Array.from(
        (pieces[b] as Row[]).flatMap((piece) =>
          Array.from(piece.ids, (_, j) => (start.get(piece) as number) + j),
        ),
      );
  const table = (entry: (group: (typeof groups)[number]) => readonly [number, number]) =>
    BigInt64Array.from(groups.flatMap(entry), BigInt);
  const onTrunk = ({ place: { limb }, keys }: (typeof groups)[number]) => Math.min(keys, limb?.from ?? keys);
  return {
    groups: G,
    rowsPerGroup: R,
    ids,
    pos,
    exit: exits,
    number,
    from: table(({ place }) => [place.trunk, 0]),
    to: table((group) => [group.place.trunk + 1, onTrunk(group)]),
    limbFrom: table(({ place }) => [place.limb?.number ?? 0, 0]),
    limbTo: table((group) => [(group.place.limb?.number ?? 0) + 1, group.keys - onTrunk(group)]),
    limbRows,
    ...readOut(all, start),
  };
}

/** Which rows are read out for some branches, and for which tokens. @param start first row of each */
function readOut(
  branches: readonly Branch[],
  start: ReadonlyMap<Row, number>,
): Pick<PackedBranches, 'rows' | 'targets'> {
  const scored = branches.reduce((sum, branch) => sum + scoresOf(branch), 0);
  const rows = new Int32Array(scored);
  const targets = new Int32Array(scored);
  let next = 0;
  for (const [i, branch] of branches.entries()) {
    const { scoredFrom } = branch;
    if (scoredFrom < 1 || scoredFrom >= branch.ids.length)
      throw new RangeError(
        `branch ${i} scores tokens ${scoredFrom}..${branch.ids.length}: expected at least one, after the first`,
      );
    for (let j = scoredFrom; j < branch.ids.length; j++) {
      rows[next] = (start.get(branch) as number) + j - 1;
      targets[next++] = branch.ids[j] as number;
    }
    if (branch.also === undefined) continue;
    rows[next] = rows[next - 1] as number;
    targets[next++] = branch.also;
  }
  return { rows, targets };
}

/** Rows that stand together in a group: a branch, or a piece of a limb. */
type Row = Pick<Branch, 'exit' | 'ids' | 'gap'>;

/** A limb's tokens, which begin at a position, in pieces of up to R. */
function piecesOf(limb: Int32Array, from: number, R: number): Row[] {
  return Array.from({ length: Math.ceil(limb.length / R) }, (_, n) => ({
    exit: from + n * R,
    ids: limb.subarray(n * R, (n + 1) * R),
  }));
}

/** The graph's table of the limbs' rows: (N, L), short limbs padded with row 0, which nothing sees. */
export function limbTable(limbs: readonly Int32Array[], count: number): [BigInt64Array, [number, number]] {
  const longest = limbs.reduce((most, { length }) => Math.max(most, length), 0);
  const table = new BigInt64Array(count * longest);
  for (const [n, rows] of limbs.entries())
    for (const [t, row] of rows.entries()) table[n * longest + t] = BigInt(row);
  return [table, [count, longest]];
}

/** Row numbers as the head's [n,C] input: padded to whole blocks with 0. */
export function blockRows(values: ArrayLike<number>, block: number): BigInt64Array {
  const padded = new BigInt64Array(Math.max(1, Math.ceil(values.length / block)) * block);
  for (let i = 0; i < values.length; i++) padded[i] = BigInt(values[i] as number);
  return padded;
}

function rowsOf(branches: readonly Branch[]): number {
  return branches.reduce((sum, b) => sum + b.ids.length, 0);
}
