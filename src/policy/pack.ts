// Packs branches into the groups of rows that the branch graph scans: pure index arithmetic over typed arrays.

/** A continuation of a trace from one exit point, of which a span is scored. */
export interface Branch {
  /** tokens of the trace in sight: the branch stands at position `exit` */
  readonly exit: number;
  /** the continuation's token ids (A) */
  readonly ids: Int32Array;
  /** tokens scoredFrom..A-1 are scored, each given everything before it; at least 1, the token before must be in `ids` */
  readonly scoredFrom: number;
}

/** Inputs of the branch graph for one trace; G groups of R rows. */
export interface PackedBranches {
  readonly groups: number;
  readonly rowsPerGroup: number;
  /** (G·R) token, position, tokens of the trace in sight, branch number */
  readonly ids: BigInt64Array;
  readonly pos: BigInt64Array;
  readonly exit: BigInt64Array;
  readonly branch: BigInt64Array;
  /** (G) tokens of the trace that the group's last branch sees */
  readonly keys: BigInt64Array;
  /** rows of the flattened [G·R] to read out and the token that follows each, in the order of the branches given */
  readonly rows: Int32Array;
  readonly targets: Int32Array;
}

/** Rows of a group: few enough that no row attends to many keys beyond its exit, enough to keep a MatMul busy. */
const ROWS_PER_GROUP = 64;

/**
 * Branches sorted by exit fill one group after the other; a branch never straddles two, since its rows attend to each
 * other inside their group only.
 */
export function packBranches(branches: readonly Branch[]): PackedBranches {
  const order = branches
    .map((_, i) => i)
    .sort((a, b) => at(branches, a).exit - at(branches, b).exit || a - b);
  const total = branches.reduce((sum, b) => sum + b.ids.length, 0);
  const longest = branches.reduce((most, b) => Math.max(most, b.ids.length), 0);
  const R = Math.max(longest, Math.min(ROWS_PER_GROUP, total));

  const start = new Int32Array(branches.length); // first row of each branch in the flattened [G·R]
  const keys: number[] = [];
  let free = 0; // rows left in the last group
  for (const i of order) {
    const { ids, exit } = at(branches, i);
    if (ids.length > free) {
      keys.push(0);
      free = R;
    }
    start[i] = keys.length * R - free;
    free -= ids.length;
    keys[keys.length - 1] = exit; // exits rise along the order
  }

  const G = keys.length;
  // rows that stay padding: token 0 at position 0, in sight of nothing but their own kind (branch -1)
  const packed = {
    ids: new BigInt64Array(G * R),
    pos: new BigInt64Array(G * R),
    exit: new BigInt64Array(G * R),
    branch: new BigInt64Array(G * R).fill(-1n),
  };
  const scored = branches.reduce((sum, b) => sum + b.ids.length - b.scoredFrom, 0);
  const rows = new Int32Array(scored);
  const targets = new Int32Array(scored);
  let next = 0;
  for (const [i, { ids, exit, scoredFrom }] of branches.entries()) {
    if (scoredFrom < 1 || scoredFrom >= ids.length)
      throw new RangeError(
        `branch ${i} scores tokens ${scoredFrom}..${ids.length}: expected at least one, after the first`,
      );
    const first = start[i] as number;
    for (let j = 0; j < ids.length; j++) {
      packed.ids[first + j] = BigInt(ids[j] as number);
      packed.pos[first + j] = BigInt(exit + j);
      packed.exit[first + j] = BigInt(exit);
      packed.branch[first + j] = BigInt(i);
      if (j < scoredFrom) continue;
      rows[next] = first + j - 1;
      targets[next++] = ids[j] as number;
    }
  }
  return { groups: G, rowsPerGroup: R, ...packed, keys: BigInt64Array.from(keys, BigInt), rows, targets };
}

/** Logits rows held at once: about 3 × 128 MB at most, whatever the vocabulary, and never fewer than 32. */
export function headBlock(rows: number, vocab: number): number {
  const limit = Math.max(32, Math.min(1024, Math.floor(2 ** 25 / vocab)));
  return Math.max(1, Math.min(rows, limit));
}

/** Row numbers as the head's [n,C] input: padded to whole blocks by repeating row 0. */
export function blockRows(values: Int32Array, block: number): BigInt64Array {
  const padded = new BigInt64Array(Math.ceil(values.length / block) * block);
  for (let i = 0; i < values.length; i++) padded[i] = BigInt(values[i] as number);
  return padded;
}

function at(branches: readonly Branch[], i: number): Branch {
  return branches[i] as Branch;
}
