// A policy of random weights, small and of odd sizes, built as a user's checkpoint would be.
import { join } from 'node:path';
import { buildPolicyFolder } from '../../dist/model/onnx/build.js';
import type { PolicyFolder } from '../../dist/model/onnx/folder.js';
import { type Json, LLAMA, writeCheckpoint } from './checkpoints.js';

/** Heads of 8 dimensions (ONNX Runtime's attention rotates multiples of 16 alone), 3 queries a key, a head of its own. */
const CONFIG = {
  ...LLAMA,
  ...{ vocab_size: 259, hidden_size: 36, intermediate_size: 50, num_hidden_layers: 3 },
  ...{ num_key_value_heads: 2, head_dim: 8, max_position_embeddings: 4096 },
};

/** Delta nets with three value heads a key head around full attention: what is different in a config of Qwen3.5. */
export const DELTA = {
  ...{ architectures: ['Qwen3_5ForCausalLM'], partial_rotary_factor: 0.5 },
  layer_types: ['linear_attention', 'full_attention', 'linear_attention'],
  ...{ linear_num_key_heads: 2, linear_num_value_heads: 6, linear_conv_kernel_dim: 4 },
  ...{ linear_key_head_dim: 10, linear_value_head_dim: 7 },
};

/** Writes a checkpoint of random weights with the embedded policy's tokenizer, and builds its policy folder. */
export async function randomPolicy(folder: string, seed: number, more: Json = {}): Promise<PolicyFolder> {
  const checkpoint = writeCheckpoint(join(folder, 'checkpoint'), { ...CONFIG, ...more }, { seed, size: 1 });
  return buildPolicyFolder(checkpoint, join(folder, 'policy'), { close: '</think>', open: '', closer: '\n' });
}
