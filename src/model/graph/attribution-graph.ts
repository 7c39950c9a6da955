// Builds the graphs of two attributions: how much attention tokens get from the scored ones, and the gradient of these.
import type { Architecture } from './architecture.js';
import { FAMILIES } from './families.js';
import { type LayerNodes, type SequenceLayers, sequenceInputs, sequenceLayers } from './forward.js';
import { type Weight, type WeightSource, weightSource } from './layers.js';
import { Graph, MICROSOFT } from './onnx.js';
import { cast } from './precision.js';

/**
 * The attention graph: one sequence of S tokens, a trace and behind it its references, each of which sees the trace and itself.
 *
 * in  ids, pos, number [S] i64, rows [n] i64, weights [n] f32, cos, sin [M,headDim/2] f32: `SequenceInputs`
 * out mass [S] f32: Σ_rows weight · attention to the token, the mean over heads and layers
 */
export function buildAttentionGraph(arch: Architecture, weights: ReadonlyMap<string, Weight>): Graph {
  const g = new Graph('attention');
  const inputs = sequenceInputs(g, arch);
  const source = weightSource(g, weights, 'f32');
  const layers = sequenceLayers(g, arch, source, inputs);
  const counted = layers.column(inputs.weights); // [n,1]
  let x = layers.embedded();
  const masses: string[] = []; // [S] each
  for (let i = 0; i < arch.layers; i++) {
    const { attention, out } = layers.layer(i, x);
    const picked = g.node('Gather', [layers.byHead(attention), inputs.rows], { axis: 2 }); // [G,H/G,n,S]
    const mass = g.node('ReduceSum', [g.node('Mul', [picked, counted]), g.ints([2])], { keepdims: 0 });
    masses.push(g.node('ReduceMean', [mass, g.ints([0, 1])], { keepdims: 0 }));
    x = out;
  }
  const total = masses.reduce((sum, mass) => g.node('Add', [sum, mass]));
  g.output('mass', g.node('Div', [total, g.float(arch.layers)]), 'f32', ['S']);
  return g;
}

/**
 * The gradient graph: the same sequence, φ = Σ_rows weight · log p(target), and its exact gradient by reverse mode. Of the
 * forward pass the layers' inputs are kept; the rest of a layer is computed again when its turn comes, so that the
 * attention weights of one layer alone are held.
 *
 * in  as the attention graph · targets [n] i64: the token that follows each row
 * out squares [S] f32: the squared norm of ∂φ/∂E of each token's input embedding
 */
export function buildGradientGraph(arch: Architecture, weights: ReadonlyMap<string, Weight>): Graph {
  const g = new Graph('gradient');
  const inputs = sequenceInputs(g, arch);
  const targets = g.input('targets', 'i64', ['n']);
  const source = weightSource(g, weights, 'f32');
  const layers = sequenceLayers(g, arch, source, inputs);
  const back = gradients(g, arch, source, layers);

  const xs = [layers.embedded()]; // what each layer takes
  for (let i = 0; i < arch.layers; i++) xs.push(layers.layer(i, xs[i] as string).out);

  // the head: ∂ log p(target) / ∂h = W_target − Σ_v p_v W_v
  const head = arch.tiedHead ? 'model.embed_tokens.weight' : 'lm_head.weight';
  const last = g.node('Gather', [xs[arch.layers] as string, inputs.rows]); // [n,d]
  const p = g.node('Softmax', [layers.linear(layers.norm(last, 'model.norm.weight'), head)], { axis: 1 });
  const expected = g.node('MatMul', [p, source.weight(head)]);
  const pull = g.node('Sub', [source.rowsOf(head, targets), expected]);
  const dhead = g.node('Mul', [pull, layers.column(inputs.weights)]);
  const drows = back.norm(last, 'model.norm.weight', dhead); // [n,d]
  // back to their places; several rows may be one
  const places = g.node('Equal', [layers.column(layers.all), layers.row(inputs.rows)]); // [S,n]
  let dx = g.node('MatMul', [cast(g, places, 'bool', 'f32'), drows]); // [S,d]

  for (let i = arch.layers - 1; i >= 0; i--) {
    // 0·dx: the layer is computed again behind the gradient that needs it, and is no expression that was there before
    const again = g.node('Add', [xs[i] as string, g.node('Mul', [dx, g.float(0)])]);
    dx = back.layer(i, layers.layer(i, again), dx);
  }
  g.output('squares', g.node('ReduceSumSquare', [dx, g.ints([1])], { keepdims: 0 }), 'f32', ['S']);
  return g;
}

// ------ the backward pass of one layer in plain nodes: reverse mode, written out for the layers that the policies have

/** Gradients with respect to what parts of the forward pass took, from those with respect to what they gave. */
export function gradients(g: Graph, arch: Architecture, { weight }: WeightSource, layers: SequenceLayers) {
  const { heads, headDim } = arch;
  const { qkNorm } = FAMILIES[arch.family];
  const { rotate, perHead, flat, grouped, ungrouped } = layers;
  const mul = (a: string, b: string): string => g.node('Mul', [a, b]);
  const add = (a: string, b: string): string => g.node('Add', [a, b]);

  /** y = x Wᵀ (+ b): dx = dy W */
  const linear = (dy: string, name: string): string => g.node('MatMul', [dy, weight(name)]);

  /** y = w·x·r with r = (mean x² + ε)^−½, along the last axis: dx = r·(w·dy − x·r²·mean(w·dy·x)) */
  const norm = (x: string, name: string, dy: string): string => {
    const mean = (t: string) => g.node('ReduceMean', [t, g.ints([-1])], { keepdims: 1 });
    const square = add(mean(mul(x, x)), g.float(arch.rmsNormEps)); // 1/r²
    const scaled = mul(dy, weight(name));
    const along = g.node('Div', [mean(mul(scaled, x)), square]);
    const across = g.node('Sub', [scaled, mul(x, along)]);
    return g.node('Div', [across, g.node('Sqrt', [square])]);
  };
  /** the same of each head of x [S,heads·hd] */
  const normHeads = (x: string, name: string, dy: string): string => {
    const apart = (t: string) => g.node('Reshape', [t, g.ints([-1, headDim])]);
    return g.node('Reshape', [norm(apart(x), name, apart(dy)), g.node('Shape', [x])]);
  };

  return {
    norm,
    /** @param dout [S,d] @returns [S,d] the gradient with respect to the layer's input */
    layer(i: number, kept: LayerNodes, dout: string): string {
      const at = `model.layers.${i}`;
      const { x, y, gate, up, queries, keys, values, attention, mixed } = kept;

      // SwiGLU: silu(g) = g·s, s = sigmoid(g), silu′(g) = s·(1 + g·(1 − s))
      const dproduct = linear(dout, `${at}.mlp.down_proj.weight`);
      const s = g.node('Sigmoid', [gate]);
      const slope = mul(s, add(g.float(1), mul(gate, g.node('Sub', [g.float(1), s]))));
      const dgate = linear(mul(mul(dproduct, up), slope), `${at}.mlp.gate_proj.weight`);
      const dup = linear(mul(dproduct, mul(gate, s)), `${at}.mlp.up_proj.weight`);
      const dy = add(dout, norm(y, `${at}.post_attention_layernorm.weight`, add(dgate, dup)));

      // attention: P = softmax(α Q Kᵀ), mixed = P V
      const dmixed = grouped(perHead(linear(dy, `${at}.self_attn.o_proj.weight`), heads)); // [G,R,hd]
      const dvalues = g.node('FusedMatMul', [attention, dmixed], { transA: 1 }, MICROSOFT); // [G,S,hd]
      const dattention = g.node('FusedMatMul', [dmixed, values], { transB: 1 }, MICROSOFT); // [G,R,S]
      // Σ_j P_j dP_j of a row is Σ mixed · dmixed
      const rowSums = g.node('ReduceSum', [mul(dmixed, mixed), g.ints([2])], { keepdims: 1 }); // [G,R,1]
      const dscores = mul(attention, g.node('Sub', [dattention, rowSums]));
      const alpha = { float: 1 / Math.sqrt(headDim) };
      const dqueries = g.node('FusedMatMul', [dscores, keys], { alpha }, MICROSOFT); // [G,R,hd]
      const dkeys = g.node('FusedMatMul', [dscores, queries], { transA: 1, alpha }, MICROSOFT); // [G,S,hd]
      const unrotated = (t: string) => flat(rotate(t, true));
      const [dq, dk] = [unrotated(ungrouped(dqueries)), unrotated(dkeys)];
      const unnormed = (letter: 'q' | 'k', dt: string) =>
        qkNorm ? normHeads(kept[letter], `${at}.self_attn.${letter}_norm.weight`, dt) : dt;
      const projected = [
        linear(unnormed('q', dq), `${at}.self_attn.q_proj.weight`),
        linear(unnormed('k', dk), `${at}.self_attn.k_proj.weight`),
        linear(flat(dvalues), `${at}.self_attn.v_proj.weight`),
      ];
      const dh = projected.reduce(add);
      return add(dy, norm(x, `${at}.input_layernorm.weight`, dh));
    },
  };
}
