// Qwen3: Llama's layers, of which every query and key head is RMS-normalised before its rotation; some layers may see a window.
import type { Family } from '../family.js';
import { fromMaxWindowLayers, llama, projections } from './llama.js';

export const qwen3: Family = {
  ...llama,
  defaults: { kvHeads: 32, headDim: 128, slidingWindow: 4096 },
  windows: fromMaxWindowLayers,
  project(o, x) {
    const { heads, kvHeads } = o.sizes;
    const { q, k, v } = projections(o, x);
    const normed = (rows: string, letter: 'q' | 'k', count: number) =>
      o.normHeads(rows, `self_attn.${letter}_norm`, count);
    return { q: normed(q, 'q', heads), k: normed(k, 'k', kvHeads), v };
  },
};
