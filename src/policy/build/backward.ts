// The backward pass of one layer in plain nodes: reverse mode, written out for the layers that the policies have.
import type { Architecture } from './architecture.js';
import { FAMILIES } from './families.js';
import { type LayerNodes, MICROSOFT, type SequenceLayers } from './forward.js';
import type { WeightSource } from './layers.js';
import type { Graph } from './onnx.js';

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
