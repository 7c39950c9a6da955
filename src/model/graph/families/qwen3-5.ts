// Qwen3.5 and 3.6, dense and with experts: gated delta nets (arXiv 2412.06464) in three of four layers; full attention with an output gate in the others.
import type { DeltaSizes, Family, Operators } from '../family.js';
import { feedForward } from '../mixture.js';
import { attentionOut, llama } from './llama.js';

const at = (layer: number) => `model.layers.${layer}`;
const deltaOf = ({ sizes }: Operators) => sizes.delta as DeltaSizes;
const normed = (o: Operators, layer: number, x: string) => o.norm(x, `${at(layer)}.input_layernorm.weight`);

/** What a delta net adds to x. @param read [N,valueHeads·valueDim] of its state */
function deltaOut(o: Operators, layer: number, x: string, read: string): string {
  const { hidden } = o.sizes;
  const { valueHeads, valueDim } = deltaOf(o);
  const own = `${at(layer)}.linear_attn`;
  const width = valueHeads * valueDim;
  const gate = o.silu(o.linear(normed(o, layer, x), `${own}.in_proj_z`, [width, hidden]));
  const heads = o.normHeads(read, `${own}.norm.weight`, valueHeads, valueDim, false);
  return o.linear(o.multiply(heads, gate), `${own}.out_proj`, [hidden, width]);
}

export const qwen35: Family = {
  ...llama,
  defaults: { kvHeads: 4, headDim: 256, rotated: 0.25 },
  addsOneToNorms: true,
  unread: /^(model\.visual|mtp)\./,
  project(o, layer, x) {
    const { heads, kvHeads, headDim, hidden } = o.sizes;
    const own = `${at(layer)}.self_attn`;
    const h = normed(o, layer, x);
    const of = (letter: 'q' | 'k' | 'v', size: number) =>
      o.linear(h, `${own}.${letter}_proj`, [size, hidden]);
    // of each head its query, and the gate of what it attends to
    const both = of('q', heads * 2 * headDim);
    return {
      q: o.normHeads(o.half(both, 0), `${own}.q_norm.weight`, heads),
      k: o.normHeads(of('k', kvHeads * headDim), `${own}.k_norm.weight`, kvHeads),
      v: of('v', kvHeads * headDim),
      gate: o.half(both, 1),
    };
  },
  delta: {
    layers:
      ({ layer_types: types, full_attention_interval: every }) =>
      (layer) =>
        types ? types[layer] === 'linear_attention' : (layer + 1) % every !== 0,
    read: normed,
    project(o, layer, h) {
      const { keyHeads, keyDim, valueHeads, valueDim, taps } = deltaOf(o);
      const own = `${at(layer)}.linear_attn`;
      const channels = 2 * keyHeads * keyDim + valueHeads * valueDim;
      const of = (name: string, size: number) => o.linear(h, `${own}.${name}`, [size, o.sizes.hidden]);
      return {
        mixed: of('in_proj_qkv', channels),
        rate: of('in_proj_b', valueHeads),
        decay: o.add(of('in_proj_a', valueHeads), o.weight(`${own}.dt_bias`, [valueHeads])),
        logSpeed: o.weight(`${own}.A_log`, [valueHeads]),
        taps: o.weight(`${own}.conv1d.weight`, [channels, 1, taps]),
      };
    },
  },
  finish(o, layer, x, attended) {
    const isDelta = o.sizes.delta?.layers.includes(layer);
    const y = o.add(x, isDelta ? deltaOut(o, layer, x, attended) : attentionOut(o, layer, attended));
    return o.add(y, feedForward(o, layer, o.norm(y, `${at(layer)}.post_attention_layernorm.weight`)));
  },
};

export const qwen35Moe: Family = {
  ...qwen35,
  hasExperts: 'shared',
  defaults: { ...qwen35.defaults, kvHeads: 2, normalized: true },
};
