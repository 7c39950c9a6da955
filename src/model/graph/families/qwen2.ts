// Qwen2 and Qwen2.5: Llama's layers with biases on q, k and v, which no field of config.json names; some layers may see a window.
import type { Family } from '../family.js';
import { llama, projections, windowsOnRequest } from './llama.js';

export const qwen2: Family = {
  ...llama,
  defaults: { kvHeads: 32, slidingWindow: 4096 },
  windows: windowsOnRequest,
  project: (o, layer, x) => projections(o, layer, x, true),
};
