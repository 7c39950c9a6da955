// The parts of a decoder's layer that act on single rows, with the weights that they need: embedding, projections, norms, SwiGLU.
import type { Architecture, Head } from './architecture.js';
import { FAMILIES } from './families.js';
import { entropyHead, type MatrixSlice } from './head.js';
import type { Dtype, ExternalData, Graph } from './onnx.js';
import { cast, type Precision } from './precision.js';

/** A tensor of the checkpoint with the file (beside the graph) that holds it. */
export interface Weight extends ExternalData {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
}

/** The last linear layer of a head that classifies. */
export function lastOfHead({ layers }: Pick<Head, 'layers'>): string {
  return layers === 2 ? 'score.2' : 'score';
}

/**
 * Puts weights into a graph, each once, when they are first asked for.
 * @param main graph that holds them
 * @param g where rows are gathered: the main graph, or a body of it
 */
export function weightSource(
  main: Graph,
  weights: ReadonlyMap<string, Weight>,
  precision: Precision,
  g = main,
) {
  const weightOf = (name: string): Weight => {
    const weight = weights.get(name);
    if (weight === undefined) throw new Error(`graph builder asked for the unknown weight ${name}`);
    return weight;
  };
  const placed = new Set<string>();
  const stored = (name: string): string => {
    const { dtype, shape, location, offset, length } = weightOf(name);
    if (!placed.has(name)) main.weight(name, dtype, shape, { location, offset, length });
    placed.add(name);
    return name;
  };
  const converted = new Map<string, string>();
  /** a weight in the graph's precision; one of another type is cast in the main graph, where bodies see it too */
  const weight = (name: string): string => {
    const value = converted.get(name) ?? cast(main, stored(name), weightOf(name).dtype, precision);
    converted.set(name, value);
    return value;
  };
  /** rows of a matrix, cast after they are gathered: only the rows in use */
  const rowsOf = (name: string, ids: string, graph = g) =>
    cast(graph, graph.node('Gather', [stored(name), ids]), weightOf(name).dtype, precision);
  return { weightOf, weight, rowsOf };
}
export type WeightSource = Pick<ReturnType<typeof weightSource>, 'weight' | 'rowsOf'>;

/**
 * The parts of a layer that act on single rows.
 * @param main graph that holds the weights
 * @param g where the nodes stand: the main graph, or a body of it
 */
export function rowLayers(
  main: Graph,
  arch: Architecture,
  weights: ReadonlyMap<string, Weight>,
  precision: Precision,
  g = main,
) {
  const { weightOf, weight, rowsOf } = weightSource(main, weights, precision, g);
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
    main.weight(name, dtype, shape, { ...place, length: size * bytes });
    return cast(main, name, dtype, precision);
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
    /** x [N,d] → [N,V] float32 */
    logits(x: string) {
      const h = linear(norm(x, 'model.norm.weight'), headWeight);
      return cast(g, h, precision, 'f32');
    },
    /** x [N,d] → logits of the labels [N,labels] float32 */
    classify(x: string, head: Head) {
      let h = norm(x, 'model.norm.weight');
      if (head.layers === 2) h = g.node('Relu', [linear(h, 'score.0.weight', 'score.0.bias')]);
      const last = lastOfHead(head);
      const logits = linear(h, `${last}.weight`, head.bias ? `${last}.bias` : undefined);
      return cast(g, logits, precision, 'f32');
    },
    /** x [n,C,d], targets [n,C] → entropies and logprobs [n,C] */
    head(x: string, targets: string) {
      return entropyHead(main, x, targets, {
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
