// SmolLM3: Llama's layers, some of which, every fourth if the config does not say, read no positions.
import type { Family } from '../family.js';
import { llama } from './llama.js';

export const smollm3: Family = {
  ...llama,
  defaults: { kvHeads: 4, tiedHead: true },
  windows: unrotatedWindows,
  unrotated: isUnrotated,
};

type SmolConfig = Parameters<NonNullable<Family['unrotated']>>[0];

function isUnrotated({ no_rope_layers: rotated, no_rope_layer_interval: every }: SmolConfig) {
  return (layer: number): boolean => (rotated ? rotated[layer] === 0 : (layer + 1) % every === 0);
}

/** Those that `layer_types` names, else the ones without positions; none unless windows are switched on. */
function unrotatedWindows(config: SmolConfig) {
  const { use_sliding_window, layer_types } = config;
  const isOne = isUnrotated(config);
  return (layer: number): boolean =>
    use_sliding_window && (layer_types ? layer_types[layer] === 'sliding_attention' : isOne(layer));
}
