// The attention of branches in the scoring graph: to what comes before their exits, on prefix and suffix, and to themselves.
import { type GraphParts, layerWindow } from './architecture.js';
import { rotatedRows } from './attention.js';
import { cast, type Dim, type Dtype, Graph, MICROSOFT, type Precision } from './onnx.js';

/**
 * What a branch row sees and where it stands: graph inputs [G,W,R], W lanes, a trace each. On the CPU `from` and `to` [G,2] cut a
 * group's keys from the prefixes' [B,T], of W traces in a row, `suffixFrom` and `suffixTo` those behind them from the suffixes' [N,L].
 * A GPU would have to be waited for wherever it holds the places of a cut: there each lane [G,W] has all keys of one prefix and of one
 * suffix, and says how many tokens of its trace are on the prefix.
 */
export function branchInputs(g: Graph, precision: Precision) {
  const row = (name: string) => g.input(`branch_${name}`, 'i64', ['G', 'W', 'R']);
  const rows = { pos: row('pos'), exit: row('exit'), number: row('number') };
  const isCut = precision === 'f32';
  const names = isCut
    ? ['prefix_from', 'prefix_to', 'suffix_from', 'suffix_to']
    : ['lane_prefix', 'lane_suffix', 'lane_from'];
  return { ...rows, isCut, places: names.map((name) => g.input(name, 'i64', ['G', isCut ? 2 : 'W'])) };
}
type Branches = ReturnType<typeof branchInputs>;

/** One tensor each. */
type KeysAndValues = Readonly<Record<'k' | 'v', string>>;
/** Of rows [Y,heads·hd], keys and values [Y,kvHeads·hd]; queries and keys rotated, all in float32. */
type BranchHeads = KeysAndValues & Readonly<Record<'q', string>>;

/** Rows of the branches, of the graph's precision and not rotated, as their attention takes them. */
export function branchRows(parts: GraphParts, { pos }: Branches) {
  const { g, arch, precision } = parts;
  // ONNX Runtime rotates rows of a sequence, no more than its tables have: a lane each
  const R = g.node('Shape', [pos], { start: 2, end: 3 });
  const inLanes = (flat: string, ...width: readonly number[]) => {
    const shape = [g.ints([-1]), R, ...(width.length > 0 ? [g.ints(width)] : [])];
    return g.node('Reshape', [flat, g.node('Concat', shape, { axis: 0 })]);
  };
  const places = inLanes(pos);
  return (i: number, { q, k, v }: BranchHeads): BranchHeads => {
    const wide = (flat: string) => cast(g, flat, precision, 'f32');
    const turned = (flat: string, heads: number) => {
      if (arch.unrotated?.includes(i)) return wide(flat);
      const width = heads * arch.headDim;
      const rotated = rotatedRows(parts, inLanes(wide(flat), width), places, heads);
      return g.node('Reshape', [rotated, g.ints([-1, width])]);
    };
    return { q: turned(q, arch.heads), k: turned(k, arch.kvHeads), v: wide(v) };
  };
}

/** Keys and values of suffixes, `rows` [N,L] of the branches': [Y,kvHeads·hd] → [N,kvHeads,L,hd]. */
export function suffixKeys({ g, arch: { kvHeads, headDim } }: GraphParts, rows: string) {
  const picked = (flat: string) => {
    const apart = g.node('Reshape', [g.node('Gather', [flat, rows]), g.ints([0, 0, kvHeads, headDim])]);
    return g.node('Transpose', [apart], { perm: [0, 2, 1, 3] });
  };
  return ({ k, v }: KeysAndValues): KeysAndValues => ({ k: picked(k), v: picked(v) });
}

/**
 * Attention of the branches: {@link branchRows}, and the prefixes' and the suffixes' keys and values [B,kvHeads,T,hd] in float32
 * → [G·W·R,heads·hd] of the graph's precision.
 */
export function branchAttention(parts: GraphParts, branch: Branches) {
  const { g, arch, precision } = parts;
  const { heads, kvHeads, headDim } = arch;
  const perRow = g.node('Concat', [g.node('Shape', [branch.pos]), g.ints([-1, headDim])], { axis: 0 });
  const perHead = (flat: string) =>
    g.node('Transpose', [g.node('Reshape', [flat, perRow])], { perm: [0, 1, 3, 2, 4] }); // [G,W,heads,R,hd]
  const alpha = { float: 1 / Math.sqrt(headDim) };
  const asRows = g.ints([-1, heads * headDim]);
  // query heads that share a key head lie together, so that they are one product
  const grouped = g.ints([0, 0, kvHeads, -1, headDim]);
  const ungrouped = g.ints([0, 0, heads, -1, headDim]);
  const sight = (branch.isCut ? cutKeys : laneKeys)(parts, branch);
  return (i: number, { q, k, v }: BranchHeads, ...before: readonly KeysAndValues[]) => {
    const body = new Graph(`attend_${i}`);
    const given: string[] = [];
    /** scans what is outside, which the body has then without its first axis */
    const scan: Scanned = (outer, name, dims, dtype = 'i64') => {
      given.push(outer);
      return body.input(`attend_${i}.${name}`, dtype, dims);
    };
    const rows = (flat: string, name: string, R: string) =>
      scan(flat, name, ['W', kvHeads, R, headDim], 'f32');
    const queries = rows(g.node('Reshape', [perHead(q), grouped]), 'q', 'SR');
    const own = { k: rows(perHead(k), 'k', 'R'), v: rows(perHead(v), 'v', 'R') };
    const { picked, masked } = sight(i, body, scan, before);
    const all = (name: 'k' | 'v') =>
      body.node('Concat', [...before.map((keys, n) => picked(keys[name], n)), own[name]], { axis: 2 });
    const keys = all('k');
    const scores = body.node('FusedMatMul', [queries, keys], { transB: 1, alpha }, MICROSOFT); // [W,kvHeads,shared·R,E]
    const shaped = (t: string, ...dims: readonly number[]) =>
      body.node('Reshape', [
        t,
        body.node('Concat', [body.ints([...dims, -1]), lengthOf(body, keys)], { axis: 0 }),
      ]);
    const seen = masked(shaped(scores, 0, 0, heads / kvHeads), keys, own.k);
    const weights = body.node('Softmax', [seen], { axis: -1 });
    const mixed = body.node('MatMul', [shaped(weights, 0, 0), all('v')]);
    body.output(`attend_${i}.out`, mixed, 'f32', ['W', kvHeads, 'SR', headDim]);
    const groups = g.node('Scan', given, { body: { graph: body }, num_scan_inputs: given.length });
    const byRow = g.node('Transpose', [g.node('Reshape', [groups, ungrouped])], { perm: [0, 1, 3, 2, 4] });
    return cast(g, g.node('Reshape', [byRow, asRows]), 'f32', precision);
  };
}

type Scanned = (outer: string, name: string, dims: readonly Dim[], dtype?: Dtype) => string;
/** What a group has of keys and values before it, the prefixes' (0) and the suffixes' (1), [W,kvHeads,T,hd]; and scores [W,kvHeads,shared,R,E], of all keys, of which nothing is left where a row does not see one. */
type Sight = (
  i: number,
  body: Graph,
  scan: Scanned,
  before: readonly KeysAndValues[],
) => {
  picked: (t: string, n: number) => string;
  masked: (scores: string, keys: string, own: string) => string;
};

/** On the CPU: the keys up to a group's farthest exit. */
function cutKeys({ g, arch }: GraphParts, { places, ...rows }: Branches): Sight {
  const [columns, ofKeys] = placesOfRows(g, rows);
  return (i, body, scan) => {
    const cuts = places.map((t, n) => scan(t, `cut_${n}`, [2]));
    const inBody = columns.map((t, n) => scan(t, `row_${n}`, ['W', 1, 1, 'R', 1]));
    const keysInBody = ofKeys.map((t, n) => scan(t, `key_${n}`, ['W', 1, 1, 1, 'R']));
    return {
      picked: (t, n) => body.node('Slice', [t, ...cuts.slice(2 * n, 2 * n + 2), body.ints([0, 2])]),
      masked(scores, keys, own) {
        // a suffix goes on where its prefix ends, so that a key's place is its position
        const positions = rangeOf(body, body.node('Sub', [lengthOf(body, keys), lengthOf(body, own)]));
        const before = [{ positions, end: inBody[0] as string }];
        const visible = visibleOf(body, before, inBody, keysInBody, layerWindow(arch, i));
        // a CPU adds faster than it chooses
        const bias = body.node('Where', [visible, body.float(0), body.float(HIDDEN)]);
        return body.node('Add', [scores, bias]);
      },
    };
  };
}

/** On a GPU: all keys of a lane's prefix and suffix; which of them a row sees is found once for all layers of one window. */
function laneKeys({ g, arch }: GraphParts, { places, ...rows }: Branches): Sight {
  const [columns, ofKeys] = placesOfRows(g, rows);
  const exit = columns[0] as string;
  const from = g.node('Unsqueeze', [places[2] as string, g.ints([2, 3, 4, 5])]); // [G,W,1,1,1,1]
  const found = new Map<number | undefined, string>();
  return (i, body, scan, [prefix, suffix]) => {
    const window = layerWindow(arch, i);
    const positions = (keys?: KeysAndValues) => rangeOf(g, lengthOf(g, keys?.k as string));
    const before = () => [
      { positions: positions(prefix), end: g.node('Min', [exit, from]) },
      { positions: g.node('Add', [positions(suffix), from]), end: exit },
    ];
    const visible = found.get(window) ?? visibleOf(g, before(), columns, ofKeys, window);
    found.set(window, visible);
    const lanes = places.slice(0, 2).map((t, n) => scan(t, `lane_${n}`, ['W']));
    const inBody = scan(visible, 'visible', ['W', 1, 1, 'R', 'E'], 'bool');
    return {
      picked: (t, n) => body.node('Gather', [t, lanes[n] as string]),
      masked: (scores) => body.node('Where', [inBody, scores, body.float(HIDDEN)]),
    };
  };
}

/** Exits, numbers and positions of rows [G,W,1,1,R,1], and numbers and positions of the same as keys [G,W,1,1,1,R]. */
function placesOfRows(g: Graph, { exit, number, pos }: Omit<Branches, 'places'>) {
  const column = (t: string) => g.node('Unsqueeze', [t, g.ints([2, 3, 5])]);
  const row = (t: string) => g.node('Unsqueeze', [t, g.ints([2, 3, 4])]);
  return [[exit, number, pos].map(column), [number, pos].map(row)] as const;
}

/** So little that nothing is left of it behind a softmax. */
const HIDDEN = -1e30;

/** What rows see of all keys [..,R,E]: of those at `positions` what lies before an end, then of the rows' own those of one branch up to themselves. */
function visibleOf(
  g: Graph,
  before: readonly { readonly positions: string; readonly end: string }[],
  rows: readonly string[],
  keys: readonly string[],
  window: number | undefined,
): string {
  const [, number, pos] = rows as [string, string, string];
  const [numberOfKey, posOfKey] = keys as [string, string];
  const last = window === undefined ? undefined : g.node('Sub', [pos, g.ints([window], [])]); // out of sight
  const within = (positions: string, seen: string) =>
    last === undefined ? seen : g.node('And', [seen, g.node('Greater', [positions, last])]);
  const isOwn = g.node('And', [
    g.node('Equal', [numberOfKey, number]),
    g.node('LessOrEqual', [posOfKey, pos]),
  ]);
  const seen = [
    ...before.map(({ positions, end }) => within(positions, g.node('Less', [positions, end]))),
    within(posOfKey, isOwn),
  ];
  return g.node('Concat', seen, { axis: -1 });
}

/** The third dimension [1]. */
function lengthOf(g: Graph, t: string): string {
  return g.node('Shape', [t], { start: 2, end: 3 });
}

/** 0, 1, … before an end [1]. */
function rangeOf(g: Graph, end: string): string {
  return g.node('Range', [g.ints([0], []), g.node('Squeeze', [end]), g.ints([1], [])]);
}
