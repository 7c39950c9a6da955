// Qwen2 and Qwen2.5: Llama's layers with biases on q, k and v, which no field of config.json names; some layers may see a window.
import type { Family } from '../family.js';
import { fromMaxWindowLayers, llama, projections } from './llama.js';

export const qwen2: Family = {
  ...llama,
  defaults: { kvHeads: 32, slidingWindow: 4096 },
  windows: fromMaxWindowLayers,
  project: (o, x) => projections(o, x, true),
};
