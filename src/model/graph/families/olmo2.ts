// OLMo 2: Llama's layers with the norms behind attention and MLP, and of all query heads, and all key heads, together.
import type { Family } from '../family.js';
import { attentionOut, llama, mlp, projected } from './llama.js';

export const olmo2: Family = {
  ...llama,
  project(o, x) {
    const { heads, kvHeads, headDim } = o.sizes;
    const { q, k, v } = projected(o, x);
    const norm = (rows: string, letter: 'q' | 'k', count: number) =>
      o.norm(rows, `self_attn.${letter}_norm`, count * headDim);
    return { q: norm(q, 'q', heads), k: norm(k, 'k', kvHeads), v };
  },
  finish(o, x, attended) {
    const y = o.add(x, o.norm(attentionOut(o, attended), 'post_attention_layernorm'));
    return o.add(y, o.norm(mlp(o, y), 'post_feedforward_layernorm'));
  },
};
