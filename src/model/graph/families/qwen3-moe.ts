// Qwen3-MoE: Qwen3's layers, most or all of which have experts; all of them see a window where config.json switches it on.
import type { Family } from '../family.js';
import { qwen3 } from './qwen3.js';

export const qwen3Moe: Family = {
  ...qwen3,
  hasExperts: 'chosen',
  defaults: { kvHeads: 4, slidingWindow: 4096 },
  windows: (config) => config.use_sliding_window,
};
