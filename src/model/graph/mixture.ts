// The feed-forward part of a layer in a family with experts: dense, or of some experts for each token, and one for all.
import { mlp } from './families/llama.js';
import type { Operators } from './family.js';

/** What it makes of rows h [N,d]. */
export function feedForward(o: Operators, layer: number, h: string): string {
  const { mixture, hidden } = o.sizes;
  if (!mixture?.layers.includes(layer)) return mlp(o, layer, h);
  const at = `model.layers.${layer}.mlp`;
  const chosen = o.experts(h, mixture, [`${at}.gate`, `${at}.experts`]);
  if (mixture.shared === undefined) return chosen;
  const share = o.sigmoid(o.linear(h, `${at}.shared_expert_gate`, [1, hidden])); // [N,1]
  return o.add(chosen, o.multiply(mlp(o, layer, h, 'mlp.shared_expert', mixture.shared), share));
}
