// Llama: RMS norms before attention and MLP, no biases, SwiGLU; the other families are this one with a difference.
import type { Family, Operators } from '../family.js';

const at = (layer: number) => `model.layers.${layer}`;

export const llama: Family = {
  defaults: {},
  embedding: 'model.embed_tokens.weight',
  head: 'lm_head.weight',
  embed: (o, ids) => o.rowsOf('model.embed_tokens.weight', [o.sizes.vocab, o.sizes.hidden], ids),
  project: projections,
  finish(o, layer, x, attended) {
    const { heads, headDim, hidden, intermediate } = o.sizes;
    const wide = [intermediate, hidden] as const;
    const y = o.add(x, o.linear(attended, `${at(layer)}.self_attn.o_proj`, [hidden, heads * headDim]));
    const h = o.norm(y, `${at(layer)}.post_attention_layernorm.weight`);
    const gate = o.linear(h, `${at(layer)}.mlp.gate_proj`, wide);
    const mixed = o.multiply(o.silu(gate), o.linear(h, `${at(layer)}.mlp.up_proj`, wide));
    return o.add(y, o.linear(mixed, `${at(layer)}.mlp.down_proj`, [hidden, intermediate]));
  },
  last: (o, x) => o.norm(x, 'model.norm.weight'),
};

/** The norm and the three projections of a layer. @param hasBias of these */
export function projections(o: Operators, layer: number, x: string, hasBias = false) {
  const { heads, kvHeads, headDim, hidden } = o.sizes;
  const h = o.norm(x, `${at(layer)}.input_layernorm.weight`);
  const projected = (letter: 'q' | 'k' | 'v', count: number) =>
    o.linear(h, `${at(layer)}.self_attn.${letter}_proj`, [count * headDim, hidden], hasBias);
  return { q: projected('q', heads), k: projected('k', kvHeads), v: projected('v', kvHeads) };
}
