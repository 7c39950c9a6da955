// OLMo 2: Llama's layers with the norms behind attention and MLP, and of all query heads, and all key heads, together.
import type { Family } from '../family.js';
import { attentionOut, llama, mlp, projected } from './llama.js';

const at = (layer: number) => `model.layers.${layer}`;

export const olmo2: Family = {
  ...llama,
  project(o, layer, x) {
    const { heads, kvHeads, headDim } = o.sizes;
    const { q, k, v } = projected(o, layer, x);
    const norm = (rows: string, letter: 'q' | 'k', count: number) =>
      o.norm(rows, `${at(layer)}.self_attn.${letter}_norm.weight`, count * headDim);
    return { q: norm(q, 'q', heads), k: norm(k, 'k', kvHeads), v };
  },
  finish(o, layer, x, attended) {
    const out = attentionOut(o, layer, attended);
    const y = o.add(x, o.norm(out, `${at(layer)}.post_attention_layernorm.weight`));
    return o.add(y, o.norm(mlp(o, layer, y), `${at(layer)}.post_feedforward_layernorm.weight`));
  },
};
