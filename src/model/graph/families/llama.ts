// Llama: RMS norms before attention and MLP, no biases, SwiGLU; the other families are this one with a difference.
import type { Family, Operators, WindowConfig } from '../family.js';

const at = (layer: number) => `model.layers.${layer}`;

export const llama: Family = {
  defaults: {},
  embedding: 'model.embed_tokens.weight',
  head: 'lm_head.weight',
  embed: (o, ids) => o.rowsOf('model.embed_tokens.weight', [o.sizes.vocab, o.sizes.hidden], ids),
  project: projections,
  finish(o, layer, x, attended) {
    const y = o.add(x, attentionOut(o, layer, attended));
    return o.add(y, mlp(o, layer, o.norm(y, `${at(layer)}.post_attention_layernorm.weight`)));
  },
  last: (o, x) => o.norm(x, 'model.norm.weight'),
};

/** The norm and the three projections of a layer. @param hasBias of these */
export function projections(o: Operators, layer: number, x: string, hasBias = false) {
  return projected(o, layer, o.norm(x, `${at(layer)}.input_layernorm.weight`), hasBias);
}

/** Those of rows as they are. */
export function projected(o: Operators, layer: number, h: string, hasBias = false) {
  const { heads, kvHeads, headDim, hidden } = o.sizes;
  const of = (letter: 'q' | 'k' | 'v', count: number) =>
    o.linear(h, `${at(layer)}.self_attn.${letter}_proj`, [count * headDim, hidden], hasBias);
  return { q: of('q', heads), k: of('k', kvHeads), v: of('v', kvHeads) };
}

/** What a layer's attention adds to x. */
export function attentionOut(o: Operators, layer: number, attended: string): string {
  const { heads, headDim, hidden } = o.sizes;
  return o.linear(attended, `${at(layer)}.self_attn.o_proj`, [hidden, heads * headDim]);
}

/** What a layer's MLP makes of rows h. @param name and inner size of it */
export function mlp(
  o: Operators,
  layer: number,
  h: string,
  name = 'mlp',
  intermediate = o.sizes.intermediate,
): string {
  const { hidden } = o.sizes;
  const wide = [intermediate, hidden] as const;
  const gate = o.linear(h, `${at(layer)}.${name}.gate_proj`, wide);
  const mixed = o.multiply(o.silu(gate), o.linear(h, `${at(layer)}.${name}.up_proj`, wide));
  return o.linear(mixed, `${at(layer)}.${name}.down_proj`, [hidden, intermediate]);
}

/** Those that `layer_types` names, else those from `max_window_layers` on; none unless windows are switched on. */
export function windowsOnRequest({ use_sliding_window, layer_types, max_window_layers }: WindowConfig) {
  return (layer: number): boolean => {
    if (!use_sliding_window) return false;
    return layer_types ? layer_types[layer] === 'sliding_attention' : layer >= max_window_layers;
  };
}
