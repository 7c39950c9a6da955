// Qwen2 and Qwen2.5: Llama's layers with biases on q, k and v, which no field of config.json names; some layers may see a window.
import type { Family, WindowConfig } from '../family.js';
import { llama, projections } from './llama.js';

export const qwen2: Family = {
  ...llama,
  defaults: { kvHeads: 32, slidingWindow: 4096 },
  windows: windowsOnRequest,
  project: (o, layer, x) => projections(o, layer, x, true),
};

/** Those that `layer_types` names, else those from `max_window_layers` on; none unless windows are switched on. */
export function windowsOnRequest({ use_sliding_window, layer_types, max_window_layers }: WindowConfig) {
  return (layer: number): boolean => {
    if (!use_sliding_window) return false;
    return layer_types ? layer_types[layer] === 'sliding_attention' : layer >= max_window_layers;
  };
}
