// Builds the scoring graph of a Llama-style policy: it reads traces and scores references at their exit points.
import type { Architecture } from './architecture.js';
import { type BranchInputs, branchAttention, type Rope, trunkAttention } from './attention.js';
import { FAMILIES } from './families.js';
import { entropyHead, type MatrixSlice } from './head.js';
import { type Dtype, type ExternalData, Graph } from './onnx.js';
import { cast, type Precision } from './precision.js';

/** A tensor of the checkpoint with the file (beside the graph) that holds it. */
export interface Weight extends ExternalData {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
}

/** Every tensor name the graphs need, with the shape that the architecture demands of it. */
export function expectedWeights(arch: Architecture): Map<string, readonly number[]> {
  const { hidden: d, heads, kvHeads, headDim, intermediate: f, vocab } = arch;
  const { qkvBias, qkNorm } = FAMILIES[arch.family];
  const shapes = new Map<string, readonly number[]>([
    ['model.embed_tokens.weight', [vocab, d]],
    ['model.norm.weight', [d]],
  ]);
  if (!arch.tiedHead) shapes.set('lm_head.weight', [vocab, d]);
  for (let layer = 0; layer < arch.layers; layer++) {
    const at = `model.layers.${layer}.`;
    shapes.set(`${at}input_layernorm.weight`, [d]);
    shapes.set(`${at}self_attn.q_proj.weight`, [heads * headDim, d]);
    shapes.set(`${at}self_attn.k_proj.weight`, [kvHeads * headDim, d]);
    shapes.set(`${at}self_attn.v_proj.weight`, [kvHeads * headDim, d]);
    shapes.set(`${at}self_attn.o_proj.weight`, [d, heads * headDim]);
    if (qkvBias) {
      shapes.set(`${at}self_attn.q_proj.bias`, [heads * headDim]);
      shapes.set(`${at}self_attn.k_proj.bias`, [kvHeads * headDim]);
      shapes.set(`${at}self_attn.v_proj.bias`, [kvHeads * headDim]);
    }
    if (qkNorm) {
      shapes.set(`${at}self_attn.q_norm.weight`, [headDim]);
      shapes.set(`${at}self_attn.k_norm.weight`, [headDim]);
    }
    shapes.set(`${at}post_attention_layernorm.weight`, [d]);
    shapes.set(`${at}mlp.gate_proj.weight`, [f, d]);
    shapes.set(`${at}mlp.up_proj.weight`, [f, d]);
    shapes.set(`${at}mlp.down_proj.weight`, [d, f]);
  }
  return shapes;
}

/**
 * The scoring graph: B traces of S tokens each, causal (the trunk), and G groups of R rows in which branches stand. A
 * branch is a run of rows that sees its trace up to its exit point, and itself. What precedes the trunk may come as keys
 * and values of an earlier run; with P = 0 there are none.
 *
 * One graph serves three runs, so that its weights are held once: both parts at once where the exit points are known;
 * the trunk with one idle row as its branches; the branches after a trunk that is one idle token long.
 *
 * in  ids [B,S] i64 · past_k_i, past_v_i [B,kvHeads,P,headDim] f32 per layer, keys after rotation
 *     branch_ids, branch_pos, branch_exit, branch_number [G,R] i64: token, position, number of the trace's tokens in
 *     sight, which branch · group_from, group_to [G,2] i64: trace and first key, next trace and next key of what the group needs
 *     cos, sin [M, headDim/2] f32, a row a position · rows, targets [n,C] i64: rows of the flattened [B·S + G·R] to read
 *     out, and the token that follows each
 * out entropies, logprobs [n,C] f32 (nats) · k_i, v_i [B,kvHeads,P+S,headDim] f32 per layer
 *
 * @param precision what projections, norms and the trunk's attention compute in, and the residual stream is held in.
 * Softmaxes are float32 in all of them, and so is all attention of the branches: on a GPU their few rows cost little, and
 * what they differ by from the trunk is the trunk's rounding alone.
 */
export function buildScoringGraph(
  arch: Architecture,
  weights: ReadonlyMap<string, Weight>,
  precision: Precision = 'f32',
): Graph {
  const { layers, kvHeads, headDim } = arch;
  const g = new Graph('policy');
  const ids = g.input('ids', 'i64', ['B', 'S']);
  const branchIds = g.input('branch_ids', 'i64', ['G', 'R']);
  const branch: BranchInputs = {
    pos: g.input('branch_pos', 'i64', ['G', 'R']),
    exit: g.input('branch_exit', 'i64', ['G', 'R']),
    number: g.input('branch_number', 'i64', ['G', 'R']),
    from: g.input('group_from', 'i64', ['G', 2]),
    to: g.input('group_to', 'i64', ['G', 2]),
  };
  const rope: Rope = {
    cos: g.input('cos', 'f32', ['M', headDim / 2]),
    sin: g.input('sin', 'f32', ['M', headDim / 2]),
  };
  const rows = g.input('rows', 'i64', ['n', 'C']);
  const targets = g.input('targets', 'i64', ['n', 'C']);
  const layer = decoder(g, arch, weights, precision);
  const attendTrunk = trunkAttention(g, arch, ids, rope, precision);
  const attendBranches = branchAttention(g, arch, branchIds, branch, rope, precision);

  const flatIds = [ids, branchIds].map((t) => g.node('Reshape', [t, g.ints([-1])]));
  const trunkRows = g.node('Shape', [flatIds[0] as string]); // [1]: B·S
  /** [B·S + G·R, width] → the trunk's rows and the branches' */
  const parts = (t: string) => [
    g.node('Slice', [t, g.ints([0]), trunkRows, g.ints([0])]),
    g.node('Slice', [t, trunkRows, g.ints([2 ** 31]), g.ints([0])]),
  ];
  const readOut = g.node('Reshape', [rows, g.ints([-1])]);

  let x = layer.embed(g.node('Concat', flatIds, { axis: 0 })); // [B·S + G·R, d]
  for (let i = 0; i < layers; i++) {
    const { q, k, v } = layer.project(i, x);
    const [trunkQ, branchQ] = parts(q) as [string, string];
    const [trunkK, branchK] = parts(k) as [string, string];
    const [trunkV, branchV] = parts(v) as [string, string];
    const trunk = attendTrunk(i, trunkQ, trunkK, trunkV);
    /** the trace's keys or values so far, [B,kvHeads,P+S,headDim] */
    const whole = (name: string, own: string) => {
      const past = g.input(`past_${name}_${i}`, 'f32', ['B', kvHeads, 'P', headDim]);
      const now = cast(g, own, precision, 'f32');
      const all = g.node('Concat', [past, now], { axis: 2 }, { outputs: [`${name}_${i}`] });
      g.output(all, all, 'f32', ['B', kvHeads, 'T', headDim]);
      return all;
    };
    const branches = attendBranches(i, branchQ, branchK, branchV, whole('k', trunk.k), whole('v', trunk.v));
    const attended = g.node('Concat', [trunk.attended, branches], { axis: 0 }); // [B·S + G·R, heads·headDim]
    // the last layer's output is wanted in the read-out rows only
    const pick = (t: string) => (i === layers - 1 ? g.node('Gather', [t, readOut]) : t);
    x = layer.finish(i, pick(x), pick(attended));
  }
  const blocks = g.node('Concat', [g.node('Shape', [rows]), g.ints([arch.hidden])], { axis: 0 }); // [n,C,d]
  const { entropies, logprobs } = layer.head(g.node('Reshape', [x, blocks]), targets);
  g.output('entropies', entropies, 'f32', ['n', 'C']);
  g.output('logprobs', logprobs, 'f32', ['n', 'C']);
  return g;
}

/** The parts of a layer that act on single rows. */
function decoder(g: Graph, arch: Architecture, weights: ReadonlyMap<string, Weight>, precision: Precision) {
  const weightOf = (name: string): Weight => {
    const weight = weights.get(name);
    if (weight === undefined) throw new Error(`graph builder asked for the unknown weight ${name}`);
    return weight;
  };
  const placed = new Set<string>();
  const stored = (name: string): string => {
    const { dtype, shape, location, offset, length } = weightOf(name);
    if (!placed.has(name)) g.weight(name, dtype, shape, { location, offset, length });
    placed.add(name);
    return name;
  };
  const converted = new Map<string, string>();
  /** a weight in the graph's precision; one of another type is cast in the main graph, where bodies see it too */
  const weight = (name: string): string => {
    const value = converted.get(name) ?? cast(g, stored(name), weightOf(name).dtype, precision);
    converted.set(name, value);
    return value;
  };
  /** rows of a matrix, cast after they are gathered: only the rows in use */
  const rowsOf = (name: string, ids: string, graph = g) =>
    cast(graph, graph.node('Gather', [stored(name), ids]), weightOf(name).dtype, precision);
  const norm = (x: string, name: string, graph = g) =>
    graph.node('SimplifiedLayerNormalization', [x, weight(name)], {
      axis: -1,
      epsilon: { float: arch.rmsNormEps },
    });
  const linear = (x: string, name: string, bias?: string) =>
    g.node('Gemm', [x, weight(name), ...(bias === undefined ? [] : [weight(bias)])], { transB: 1 });
  const { qkvBias, qkNorm } = FAMILIES[arch.family];
  /** RMS norm of each head on its own: x [N,heads·hd], weight [hd] */
  const normHeads = (x: string, name: string, heads: number) => {
    const perHead = g.node('Reshape', [x, g.ints([-1, arch.headDim])]);
    return g.node('Reshape', [norm(perHead, name), g.ints([-1, heads * arch.headDim])]);
  };
  const at = (i: number) => `model.layers.${i}`;
  const headWeight = arch.tiedHead ? 'model.embed_tokens.weight' : 'lm_head.weight';
  /** some rows of the head's matrix as a tensor of their own, of the same bytes of the same file */
  const headSlice = ({ name, first, shape }: MatrixSlice) => {
    const { dtype, location, offset, length } = weightOf(headWeight);
    const bytes = length / (arch.vocab * arch.hidden);
    const place = { location, offset: offset + first * arch.hidden * bytes };
    const size = shape.reduce((product, n) => product * n, 1);
    g.weight(name, dtype, shape, { ...place, length: size * bytes });
    return cast(g, name, dtype, precision);
  };
  return {
    /** ids [N] → [N,d] */
    embed: (ids: string) => rowsOf('model.embed_tokens.weight', ids),
    /** x [N,d] → q [N,heads·hd], k and v [N,kvHeads·hd], before rotation */
    project(i: number, x: string) {
      const h = norm(x, `${at(i)}.input_layernorm.weight`);
      const projected = (letter: 'q' | 'k' | 'v') => {
        const name = `${at(i)}.self_attn.${letter}_proj`;
        return linear(h, `${name}.weight`, qkvBias ? `${name}.bias` : undefined);
      };
      const [q, k, v] = [projected('q'), projected('k'), projected('v')] as const;
      if (!qkNorm) return { q, k, v };
      return {
        q: normHeads(q, `${at(i)}.self_attn.q_norm.weight`, arch.heads),
        k: normHeads(k, `${at(i)}.self_attn.k_norm.weight`, arch.kvHeads),
        v,
      };
    },
    /** output projection and SwiGLU, both residual: x [N,d], attended [N,heads·hd] → [N,d] */
    finish(i: number, x: string, attended: string) {
      const y = g.node('Add', [x, linear(attended, `${at(i)}.self_attn.o_proj.weight`)]);
      const h = norm(y, `${at(i)}.post_attention_layernorm.weight`);
      const gate = linear(h, `${at(i)}.mlp.gate_proj.weight`);
      const silu = g.node('Mul', [gate, g.node('Sigmoid', [gate])]);
      const mixed = g.node('Mul', [silu, linear(h, `${at(i)}.mlp.up_proj.weight`)]);
      return g.node('Add', [y, linear(mixed, `${at(i)}.mlp.down_proj.weight`)]);
    },
    /** x [n,C,d], targets [n,C] → entropies and logprobs [n,C] */
    head(x: string, targets: string) {
      return entropyHead(g, x, targets, {
        hidden: arch.hidden,
        vocab: arch.vocab,
        precision,
        norm: (rows, body) => norm(rows, 'model.norm.weight', body),
        matrix: (slice) => (slice === undefined ? weight(headWeight) : headSlice(slice)),
        tokenRows: (tokens, body) => rowsOf(headWeight, tokens, body),
      });
    },
  };
}
