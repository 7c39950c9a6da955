// SmolLM3: Llama's layers, some of which, every fourth if the config does not say, read no positions; these may see a window.
import type { Family, LayerRule } from '../family.js';
import { llama, windowsOnRequest } from './llama.js';

const isUnrotated: LayerRule = ({ no_rope_layers: rotated, no_rope_layer_interval: every }, layer) =>
  rotated ? rotated[layer] === 0 : (layer + 1) % every === 0;

export const smollm3: Family = {
  ...llama,
  defaults: { kvHeads: 4, tiedHead: true },
  windows: windowsOnRequest(isUnrotated),
  unrotated: isUnrotated,
};
