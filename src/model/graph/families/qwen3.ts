// Qwen3: Llama's layers, of which every query and key head is RMS-normalised before its rotation; some layers may see a window.
import type { Family } from '../family.js';
import { llama, projections, windowsOnRequest } from './llama.js';

export const qwen3: Family = {
  ...llama,
  defaults: { kvHeads: 32, headDim: 128, slidingWindow: 4096 },
  windows: windowsOnRequest,
  project(o, layer, x) {
    const { q, k, v } = projections(o, layer, x);
    const at = `model.layers.${layer}.self_attn`;
    return {
      q: o.normHeads(q, `${at}.q_norm.weight`, o.sizes.heads),
      k: o.normHeads(k, `${at}.k_norm.weight`, o.sizes.kvHeads),
      v,
    };
  },
};
