// Qwen2-MoE: Qwen2's layers, most or all of which have experts, one of them for all tokens; every other layer may see a window.
import type { Family } from '../family.js';
import { qwen2 } from './qwen2.js';
import { finishWithExperts } from './qwen3-moe.js';

export const qwen2Moe: Family = {
  ...qwen2,
  hasExperts: 'shared',
  defaults: { kvHeads: 16, slidingWindow: 4096 },
  windows:
    ({ use_sliding_window, layer_types, max_window_layers }) =>
    (layer) =>
      use_sliding_window &&
      (layer_types
        ? layer_types[layer] === 'sliding_attention'
        : layer % 2 === 0 && layer < max_window_layers),
  finish: finishWithExperts,
};
