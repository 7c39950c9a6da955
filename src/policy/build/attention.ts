// The attention nodes of the scoring graph: causal over the trunk; of branches to what comes before their exits, on trunk and limb.
import type { Architecture } from './architecture.js';
import { layerWindow } from './families.js';
import { Graph } from './onnx.js';
import { cast, cutFlatHeads, cutHeads, type Precision, paddedHeadDim, padHeads } from './precision.js';

/** Rotation tables, graph inputs [M, headDim/2]. */
export interface Rope {
  readonly cos: string;
  readonly sin: string;
}

/**
 * What a branch row sees and where it stands: graph inputs [G,R]; `from` and `to` [G,2] cut a group's keys from the trunks'
 * [B,T], `limbFrom` and `limbTo` those behind them from the limbs' [N,L].
 */
export interface BranchInputs {
  readonly pos: string;
  readonly exit: string;
  readonly number: string;
  readonly from: string;
  readonly to: string;
  readonly limbFrom: string;
  readonly limbTo: string;
}

/** Keys or values, one tensor each [B,kvHeads,T,headDim]. */
export interface KeysAndValues {
  readonly k: string;
  readonly v: string;
}

/** Names of the trunk's attention nodes in a graph of so many layers. */
export function trunkAttentionNodes(layers: number): string[] {
  return Array.from({ length: layers }, (_, i) => `trunk_attention_${i}`);
}

/**
 * Fewest rows of a block of the trunk's attention, and the most blocks: ONNX Runtime's kernel multiplies every row of a call with
 * every key of it, so blocks leave out what lies above the diagonal and keep a head's scores in the cache; each copies the keys so far.
 */
const BLOCK_ROWS = 128;
const MOST_BLOCKS = 32;

/** Causal attention of the trunk: q [B·S,heads·hd], k, v [B·S,kvHeads·hd] → the same shape; keys rotated [B,kvHeads,S,hd]. */
export function trunkAttention(g: Graph, arch: Architecture, ids: string, rope: Rope, precision: Precision) {
  const [cos, sin] = [rope.cos, rope.sin].map((table) => cast(g, table, 'f32', precision)) as [
    string,
    string,
  ];
  const batchAndLength = g.node('Shape', [ids]); // [B,S]
  const perToken = g.node('Concat', [batchAndLength, g.ints([-1])], { axis: 0 }); // [B,S,-1]
  const batch = g.node('Gather', [batchAndLength, g.ints([0])]); // [1]
  const length = g.node('Gather', [batchAndLength, g.ints([1])]); // [1]

  // ONNX Runtime's attention rotates heads of a multiple of 16 only; others are rotated before it
  const rotates = arch.headDim % 16 === 0;
  const isPadded = paddedHeadDim(arch.headDim) !== arch.headDim;
  const threeDims = (flat: string) => g.node('Reshape', [flat, perToken]);
  const rotated = (flat: string) =>
    rotates
      ? threeDims(flat)
      : g.node('RotaryEmbedding', [threeDims(flat), g.ints([0]), cos, sin], {}, { domain: 'com.microsoft' });
  const names = trunkAttentionNodes(arch.layers);
  /** What the kernel asks of the rows before `end` [1]: the last one of every trace [B], and how many they are. */
  const boundsOf = (of: Graph, end: string): readonly string[] => {
    // padding stands at the end of short traces: causal rows before it never see it, so every length is S
    const last = of.node('Cast', [of.node('Sub', [end, of.ints([1])])], { to: 6 });
    return [of.node('Expand', [last, batch]), of.node('Cast', [of.node('Squeeze', [end])], { to: 6 })];
  };
  /** One call, in a graph or in a body of it: q, k, v of rows, the keys and values before them, and their bounds. */
  const kernel = (of: Graph, i: number, inputs: readonly string[]): Outputs => {
    const outputs = [`${of.name}.attended_${i}`, `${of.name}.key_${i}`, `${of.name}.value_${i}`] as const;
    const window = layerWindow(arch, i);
    of.node(
      'GroupQueryAttention',
      [...inputs, ...(rotates ? [cos, sin] : [])],
      {
        num_heads: arch.heads,
        kv_num_heads: arch.kvHeads,
        do_rotary: rotates ? 1 : 0,
        ...(isPadded ? { scale: { float: 1 / Math.sqrt(arch.headDim) } } : {}),
        ...(window === undefined ? {} : { local_window_size: window }),
      },
      { outputs, domain: 'com.microsoft', name: names[i] as string },
    );
    return outputs;
  };
  // CUDA's kernel leaves out by itself what lies above the diagonal
  const whole = precision === 'f32' ? undefined : ['', '', ...boundsOf(g, length)];
  const blocks = whole === undefined ? inBlocks(g, arch, batch, length) : undefined;
  const attend = (i: number, rows: readonly string[]): Outputs =>
    blocks?.(i, rows, (body, own, keys, end) => kernel(body, i, [...own, ...keys, ...boundsOf(body, end)])) ??
    kernel(g, i, [...rows, ...(whole ?? [])]);
  return (i: number, q: string, k: string, v: string) => {
    const rows = [
      padHeads(g, rotated(q), arch.heads, arch.headDim, precision),
      padHeads(g, rotated(k), arch.kvHeads, arch.headDim, precision),
      padHeads(g, threeDims(v), arch.kvHeads, arch.headDim, precision),
    ];
    const outputs = attend(i, rows);
    const narrow = cutFlatHeads(g, outputs[0], arch.heads, arch.headDim);
    const attended = g.node('Reshape', [narrow, g.ints([-1, arch.heads * arch.headDim])]);
    return { attended, k: cutHeads(g, outputs[1], arch.headDim), v: cutHeads(g, outputs[2], arch.headDim) };
  };
}

type Block = (body: Graph, rows: readonly string[], keys: readonly string[], end: string) => Outputs;
type Outputs = readonly [attended: string, keys: string, values: string];

/** The same call in blocks of rows, each behind the keys of those before it; of several traces in one, as they have to be. */
function inBlocks(g: Graph, arch: Architecture, batch: string, length: string) {
  const { kvHeads, heads } = arch;
  const headDim = paddedHeadDim(arch.headDim);
  const ceilings = (x: string, by: string) =>
    g.node('Div', [g.node('Sub', [g.node('Add', [x, by]), g.ints([1])]), by]);
  const least = g.node('Max', [ceilings(length, g.ints([MOST_BLOCKS])), g.ints([BLOCK_ROWS])]);
  const isOne = g.node('Equal', [batch, g.ints([1])]);
  const whole = g.node('Max', [length, g.ints([1])]); // of no trace at all, too
  const size = g.node('Where', [isOne, least, whole]); // [1]
  const count = g.node('Squeeze', [ceilings(length, size)]);
  const empty = (...shape: readonly number[]) =>
    g.node('Expand', [g.float(0), g.node('Concat', [batch, g.ints(shape)], { axis: 0 })]);
  const none = [empty(0, heads * headDim), empty(kvHeads, 0, headDim)] as const;
  return (i: number, rows: readonly string[], block: Block): Outputs => {
    const body = new Graph(`blocks_${i}`);
    const name = (n: string) => `blocks_${i}.${n}`;
    const state = (n: string) =>
      body.input(name(n), 'f32', n === 'done' ? ['B', 'D', heads * headDim] : ['B', kvHeads, 'P', headDim]);
    const n = body.input(name('n'), 'i64', []);
    const goesOn = body.input(name('goes_on'), 'bool', []);
    const [done, keys, values] = [state('done'), state('keys'), state('values')];
    const from = body.node('Mul', [body.node('Unsqueeze', [n, body.ints([0])]), size]);
    const end = body.node('Min', [body.node('Add', [from, size]), length]);
    const own = rows.map((x) => body.node('Slice', [x, from, end, body.ints([1])]));
    const [attended, k, v] = block(body, own, [keys, values], end);
    body.output(name('still'), goesOn, 'bool', []);
    body.output(name('all'), body.node('Concat', [done, attended], { axis: 1 }), 'f32', [
      'B',
      'E',
      heads * headDim,
    ]);
    for (const each of [k, v]) body.output(name(`next_${each}`), each, 'f32', ['B', kvHeads, 'Q', headDim]);
    const outputs = [`${g.name}.attended_${i}`, `${g.name}.key_${i}`, `${g.name}.value_${i}`] as const;
    g.node('Loop', [count, '', none[0], none[1], none[1]], { body: { graph: body } }, { outputs });
    return outputs;
  };
}

/**
 * Attention of the branches: q [G·R,heads·hd], k, v [G·R,kvHeads·hd], the trunks' and the limbs' keys and values in float32
 * → [G·R,heads·hd]. All of it is computed in float32; only what goes in and what comes out is of the graph's precision.
 */
export function branchAttention(
  g: Graph,
  arch: Architecture,
  ids: string,
  branch: BranchInputs,
  rope: Rope,
  precision: Precision,
) {
  const { perHead, rotated } = headsOfRows(g, arch, ids, branch.pos, rope, precision);
  return (i: number, q: string, k: string, v: string, trunk: KeysAndValues, limb: KeysAndValues) => {
    const { exit, number, pos, from, to, limbFrom, limbTo } = branch;
    const attended = g.node(
      'Scan',
      [rotated(q), rotated(k), perHead(v), exit, number, pos, from, to, limbFrom, limbTo],
      { body: { graph: groupAttention(arch, i, trunk, limb) }, num_scan_inputs: 10 },
    ); // [G,R,heads·hd]
    const flat = g.node('Reshape', [attended, g.ints([-1, arch.heads * arch.headDim])]);
    return cast(g, flat, 'f32', precision);
  };
}

/**
 * Keys and values of limbs, which are rows of the branches: k, v [G·R,kvHeads·hd] → [N,kvHeads,L,hd] in float32, keys rotated.
 * @param rows [N,L] of the flattened [G·R]
 * @param pos [G,R]
 */
export function limbKeys(
  g: Graph,
  arch: Architecture,
  rows: string,
  pos: string,
  rope: Rope,
  precision: Precision,
) {
  const flatPos = g.node('Reshape', [pos, g.ints([-1])]);
  const { perHead, rotated } = headsOfRows(
    g,
    arch,
    rows,
    g.node('Gather', [flatPos, rows]),
    rope,
    precision,
    arch.kvHeads,
  );
  return (k: string, v: string): KeysAndValues => ({
    k: rotated(g.node('Gather', [k, rows])),
    v: perHead(g.node('Gather', [v, rows])),
  });
}

/**
 * Rows [X,Y], flat or not, split into heads in float32: [X·Y, heads·hd] → [X,heads,Y,hd], rotated or as they are.
 * @param like a tensor [X,Y]
 * @param pos [X,Y]
 * @param heads that a row has; -1: as many as it has room for, where there are rows
 */
function headsOfRows(
  g: Graph,
  { headDim }: Architecture,
  like: string,
  pos: string,
  { cos, sin }: Rope,
  precision: Precision,
  heads = -1,
) {
  const perRow = g.node('Concat', [g.node('Shape', [like]), g.ints([heads, headDim])], { axis: 0 }); // [X,Y,heads,hd]
  const [cosRows, sinRows] = [cos, sin].map((table) =>
    g.node('Unsqueeze', [g.node('Gather', [table, pos]), g.ints([1])]),
  ) as [string, string]; // [X,1,Y,hd/2]
  const perHead = (flat: string) => {
    const wide = cast(g, flat, precision, 'f32');
    return g.node('Transpose', [g.node('Reshape', [wide, perRow])], { perm: [0, 2, 1, 3] });
  };
  const rotated = (flat: string) => rotate(g, perHead(flat), cosRows, sinRows, headDim / 2);
  return { perHead, rotated };
}

/** Half-split rotary embedding (Hugging Face convention) of x [..,R,hd], whose last axis is `axis`, by cos, sin [..,R,hd/2]. */
export function rotate(g: Graph, x: string, cos: string, sin: string, half: number, axis = 3): string {
  const low = g.node('Slice', [x, g.ints([0]), g.ints([half]), g.ints([axis])]);
  const high = g.node('Slice', [x, g.ints([half]), g.ints([2 * half]), g.ints([axis])]);
  const turnedLow = g.node('Sub', [g.node('Mul', [low, cos]), g.node('Mul', [high, sin])]);
  const turnedHigh = g.node('Add', [g.node('Mul', [high, cos]), g.node('Mul', [low, sin])]);
  return g.node('Concat', [turnedLow, turnedHigh], { axis });
}

/** Scan body: attention of one group's rows to their trunk and limb before their exits and to their own branch. */
function groupAttention(arch: Architecture, layer: number, trunk: KeysAndValues, limb: KeysAndValues): Graph {
  const { heads, kvHeads, headDim } = arch;
  const g = new Graph(`attend_${layer}`);
  const name = (n: string) => `attend_${layer}.${n}`;
  const q = g.input(name('q'), 'f32', [heads, 'R', headDim]);
  const k = g.input(name('k'), 'f32', [kvHeads, 'R', headDim]);
  const v = g.input(name('v'), 'f32', [kvHeads, 'R', headDim]);
  const exit = g.input(name('exit'), 'i64', ['R']);
  const branch = g.input(name('branch'), 'i64', ['R']);
  const pos = g.input(name('pos'), 'i64', ['R']);
  const from = g.input(name('from'), 'i64', [2]);
  const to = g.input(name('to'), 'i64', [2]);

  const limbFrom = g.input(name('limb_from'), 'i64', [2]);
  const limbTo = g.input(name('limb_to'), 'i64', [2]);

  /** what the group may see of a trunk, of the limb behind it, and the branch rows' own: [kvHeads,E,hd] */
  const inSight = (trunks: string, limbs: string, own: string) => {
    const parts = [
      g.node('Slice', [trunks, from, to, g.ints([0, 2])]),
      g.node('Slice', [limbs, limbFrom, limbTo, g.ints([0, 2])]),
      g.node('Unsqueeze', [own, g.ints([0])]),
    ];
    return g.node('Squeeze', [g.node('Concat', parts, { axis: 2 }), g.ints([0])]);
  };
  const allK = inSight(trunk.k, limb.k, k);
  const allV = inSight(trunk.v, limb.v, v);

  const column = (t: string) => g.node('Unsqueeze', [t, g.ints([1])]);
  const row = (t: string) => g.node('Unsqueeze', [t, g.ints([0])]);
  const length = (t: string) => g.node('Gather', [g.node('Shape', [t]), g.ints([1], [])]);
  // from shapes, not from `to`: on a GPU that would be one more value to wait for
  const keys = g.node('Sub', [length(allK), length(k)]);
  // a limb goes on where its trunk ends, so that a key's place is its position
  const positions = g.node('Range', [g.ints([0], []), keys, g.ints([1], [])]);
  const seesBefore = g.node('Less', [row(positions), column(exit)]); // [R,keys]
  const sameBranch = g.node('Equal', [row(branch), column(branch)]);
  const seesOwn = g.node('And', [sameBranch, g.node('LessOrEqual', [row(pos), column(pos)])]); // [R,R]
  let visible = g.node('Concat', [seesBefore, seesOwn], { axis: 1 }); // [R,E]
  const window = layerWindow(arch, layer);
  if (window !== undefined) {
    const keyPositions = g.node('Concat', [positions, pos], { axis: 0 }); // [E]
    const before = g.node('Sub', [pos, g.ints([window], [])]); // [R], the last position out of sight
    visible = g.node('And', [visible, g.node('Greater', [row(keyPositions), column(before)])]);
  }
  const bias = g.node('Where', [visible, g.float(0), g.float(-1e30)]);

  // query heads that share a key head lie together: [heads,R,hd] = [kvHeads, shared·R, hd], one batched MatMul
  const shared = heads / kvHeads;
  const scaled = g.node('Mul', [q, g.float(1 / Math.sqrt(headDim))]);
  const queries = g.node('Reshape', [scaled, g.ints([kvHeads, -1, headDim])]);
  const scores = g.node('MatMul', [queries, g.node('Transpose', [allK], { perm: [0, 2, 1] })]); // [kvHeads,shared·R,E]
  const rowsAndKeys = g.node('Concat', [g.ints([kvHeads, shared]), g.node('Shape', [bias])], { axis: 0 });
  const weights = g.node(
    'Softmax',
    [g.node('Add', [g.node('Reshape', [scores, rowsAndKeys]), bias])], // [kvHeads,shared,R,E]
    { axis: -1 },
  );
  const mixed = g.node('MatMul', [g.node('Reshape', [weights, g.node('Shape', [scores])]), allV]);
  const perRow = g.node('Transpose', [g.node('Reshape', [mixed, g.ints([heads, -1, headDim])])], {
    perm: [1, 0, 2],
  });
  const flat = g.node('Reshape', [perRow, g.ints([0, -1])]);
  g.output(name('out'), flat, 'f32', ['R', heads * headDim]);
  return g;
}
