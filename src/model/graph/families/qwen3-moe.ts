// Qwen3-MoE: Qwen3's layers, most or all of which have experts; all layers see a window where config.json switches it on.
import type { Family, Operators } from '../family.js';
import { feedForward } from '../mixture.js';
import { attentionOut } from './llama.js';
import { qwen3 } from './qwen3.js';

export const qwen3Moe: Family = {
  ...qwen3,
  hasExperts: 'chosen',
  defaults: { kvHeads: 4, slidingWindow: 4096 },
  windows:
    ({ use_sliding_window }) =>
    () =>
      use_sliding_window,
  finish: finishWithExperts,
};

/** Llama's, with experts in the place of the MLP. */
export function finishWithExperts(o: Operators, layer: number, x: string, attended: string): string {
  const y = o.add(x, attentionOut(o, layer, attended));
  const h = o.norm(y, `model.layers.${layer}.post_attention_layernorm.weight`);
  return o.add(y, feedForward(o, layer, h));
}
