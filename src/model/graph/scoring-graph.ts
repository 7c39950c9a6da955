// Builds the graph that scores traces, and references at their exit points.
import type { Architecture, GraphParts } from './architecture.js';
import { prefixAttention } from './attention.js';
import { branchAttention, branchInputs, branchRows, suffixKeys } from './branch-attention.js';
import { deltaWalk } from './delta-walk.js';
import { entropyHead } from './head.js';
import { cast, type Dim, Graph, type Precision } from './onnx.js';
import { type RowLayers, rowLayers, type Weight } from './operators.js';

/** Numbers of a hidden state above which a second layer of it costs a fit more than it tells. */
const WIDE = 2048;

/** Layers behind which hidden states are read: of 24, those behind 14 tell most of how a trace ends, and those behind 18 some more. */
export function stateLayers({ layers, hidden }: Pick<Architecture, 'layers' | 'hidden'>): number[] {
  const shares = hidden > WIDE ? [0.6] : [0.6, 0.75];
  return [...new Set(shares.map((share) => Math.min(layers - 1, Math.round(share * layers))))];
}

/**
 * The scoring graph: B traces of S tokens each, causal (the prefix), and G groups in which branches stand, R rows for each of
 * W lanes, a trace each. A branch is a run of rows that sees its trace up to its exit point, and itself. What precedes the prefix
 * may come as keys and values of an earlier run; with P = 0 there are none.
 *
 * Of traces that begin alike the prefix may be the beginning alone: what follows in each, its suffix, stands among the branch
 * rows, cut into branches that see the ones before. N suffixes of up to L rows; with L = 0 there are none.
 *
 * One graph serves three runs, so that its weights are held once: both parts at once where the exit points are known;
 * the prefix with one idle row as its branches; the branches after a prefix that is one idle token long.
 *
 * in  ids [B,S] i64 · past_k_i, past_v_i [B,kvHeads,P,headDim] f32 per layer, keys after rotation
 *     branch_ids, branch_pos, branch_exit, branch_number [G,W,R] i64: token, position, number of the trace's tokens in
 *     sight, which branch; and where its keys are ({@link branchInputs})
 *     suffix_rows [N,L] i64: rows of the flattened [G·W·R] · past_suffix_k_i, past_suffix_v_i [N,kvHeads,Q,headDim] f32: suffixes of an earlier run
 *     of a layer that is a delta net past_x_i [B,P,d], past_suffix_x_i [N,Q,d] f32 in the place of those, and walk, walk_places ({@link deltaWalk})
 *     cos, sin [M, rotaryDim/2] f32, a row a position · rows, targets [n,C] i64: rows of the flattened [B·S + G·W·R] to read
 *     out, and the token that follows each · state_rows [m] i64: rows of which the residual stream is wanted
 * out entropies, logprobs [n,C] f32 (nats) · shares [experts,layers with some] f32, in a float32 graph: the largest that each has in a row read out · states [m,s·d] f32, behind the s {@link stateLayers} · k_i, v_i [B,kvHeads,P+S,headDim], suffix_k_i, suffix_v_i [N,kvHeads,Q+L,headDim] f32 per layer;
 *     x_i [B,P+S,d], suffix_x_i [N,Q+L,d] of a delta net
 *
 * @param precision what projections, norms and the prefix's attention compute in, and the residual stream is held in.
 * Softmaxes are float32 in all of them, and so is the attention of the branches, whose products a GPU rounds to TF32: beside bfloat16's
 * an eighteenth of the error (measured by rounding so on a CPU: .002 and .036 nats of an answer of three tokens, medians of 300).
 * @param givesLast out too: last [n·C,d] f32, the last layer's rows that are read out, before norm and head
 */
export function buildScoringGraph(
  arch: Architecture,
  weights: ReadonlyMap<string, Weight>,
  precision: Precision = 'f32',
  givesLast = false,
): Graph {
  const { layers, headDim } = arch;
  const g = new Graph('policy');
  const ids = g.input('ids', 'i64', ['B', 'S']);
  const branchIds = g.input('branch_ids', 'i64', ['G', 'W', 'R']);
  const branch = branchInputs(g, precision);
  const suffixRows = g.input('suffix_rows', 'i64', ['N', 'L']);
  const table = (name: string) => g.input(name, 'f32', ['M', (arch.rotaryDim ?? headDim) / 2]);
  const all = { g, arch, precision, rope: { cos: table('cos'), sin: table('sin') } };
  const rows = g.input('rows', 'i64', ['n', 'C']);
  const targets = g.input('targets', 'i64', ['n', 'C']);
  const stateRows = g.input('state_rows', 'i64', ['m']);
  const layer = rowLayers(all, weights);
  const read = contextOf(all, layer, ids, suffixRows, branch);

  const flatIds = [ids, branchIds].map((t) => g.node('Reshape', [t, g.ints([-1])]));
  const prefixRows = g.node('Shape', [flatIds[0] as string]); // [1]: B·S
  /** [B·S + G·W·R, width] → the prefix's rows and the branches' */
  const parts: Parts = (t) => [
    g.node('Slice', [t, g.ints([0]), prefixRows, g.ints([0])]),
    g.node('Slice', [t, prefixRows, g.ints([2 ** 31]), g.ints([0])]),
  ];
  const readOut = g.node('Reshape', [rows, g.ints([-1])]);

  const states: string[] = [];
  let x = layer.family.embed(layer.within(-1), g.node('Concat', flatIds, { axis: 0 })); // [B·S + G·W·R, d]
  for (let i = 0; i < layers; i++) {
    if (stateLayers(arch).includes(i))
      states.push(cast(g, g.node('Gather', [x, stateRows]), precision, 'f32'));
    const attended = read(i, x, parts);
    // the last layer's output is wanted in the read-out rows only
    const pick = (t: string) => (i === layers - 1 ? g.node('Gather', [t, readOut]) : t);
    x = layer.family.finish(layer.within(i), pick(x), pick(attended));
  }
  g.output('states', g.node('Concat', states, { axis: 1 }), 'f32', ['m', states.length * arch.hidden]);
  const blocks = g.node('Concat', [g.node('Shape', [rows]), g.ints([arch.hidden])], { axis: 0 }); // [n,C,d]
  const readRows = g.node('Reshape', [x, blocks]);
  // of every expert the largest share that it has in a row of those that are read out
  const shares = layer.shares.map((own, n) => {
    const isLast = arch.mixture?.layers[n] === layers - 1;
    const read = isLast ? own : g.node('Gather', [own, readOut], { axis: 1 });
    return g.node('ReduceMax', [read, g.ints([1])]);
  });
  if (shares.length > 0)
    g.output('shares', g.node('Concat', shares, { axis: 1 }), 'f32', ['E', shares.length]);
  entropyHead(all, layer, readRows, targets);
  if (givesLast) g.output('last', cast(g, x, precision, 'f32'), 'f32', ['rows', arch.hidden]);
  return g;
}

type Parts = (rows: string) => readonly [prefix: string, branches: string];

/** What rows take from others, layer by layer: rows x [B·S + G·W·R,d] → what attention, or a delta net, makes of all that is in sight of each. */
function contextOf(
  all: GraphParts,
  layer: RowLayers,
  ids: string,
  suffixRows: string,
  branch: ReturnType<typeof branchInputs>,
) {
  const { g, arch, precision } = all;
  const { kvHeads, headDim, hidden, delta } = arch;
  const attendPrefix = prefixAttention(all, ids);
  const attendBranches = branchAttention(all, branch);
  const rowsOfBranches = branchRows(all, branch);
  const keysOfSuffixes = suffixKeys(all, suffixRows);
  const walk = delta && deltaWalk(all, delta);
  /** of an earlier run and of this one: keys or values [X,kvHeads,P+S,headDim], or rows of a delta net [X,P+S,d] */
  const whole = (name: string, own: string, shape: (length: string) => readonly Dim[]) => {
    const dims = name.startsWith('suffix') ? ['N', 'Q', 'LT'] : ['B', 'P', 'T'];
    const [count, before, length] = dims as [string, string, string];
    const past = g.input(`past_${name}`, 'f32', [count, ...shape(before)]);
    const axis = shape(length).indexOf(length) + 1;
    const keys = g.node('Concat', [past, own], { axis }, { outputs: [name] });
    g.output(keys, keys, 'f32', [count, ...shape(length)]);
    return { past, keys };
  };
  const attention = (i: number, x: string, parts: Parts): string => {
    const { q, k, v, gate } = layer.family.project(layer.within(i), x);
    const [prefixQ, branchQ] = parts(q);
    const [prefixK, branchK] = parts(k);
    const [prefixV, branchV] = parts(v);
    const prefix = attendPrefix(i, prefixQ, prefixK, prefixV);
    const own = rowsOfBranches(i, { q: branchQ, k: branchK, v: branchV });
    const suffix = keysOfSuffixes(own);
    const keys = (name: string, own: string) =>
      whole(`${name}_${i}`, own, (length) => [kvHeads, length, headDim]).keys;
    const ofPrefixes = (name: 'k' | 'v') => keys(name, cast(g, prefix[name], precision, 'f32'));
    const ofSuffixes = (name: 'k' | 'v') => keys(`suffix_${name}`, suffix[name]);
    const prefixKeys = { k: ofPrefixes('k'), v: ofPrefixes('v') };
    const keysBehind = { k: ofSuffixes('k'), v: ofSuffixes('v') };
    const branches = attendBranches(i, own, prefixKeys, keysBehind);
    const attended = g.node('Concat', [prefix.attended, branches], { axis: 0 });
    return gate === undefined ? attended : g.node('Mul', [attended, g.node('Sigmoid', [gate])]);
  };
  return (i: number, x: string, parts: Parts): string => {
    const net = delta?.layers.includes(i) && layer.family.delta;
    if (!walk || !net) return attention(i, x, parts);
    const h = net.read(layer.within(i), x);
    const [ofPrefixes, ofBranches] = parts(cast(g, h, precision, 'f32'));
    const perTrace = g.node('Concat', [g.node('Shape', [ids]), g.ints([hidden])], { axis: 0 });
    const before = [
      [`x_${i}`, g.node('Reshape', [ofPrefixes, perTrace])],
      [`suffix_x_${i}`, g.node('Gather', [ofBranches, suffixRows])],
    ].map(([name, own]) => {
      const { past } = whole(name as string, own as string, (length) => [length, hidden]);
      return cast(g, g.node('Reshape', [past, g.ints([-1, hidden])]), 'f32', precision);
    });
    return walk(i, net.project(layer.within(i), g.node('Concat', [...before, h], { axis: 0 })));
  };
}
