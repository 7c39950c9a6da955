// Attention of rows that write: each row sees a trunk up to its exit point, and all tokens that it has written itself.
import type { Architecture } from './architecture.js';
import { layerWindow } from './families.js';
import type { Graph } from './onnx.js';
import { cast, type Precision } from './precision.js';

/** What rows see, by name; float32. G groups of R rows; T keys of a trunk, P tokens that a row wrote in earlier runs. */
export interface Sight {
  /** [G,R] position of the rows' tokens */
  readonly pos: string;
  /** [G,R] keys of the trunk in sight */
  readonly exit: string;
  /** [M, headDim/2] */
  readonly cos: string;
  readonly sin: string;
  /** layer's trunk keys and values [G,kvHeads,T,headDim] */
  trunk(layer: number): Pair;
  /** what rows wrote in earlier runs [G,kvHeads,R,P,headDim] */
  past(layer: number): Pair;
  /** what they wrote in this one [G,kvHeads,R,t,headDim] */
  block(layer: number): Pair;
}

export interface Pair {
  readonly k: string;
  readonly v: string;
}

const HIDDEN = -1e30;
const MICROSOFT = { domain: 'com.microsoft' };

/**
 * One token of every row: q [G·R,heads·hd], k, v [G·R,kvHeads·hd] → attended [G·R,heads·hd], and the block with the new
 * keys and values. Softmax and products are float32, as those of branches are.
 *
 * The keys' order is trunk, earlier tokens, tokens of this run: padding at a trunk's end, in multiples of 64, then moves no
 * key of a row to another lane of a vector, so that a row's bits do not depend on how long its neighbours' trunks are.
 */
export function rowAttention(g: Graph, arch: Architecture, sight: Sight, precision: Precision) {
  const { kvHeads, headDim } = arch;
  const shared = arch.heads / kvHeads;
  const { pos, exit, cos, sin } = sight;
  const first = sight.trunk(0);
  const dim = (t: string, axis: number) => g.node('Gather', [g.node('Shape', [t]), g.ints([axis], [])]);
  const one = (t: string) => g.node('Unsqueeze', [t, g.ints([0])]);
  const range = (to: string) => g.node('Range', [g.ints([0], []), to, g.ints([1], [])]);
  const bias = (visible: string) => g.node('Where', [visible, g.float(0), g.float(HIDDEN)]);
  const over = (t: string) => g.node('Unsqueeze', [t, g.ints([1, 3, 4])]); // [G,R] → [G,1,R,1,1]

  const [keys, earlier] = [dim(first.k, 2), dim(sight.past(0).k, 3)];
  const perRow = (heads: number) =>
    g.node('Concat', [g.node('Shape', [pos]), g.ints([kvHeads, heads, headDim])], { axis: 0 });
  const [asQueries, asKeys] = [perRow(shared), perRow(1)]; // [G,R,kv,shared or 1,hd]
  const asRows = g.node('Concat', [g.ints([0, 0, -1, shared]), one(keys)], { axis: 0 }); // [G,kv,R,shared,T]
  const seesTrunk = g.node('Less', [range(keys), over(exit)]); // [G,1,R,1,T]
  const trunkBias = new Map<number | undefined, string>();
  const trunkBiasOf = (window: number | undefined): string => {
    const known = trunkBias.get(window);
    if (known !== undefined) return known;
    const visible =
      window === undefined
        ? seesTrunk
        : g.node('And', [
            seesTrunk,
            g.node('Greater', [range(keys), g.node('Sub', [over(pos), g.ints([window], [])])]),
          ]);
    const made = bias(visible);
    trunkBias.set(window, made);
    return made;
  };
  /** of the tokens that a row wrote, P + t of them, the newest sees the last `window` */
  const ownBiasOf = (own: string, window: number): string => {
    const count = dim(own, 4);
    const last = g.node('Sub', [count, g.ints([window], [])]); // newest index is count - 1
    return bias(g.node('GreaterOrEqual', [range(count), last]));
  };
  const rotated = (flat: string): string => {
    // rows are sequences of one token: of longer ones the operator wants tables at least as long
    const wide = g.node('Reshape', [cast(g, flat, precision, 'f32'), g.ints([0, 1, -1])]);
    return g.node(
      'RotaryEmbedding',
      [wide, g.node('Reshape', [pos, g.ints([-1, 1])]), cos, sin],
      {},
      MICROSOFT,
    );
  };
  /** a row's heads → [G,kvHeads,R,shared or 1,hd] */
  const perHead = (t: string, shape: string): string =>
    g.node('Transpose', [g.node('Reshape', [t, shape])], { perm: [0, 2, 1, 3, 4] });
  const scores = (q: string, k: string): string =>
    g.node('FusedMatMul', [q, k], { transB: 1, alpha: { float: 1 / Math.sqrt(headDim) } }, MICROSOFT);

  return (i: number, q: string, k: string, v: string): { attended: string } & Pair => {
    const window = layerWindow(arch, i);
    const [trunk, past, block] = [sight.trunk(i), sight.past(i), sight.block(i)];
    const queries = perHead(rotated(q), asQueries);
    const grouped = g.node('Reshape', [queries, g.ints([0, 0, -1, headDim])]); // [G,kv,R·shared,hd]
    const blockK = g.node('Concat', [block.k, perHead(rotated(k), asKeys)], { axis: 3 });
    const blockV = g.node('Concat', [block.v, perHead(cast(g, v, precision, 'f32'), asKeys)], { axis: 3 });

    const onTrunk = g.node('Add', [
      g.node('Reshape', [scores(grouped, trunk.k), asRows]),
      trunkBiasOf(window),
    ]);
    let onOwn = g.node('Concat', [scores(queries, past.k), scores(queries, blockK)], { axis: 4 });
    if (window !== undefined) onOwn = g.node('Add', [onOwn, ownBiasOf(onOwn, window)]);
    const weights = g.node('Softmax', [g.node('Concat', [onTrunk, onOwn], { axis: 4 })], { axis: -1 });

    const sizes = g.node('Concat', [one(keys), one(earlier), one(dim(blockK, 3))], { axis: 0 });
    const parts = ['trunk', 'past', 'block'].map((part) => `${g.name}.weights_${part}_${i}`);
    g.node('Split', [weights, sizes], { axis: 4 }, { outputs: parts });
    const [ofTrunk, ofPast, ofBlock] = parts as [string, string, string];
    const flatTrunk = g.node('Concat', [g.ints([0, 0, -1]), one(keys)], { axis: 0 });
    const fromTrunk = g.node('MatMul', [g.node('Reshape', [ofTrunk, flatTrunk]), trunk.v]);
    const trunkPart = g.node('Reshape', [fromTrunk, g.ints([0, 0, -1, shared, headDim])]);
    const fromOwn = g.node('Add', [g.node('MatMul', [ofPast, past.v]), g.node('MatMul', [ofBlock, blockV])]);
    const mixed = g.node('Transpose', [g.node('Add', [trunkPart, fromOwn])], { perm: [0, 2, 1, 3, 4] });
    const attended = g.node('Reshape', [mixed, g.ints([-1, arch.heads * headDim])]);
    return { attended: cast(g, attended, 'f32', precision), k: blockK, v: blockV };
  };
}
