// Qwen3.5 and 3.6, dense and with experts: gated delta nets (arXiv 2412.06464) in three of four layers; full attention with an output gate in the others.
import type { DeltaSizes, Family, Operators } from '../family.js';
import { attentionOut, feedForward, llama } from './llama.js';

const deltaOf = ({ sizes }: Operators) => sizes.delta as DeltaSizes;
const normed = (o: Operators, x: string) => o.norm(x, 'input_layernorm');

/** What a delta net adds to x. @param read [N,valueHeads·valueDim] of its state */
function deltaOut(o: Operators, x: string, read: string): string {
  const { hidden } = o.sizes;
  const { valueHeads, valueDim } = deltaOf(o);
  const width = valueHeads * valueDim;
  const gate = o.silu(o.linear(normed(o, x), 'linear_attn.in_proj_z', [width, hidden]));
  const heads = o.normHeads(read, 'linear_attn.norm', valueHeads, valueDim, false);
  return o.linear(o.multiply(heads, gate), 'linear_attn.out_proj', [hidden, width]);
}

export const qwen35: Family = {
  ...llama,
  defaults: { kvHeads: 4, headDim: 256, rotated: 0.25 },
  addsOneToNorms: true,
  unread: /^(model\.visual|mtp)\./,
  project(o, x) {
    const { heads, kvHeads, headDim, hidden } = o.sizes;
    const h = normed(o, x);
    const of = (letter: 'q' | 'k' | 'v', size: number) =>
      o.linear(h, `self_attn.${letter}_proj`, [size, hidden]);
    // of each head its query, and the gate of what it attends to
    const both = of('q', heads * 2 * headDim);
    return {
      q: o.normHeads(o.half(both, 0), 'self_attn.q_norm', heads),
      k: o.normHeads(of('k', kvHeads * headDim), 'self_attn.k_norm', kvHeads),
      v: of('v', kvHeads * headDim),
      gate: o.half(both, 1),
    };
  },
  delta: {
    layers: ({ layer_types: types, full_attention_interval: every }, layer) =>
      types ? types[layer] === 'linear_attention' : (layer + 1) % every !== 0,
    read: normed,
    project(o, h) {
      const { keyHeads, keyDim, valueHeads, valueDim, taps } = deltaOf(o);
      const channels = 2 * keyHeads * keyDim + valueHeads * valueDim;
      const of = (name: string, size: number) => o.linear(h, `linear_attn.${name}`, [size, o.sizes.hidden]);
      return {
        mixed: of('in_proj_qkv', channels),
        rate: of('in_proj_b', valueHeads),
        decay: o.add(of('in_proj_a', valueHeads), o.weight('linear_attn.dt_bias', [valueHeads])),
        logSpeed: o.weight('linear_attn.A_log', [valueHeads]),
        taps: o.weight('linear_attn.conv1d.weight', [channels, 1, taps]),
      };
    },
  },
  finish(o, x, attended) {
    const isDelta = o.sizes.delta?.layers.includes(o.layer);
    const y = o.add(x, isDelta ? deltaOut(o, x, attended) : attentionOut(o, attended));
    return o.add(y, feedForward(o, o.norm(y, 'post_attention_layernorm')));
  },
};

export const qwen35Moe: Family = {
  ...qwen35,
  hasExperts: 'shared',
  defaults: { ...qwen35.defaults, kvHeads: 2, normalized: true },
};
