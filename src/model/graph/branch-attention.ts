// The attention of branches in the scoring graph: to what comes before their exits, on prefix and suffix, and to themselves.
import { type Architecture, type GraphParts, layerWindow } from './architecture.js';
import { cast, Graph } from './onnx.js';

/**
 * What a branch row sees and where it stands: graph inputs [G,W,R], W lanes, a trace each; `from` and `to` [G,2] cut a group's keys
 * from the prefixes' [B,T], of W traces in a row, `suffixFrom` and `suffixTo` those behind them from the suffixes' [N,L].
 */
export function branchInputs(g: Graph) {
  const row = (name: string) => g.input(`branch_${name}`, 'i64', ['G', 'W', 'R']);
  const place = (name: string) => g.input(name, 'i64', ['G', 2]);
  return {
    ...{ pos: row('pos'), exit: row('exit'), number: row('number') },
    ...{ from: place('prefix_from'), to: place('prefix_to') },
    ...{ suffixFrom: place('suffix_from'), suffixTo: place('suffix_to') },
  };
}

/** One tensor each [B,kvHeads,T,headDim]. */
type KeysAndValues = Readonly<Record<'k' | 'v', string>>;

/**
 * Attention of the branches: q [G·W·R,heads·hd], k, v [G·W·R,kvHeads·hd], the prefixes' and the suffixes' keys and values in float32
 * → [G·W·R,heads·hd]. All of it is computed in float32; only what goes in and what comes out is of the graph's precision.
 */
export function branchAttention(parts: GraphParts, branch: ReturnType<typeof branchInputs>) {
  const { g, arch, precision } = parts;
  const { heads, kvHeads, headDim } = arch;
  const { perHead, rotated } = headsOfRows(parts, branch.pos, branch.pos, 3);
  /** [G,W,R] → [G,W,1,1,R,1], or [G,W,1,1,1,R] */
  const asColumn = (t: string) => g.node('Unsqueeze', [t, g.ints([2, 3, 5])]);
  const asRow = (t: string) => g.node('Unsqueeze', [t, g.ints([2, 3, 4])]);
  const { exit, number, pos, from, to, suffixFrom, suffixTo } = branch;
  const places = [asColumn(exit), asColumn(number), asRow(number), asColumn(pos), asRow(pos)];
  const asRows = g.ints([-1, heads * headDim]);
  // query heads that share a key head lie together, so that they are one product
  const grouped = g.ints([0, 0, kvHeads, -1, headDim]);
  const ungrouped = g.ints([0, 0, heads, -1, headDim]);
  return (i: number, q: string, k: string, v: string, prefix: KeysAndValues, suffix: KeysAndValues) => {
    const turned = arch.unrotated?.includes(i) ? perHead : rotated;
    const scaled = g.node('Mul', [turned(q), g.float(1 / Math.sqrt(headDim))]);
    const queries = g.node('Reshape', [scaled, grouped]);
    const inputs = [queries, turned(k), perHead(v), ...places, from, to, suffixFrom, suffixTo];
    const body = { graph: groupAttention(arch, i, prefix, suffix) };
    const mixed = g.node('Scan', inputs, { body, num_scan_inputs: inputs.length }); // [G,W,kvHeads,shared·R,hd]
    const byRow = g.node('Transpose', [g.node('Reshape', [mixed, ungrouped])], { perm: [0, 1, 3, 2, 4] });
    return cast(g, g.node('Reshape', [byRow, asRows]), 'f32', precision);
  };
}

/** Keys and values of suffixes, `rows` [N,L] of the branches [G·W·R]: k, v [G·W·R,kvHeads·hd] → [N,kvHeads,L,hd] in float32, keys rotated. */
export function suffixKeys(parts: GraphParts, rows: string, pos: string) {
  const { g, arch } = parts;
  const flatPos = g.node('Reshape', [pos, g.ints([-1])]);
  const own = g.node('Gather', [flatPos, rows]);
  const { perHead, rotated } = headsOfRows(parts, rows, own, 2, arch.kvHeads);
  return (i: number, k: string, v: string): KeysAndValues => ({
    k: (arch.unrotated?.includes(i) ? perHead : rotated)(g.node('Gather', [k, rows])),
    v: perHead(g.node('Gather', [v, rows])),
  });
}

/**
 * Rows [..,Y], flat or not, split into heads in float32: [..·Y, heads·hd] → [..,heads,Y,hd], rotated or as they are.
 * @param like a tensor [..,Y] of so many dimensions
 * @param pos [..,Y]
 * @param heads that a row has; -1: as many as it has room for, where there are rows
 */
function headsOfRows(
  { g, arch: { headDim, rotaryDim = headDim }, precision, rope: { cos, sin } }: GraphParts,
  like: string,
  pos: string,
  dims: 2 | 3,
  heads = -1,
) {
  const perRow = g.node('Concat', [g.node('Shape', [like]), g.ints([heads, headDim])], { axis: 0 }); // [..,Y,heads,hd]
  const [cosRows, sinRows] = [cos, sin].map((table) =>
    g.node('Unsqueeze', [g.node('Gather', [table, pos]), g.ints([dims - 1])]),
  ) as [string, string]; // [..,1,Y,hd/2]
  const perm = dims === 2 ? [0, 2, 1, 3] : [0, 1, 3, 2, 4];
  const perHead = (flat: string) => {
    const wide = cast(g, flat, precision, 'f32');
    return g.node('Transpose', [g.node('Reshape', [wide, perRow])], { perm });
  };
  const rotated = (flat: string) =>
    rotate(g, perHead(flat), cosRows, sinRows, rotaryDim / 2, dims + 1, headDim);
  return { perHead, rotated };
}

/** Half-split rotary embedding (Hugging Face convention) of the first 2·half of x [..,R,hd], whose last axis is `axis`, by cos, sin [..,R,half]. */
function rotate(
  g: Graph,
  x: string,
  cos: string,
  sin: string,
  half: number,
  axis: number,
  headDim: number,
): string {
  const part = (from: number, to: number) =>
    g.node('Slice', [x, g.ints([from]), g.ints([to]), g.ints([axis])]);
  const low = part(0, half);
  const high = part(half, 2 * half);
  const turnedLow = g.node('Sub', [g.node('Mul', [low, cos]), g.node('Mul', [high, sin])]);
  const turnedHigh = g.node('Add', [g.node('Mul', [high, cos]), g.node('Mul', [low, sin])]);
  const rest = 2 * half < headDim ? [part(2 * half, headDim)] : [];
  return g.node('Concat', [turnedLow, turnedHigh, ...rest], { axis });
}

/** Scan body: attention of one group's rows to their prefixes and suffix before their exits and to their own branch. */
function groupAttention(
  arch: Architecture,
  layer: number,
  prefix: KeysAndValues,
  suffix: KeysAndValues,
): Graph {
  const { heads, kvHeads, headDim } = arch;
  const g = new Graph(`attend_${layer}`);
  const name = (n: string) => `attend_${layer}.${n}`;
  const q = g.input(name('q'), 'f32', ['W', kvHeads, 'SR', headDim]);
  const k = g.input(name('k'), 'f32', ['W', kvHeads, 'R', headDim]);
  const v = g.input(name('v'), 'f32', ['W', kvHeads, 'R', headDim]);
  const column = (n: string) => g.input(name(n), 'i64', ['W', 1, 1, 'R', 1]);
  const row = (n: string) => g.input(name(n), 'i64', ['W', 1, 1, 1, 'R']);
  const exit = column('exit');
  const [branch, branchOfKey] = [column('branch'), row('branch_of_key')];
  const [pos, posOfKey] = [column('pos'), row('pos_of_key')];
  const place = (n: string) => g.input(name(n), 'i64', [2]);
  const onPrefix = [place('from'), place('to')];
  const onSuffix = [place('suffix_from'), place('suffix_to')];

  /** what the group may see of its prefixes, of the suffix behind one, and the branch rows' own: [W,kvHeads,E,hd] */
  const inSight = (prefixes: string, suffixes: string, own: string) => {
    const parts = [
      g.node('Slice', [prefixes, ...onPrefix, g.ints([0, 2])]),
      g.node('Slice', [suffixes, ...onSuffix, g.ints([0, 2])]),
      own,
    ];
    return g.node('Concat', parts, { axis: 2 });
  };
  const allK = inSight(prefix.k, suffix.k, k);
  const allV = inSight(prefix.v, suffix.v, v);

  const length = (t: string) => g.node('Shape', [t], { start: 2, end: 3 }); // [1]
  // from shapes, not from `to`: on a GPU that would be one more value to wait for
  const all = length(allK);
  const keys = g.node('Squeeze', [g.node('Sub', [all, length(k)])]);
  // a suffix goes on where its prefix ends, so that a key's place is its position
  const positions = g.node('Range', [g.ints([0], []), keys, g.ints([1], [])]);
  let before = g.node('Less', [positions, exit]); // [W,1,1,R,keys]
  let own = g.node('And', [g.node('Equal', [branchOfKey, branch]), g.node('LessOrEqual', [posOfKey, pos])]); // [W,1,1,R,R]
  const window = layerWindow(arch, layer);
  if (window !== undefined) {
    const last = g.node('Sub', [pos, g.ints([window], [])]); // the last position out of sight
    before = g.node('And', [before, g.node('Greater', [positions, last])]);
    own = g.node('And', [own, g.node('Greater', [posOfKey, last])]);
  }
  const visible = g.node('Concat', [before, own], { axis: 4 }); // [W,1,1,R,E]
  const bias = g.node('Where', [visible, g.float(0), g.float(-1e30)]);

  const scores = g.node('MatMul', [q, g.node('Transpose', [allK], { perm: [0, 1, 3, 2] })]); // [W,kvHeads,shared·R,E]
  const byHead = g.node('Concat', [g.ints([0, 0, heads / kvHeads, -1]), all], { axis: 0 });
  const together = g.node('Concat', [g.ints([0, 0, -1]), all], { axis: 0 });
  const weights = g.node('Softmax', [g.node('Add', [g.node('Reshape', [scores, byHead]), bias])], {
    axis: -1,
  }); // [W,kvHeads,shared,R,E]
  const mixed = g.node('MatMul', [g.node('Reshape', [weights, together]), allV]);
  g.output(name('out'), mixed, 'f32', ['W', kvHeads, 'SR', headDim]);
  return g;
}
