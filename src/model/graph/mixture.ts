// What stands behind the attention in a family with experts: some of them for each token, one for all, or a dense layer.
import { attentionOut, mlp } from './families/llama.js';
import type { Operators } from './family.js';

/** Llama's, with experts in the place of the MLP: x [N,d], attended [N,heads·hd] → [N,d]. */
export function finishWithExperts(o: Operators, layer: number, x: string, attended: string): string {
  const y = o.add(x, attentionOut(o, layer, attended));
  return o.add(y, feedForward(o, layer, o.norm(y, `model.layers.${layer}.post_attention_layernorm.weight`)));
}

/** What they make of rows h [N,d]. */
export function feedForward(o: Operators, layer: number, h: string): string {
  const { mixture, hidden } = o.sizes;
  if (!mixture?.layers.includes(layer)) return mlp(o, layer, h);
  const { experts, intermediate } = mixture;
  const at = `model.layers.${layer}.mlp`;
  const chosen = o.experts(h, {
    ...mixture,
    router: [`${at}.gate.weight`, [experts, hidden]],
    gateUp: [`${at}.experts.gate_up_interleaved`, [experts, 2 * intermediate, hidden]],
    down: [`${at}.experts.down_proj`, [experts, hidden, intermediate]],
  });
  if (mixture.shared === undefined) return chosen;
  const share = o.sigmoid(o.linear(h, `${at}.shared_expert_gate`, [1, hidden])); // [N,1]
  return o.add(chosen, o.multiply(mlp(o, layer, h, 'mlp.shared_expert', mixture.shared), share));
}
