// Scores by a graph that another program has exported: of each trace one row of tokens, its own and then its branches', which a table keeps apart.
import { sharingRoom } from './layout.js';
import { positionsOf, readOut } from './pack.js';
import type { Branch, PackedTrace, RunJob } from './placed.js';

/** Inputs of such a graph, with their dimensions; outputs of entropies, logprobs and states, nats. */
export type ExportedFeeds = Record<string, Readonly<{ data: BigInt64Array; dims: readonly number[] }>>;
export type ExportedNumbers = Readonly<Record<'entropies' | 'logprobs' | 'states', Float32Array>>;
type Ids = Pick<PackedTrace, 'ids' | 'promptLength'>;

/** Rows that attend, and rows of which logits are held, at once. */
const ATTENDING = 256;
/** Branch rows of a run: their trace is read again for those beyond, and each of them attends to all. */
const branchRoom = (tokens: number): number => Math.max(1024, tokens);

/** @param most rows of which logits are held at once @param read traces of runs that were kept: nothing but ids, they are read again */
export async function exportedScores(
  { traces, keep, use }: RunJob,
  most: number,
  read: Map<number, readonly Ids[]>,
  run: (feeds: ExportedFeeds) => Promise<ExportedNumbers>,
) {
  const whole = use === undefined ? traces : read.get(use);
  if (whole === undefined) throw new Error(`no run was kept as ${use}`);
  const again = traces.map(({ ids }) => ({ ids, promptLength: ids.length }));
  if (keep !== undefined) read.set(keep, again);
  const own: Record<'entropies' | 'logprobs', number[]> = { entropies: [], logprobs: [] };
  const ofBranches: typeof own = { entropies: [], logprobs: [] };
  const states: number[] = [];
  for (const [i, { branches, states: exits = [] }] of traces.entries()) {
    const { ids, promptLength } = whole[i] as Ids;
    const groups = sharingRoom(branches, branchRoom(ids.length), (branch) => branch.ids.length);
    for (const [n, group] of (groups.length > 0 ? groups : [[]]).entries()) {
      // its own tokens in the first run alone
      const from = n === 0 ? promptLength : ids.length;
      const ofExits = n === 0 ? exits : [];
      const { feeds, scored } = packedRow(ids, from, group, ofExits, most);
      if (scored + ofExits.length === 0) continue;
      const out = await run(feeds);
      for (const kind of ['entropies', 'logprobs'] as const) {
        const all = out[kind].subarray(0, scored);
        for (const each of all.subarray(0, ids.length - from)) own[kind].push(each);
        for (const each of all.subarray(ids.length - from)) ofBranches[kind].push(each);
      }
      if (ofExits.length > 0) for (const each of out.states) states.push(each);
    }
  }
  const inOrder = (kind: keyof typeof own) => Float32Array.from([...own[kind], ...ofBranches[kind]]);
  const ofStates = states.length > 0 ? Float32Array.from(states) : undefined;
  return { entropies: inOrder('entropies'), logprobs: inOrder('logprobs'), states: ofStates };
}

/**
 * A trace and branches of it as the graph takes them.
 * @param from token of the trace from which on they are scored @param exits before which the hidden state is wanted
 * @returns feeds ids, pos, sees, branch [n,C]: token, position, number of the trace's tokens in sight, which branch, -1 of the trace itself;
 * rows, targets [m,D]: numbers of the flattened [n·C] to read out, and the token that follows each; state_rows [k]
 */
function packedRow(
  trace: Int32Array,
  from: number,
  branches: readonly Branch[],
  exits: readonly number[],
  most: number,
) {
  let first = trace.length;
  const placed = branches.map((branch) => {
    first += branch.ids.length;
    return { ...branch, first: first - branch.ids.length };
  });
  // token, position, number of the trace's tokens in sight, which branch
  const all: number[][] = [
    ...Array.from(trace, (id, t) => [id, t, t + 1, -1]),
    ...placed.flatMap((branch, b) =>
      positionsOf(branch).map((pos, j) => [branch.ids[j] as number, pos, branch.exit, b]),
    ),
  ];
  const column = (n: number) => all.map((row) => row[n] as number);
  const read = readOut(placed);
  const rows = [...Array.from(trace.keys()).slice(from - 1, -1), ...read.rows];
  const targets = [...trace.subarray(from), ...read.targets];
  const stateRows = exits.length > 0 ? exits.map((exit) => exit - 1) : [0];
  const feeds: ExportedFeeds = {
    ids: inBlocks(column(0), ATTENDING),
    pos: inBlocks(column(1), ATTENDING),
    sees: inBlocks(column(2), ATTENDING),
    // rows of padding see each other
    branch: inBlocks(column(3), ATTENDING, branches.length),
    rows: inBlocks(rows, most),
    targets: inBlocks(targets, most),
    state_rows: { data: BigInt64Array.from(stateRows, BigInt), dims: [stateRows.length] },
  };
  return { feeds, scored: rows.length };
}

/** In blocks [n,C] of like size, `most` at most, the last one padded. */
export function inBlocks(list: readonly number[], most: number, padding = 0): ExportedFeeds[string] {
  const n = Math.max(1, Math.ceil(list.length / most));
  const C = Math.max(1, Math.ceil(list.length / n));
  const data = new BigInt64Array(n * C).fill(BigInt(padding));
  for (const [i, each] of list.entries()) data[i] = BigInt(each);
  return { data, dims: [n, C] };
}
