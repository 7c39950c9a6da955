// Qwen2-MoE: Qwen2's layers, most or all of which have experts, one of them for all tokens; every other layer may see a window.
import type { Family } from '../family.js';
import { windowsOnRequest } from './llama.js';
import { qwen2 } from './qwen2.js';

export const qwen2Moe: Family = {
  ...qwen2,
  hasExperts: 'shared',
  defaults: { kvHeads: 16, slidingWindow: 4096 },
  windows: windowsOnRequest((config, layer) => layer % 2 === 0 && layer < config.max_window_layers),
};
