// Llama: RMS norms before attention and MLP, no biases, SwiGLU; the other families are this one with a difference.
import type { Family, LayerRule, Operators } from '../family.js';

export const llama: Family = {
  defaults: {},
  embed: (o, ids) => o.rowsOf('embed_tokens.weight', [o.sizes.vocab, o.sizes.hidden], ids),
  project: (o, x) => projections(o, x),
  finish(o, x, attended) {
    const y = o.add(x, attentionOut(o, attended));
    return o.add(y, feedForward(o, o.norm(y, 'post_attention_layernorm')));
  },
  last: (o, x) => o.norm(x, 'norm'),
};

/** The norm and the three projections of a layer. @param hasBias of these */
export function projections(o: Operators, x: string, hasBias = false) {
  return projected(o, o.norm(x, 'input_layernorm'), hasBias);
}

/** Those of rows as they are. */
export function projected(o: Operators, h: string, hasBias = false) {
  const { heads, kvHeads, headDim, hidden } = o.sizes;
  const of = (letter: 'q' | 'k' | 'v', count: number) =>
    o.linear(h, `self_attn.${letter}_proj`, [count * headDim, hidden], hasBias);
  return { q: of('q', heads), k: of('k', kvHeads), v: of('v', kvHeads) };
}

/** What a layer's attention adds to x. */
export function attentionOut(o: Operators, attended: string): string {
  const { heads, headDim, hidden } = o.sizes;
  return o.linear(attended, 'self_attn.o_proj', [hidden, heads * headDim]);
}

/** What a layer's experts, some for each token and perhaps one for all, make of rows h [N,d]; of a dense layer its MLP. */
export function feedForward(o: Operators, h: string): string {
  const { mixture, hidden } = o.sizes;
  if (!mixture?.layers.includes(o.layer)) return mlp(o, h);
  const { experts, intermediate } = mixture;
  const chosen = o.experts(h, {
    ...mixture,
    router: ['mlp.gate.weight', [experts, hidden]],
    gateUp: ['mlp.experts.gate_up_interleaved', [experts, 2 * intermediate, hidden]],
    down: ['mlp.experts.down_proj', [experts, hidden, intermediate]],
  });
  if (mixture.shared === undefined) return chosen;
  const share = o.sigmoid(o.linear(h, 'mlp.shared_expert_gate', [1, hidden])); // [N,1]
  return o.add(chosen, o.multiply(mlp(o, h, 'mlp.shared_expert', mixture.shared), share));
}

/** What a layer's MLP makes of rows h. @param name and inner size of it */
export function mlp(o: Operators, h: string, name = 'mlp', intermediate = o.sizes.intermediate): string {
  const { hidden } = o.sizes;
  const gate = o.linear(h, `${name}.gate_proj`, [intermediate, hidden]);
  const mixed = o.multiply(o.silu(gate), o.linear(h, `${name}.up_proj`, [intermediate, hidden]));
  return o.linear(mixed, `${name}.down_proj`, [hidden, intermediate]);
}

/** Where windows are switched on those that `layer_types` names, else those of a family's own rule. */
export const windowsOnRequest =
  (own: LayerRule): LayerRule =>
  (config, layer) =>
    config.use_sliding_window &&
    (config.layer_types ? config.layer_types[layer] === 'sliding_attention' : own(config, layer));

export const fromMaxWindowLayers = windowsOnRequest((config, layer) => layer >= config.max_window_layers);
