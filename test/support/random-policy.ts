// A policy of random weights, small and of odd sizes, built as a user's checkpoint would be.
import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Architecture, parseArchitecture } from '../../dist/policy/build/architecture.js';
import { expectedWeights } from '../../dist/policy/build/graphs.js';
import type { PolicyFolder } from '../../dist/policy/folder.js';
import { buildPolicyFolder } from '../../dist/policy/run/build.js';
import { seeded } from '../oracle/toy.js';
import { EMBEDDED } from './program.js';

/** Heads of 8 dimensions (ONNX Runtime's attention rotates multiples of 16 alone), 3 queries a key, a head of its own. */
const CONFIG = {
  architectures: ['LlamaForCausalLM'],
  vocab_size: 259,
  hidden_size: 36,
  intermediate_size: 50,
  num_hidden_layers: 3,
  num_attention_heads: 6,
  num_key_value_heads: 2,
  head_dim: 8,
  max_position_embeddings: 4096,
  rms_norm_eps: 1e-6,
  rope_theta: 500,
  tie_word_embeddings: false,
};

/** Writes a checkpoint of random weights with the embedded policy's tokenizer, and builds its policy folder. */
export async function randomPolicy(folder: string, seed: number): Promise<PolicyFolder> {
  const checkpoint = join(folder, 'checkpoint');
  await mkdir(checkpoint, { recursive: true });
  await writeFile(join(checkpoint, 'config.json'), JSON.stringify(CONFIG));
  for (const name of ['tokenizer.json', 'tokenizer_config.json'])
    await copyFile(join(EMBEDDED, name), join(checkpoint, name));
  const weights = randomWeights(parseArchitecture(CONFIG, 'config.json'), seed);
  await writeFile(join(checkpoint, 'model.safetensors'), weights);
  return buildPolicyFolder(checkpoint, join(folder, 'policy'), { close: '</think>', open: '', closer: '\n' });
}

/** A safetensors file: activations of about unit size in every layer, logits of about 2. */
function randomWeights(arch: Architecture, seed: number): Buffer {
  const random = seeded(seed);
  const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const header: Record<string, unknown> = {};
  const data: Buffer[] = [];
  let offset = 0;
  for (const [name, shape] of expectedWeights(arch)) {
    const size = shape.reduce((a, b) => a * b, 1);
    const width = name.startsWith('model.embed') ? 1 : Math.sqrt(shape[1] ?? 1);
    const scale = (name === 'lm_head.weight' ? 2 : 1) / width;
    const values = Float32Array.from({ length: size }, () =>
      shape.length === 1 ? 1 + 0.2 * normal() : scale * normal(),
    );
    header[name] = { dtype: 'F32', shape, data_offsets: [offset, offset + 4 * size] };
    offset += 4 * size;
    data.push(Buffer.from(values.buffer));
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, ...data]);
}
