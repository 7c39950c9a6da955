// Granite 3: Llama's layers with four numbers: what embeddings, scores, what layers add, and logits are multiplied by.
import type { Family, Operators } from '../family.js';
import { attentionOut, llama, mlp, projections } from './llama.js';

const by = ({ sizes: { multipliers } }: Operators, name: 'embedding' | 'attention' | 'residual' | 'logits') =>
  multipliers?.[name] ?? 1;

export const granite: Family = {
  ...llama,
  hasMultipliers: true,
  embed: (o, ids) => o.scaled(llama.embed(o, ids), by(o, 'embedding')),
  project(o, x) {
    const { q, k, v } = projections(o, x);
    // in the place of 1/√headDim, by which every score is multiplied
    return { q: o.scaled(q, by(o, 'attention') * Math.sqrt(o.sizes.headDim)), k, v };
  },
  finish(o, x, attended) {
    const added = (y: string, out: string) => o.add(y, o.scaled(out, by(o, 'residual')));
    const y = added(x, attentionOut(o, attended));
    return added(y, mlp(o, o.norm(y, 'post_attention_layernorm')));
  },
  last: (o, x) => o.scaled(llama.last(o, x), by(o, 'logits')),
};
