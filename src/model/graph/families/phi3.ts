// Phi-3, Phi-4: Llama's layers with q, k and v in one matrix, and gate and up in another; all layers see a window where config.json has one.
import type { Family, Operators } from '../family.js';
import { attentionOut, llama } from './llama.js';

/** x [N,d] by some rows of a matrix that has several parts. @param sizes of all, in their order */
function parts(o: Operators, x: string, name: string, sizes: readonly number[]): string[] {
  const of = sizes.reduce((sum, size) => sum + size, 0);
  let first = 0;
  return sizes.map((size) => {
    first += size;
    return o.linear(x, name, [size, o.sizes.hidden], false, { first: first - size, of });
  });
}

export const phi3: Family = {
  ...llama,
  windows: () => true,
  project(o, x) {
    const { heads, kvHeads, headDim } = o.sizes;
    const sizes = [heads, kvHeads, kvHeads].map((count) => count * headDim);
    const [q = '', k = '', v = ''] = parts(o, o.norm(x, 'input_layernorm'), 'self_attn.qkv_proj', sizes);
    return { q, k, v };
  },
  finish(o, x, attended) {
    const { hidden, intermediate } = o.sizes;
    const y = o.add(x, attentionOut(o, attended));
    const h = o.norm(y, 'post_attention_layernorm');
    const [gate = '', up = ''] = parts(o, h, 'mlp.gate_up_proj', [intermediate, intermediate]);
    const mixed = o.multiply(o.silu(gate), up);
    return o.add(y, o.linear(mixed, 'mlp.down_proj', [hidden, intermediate]));
  },
};
