// Writes random Llama checkpoints of a chosen shape, for measurements: the weights mean nothing, the arithmetic is real.
import { copyFile, mkdir, open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArchitecture } from '../dist/policy/build/architecture.js';
import { expectedWeights } from '../dist/policy/build/graphs.js';
import { buildPolicyFolder } from '../dist/policy/run/build-policy.js';

const EMBEDDED = fileURLToPath(new URL('../models/embedded', import.meta.url));

/** The shape that most rows of the table use: four layers, a head that is about half of a pass at T = 4096. */
export const SMALL = {
  num_hidden_layers: 4,
  hidden_size: 256,
  num_attention_heads: 8,
  num_key_value_heads: 4,
  intermediate_size: 768,
  vocab_size: 32_000,
};

/** The shape of Qwen2.5-0.5B, without the biases of its queries, keys and values. */
export const HALF_B = {
  num_hidden_layers: 24,
  hidden_size: 896,
  num_attention_heads: 14,
  num_key_value_heads: 2,
  intermediate_size: 4864,
  vocab_size: 151_936,
};

/** The shapes of Qwen2.5-1.5B, without biases, and of Llama-3.1-8B. */
export const ONE_AND_A_HALF_B = {
  num_hidden_layers: 28,
  hidden_size: 1536,
  num_attention_heads: 12,
  num_key_value_heads: 2,
  intermediate_size: 8960,
  vocab_size: 151_936,
};
export const EIGHT_B = {
  num_hidden_layers: 32,
  hidden_size: 4096,
  num_attention_heads: 32,
  num_key_value_heads: 8,
  intermediate_size: 14_336,
  vocab_size: 128_256,
  tie_word_embeddings: false,
};

/** Builds a policy folder with random weights. @param dtype F32 or BF16 @returns its path */
export async function randomPolicy(folder, shape, dtype = 'F32') {
  const config = {
    architectures: ['LlamaForCausalLM'],
    max_position_embeddings: 131_072,
    rms_norm_eps: 1e-5,
    rope_theta: 10_000,
    tie_word_embeddings: true,
    ...shape,
  };
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'config.json'), JSON.stringify(config));
  for (const name of ['tokenizer.json', 'tokenizer_config.json'])
    await copyFile(join(EMBEDDED, name), join(folder, name));
  await writeRandomWeights(
    join(folder, 'model.safetensors'),
    expectedWeights(parseArchitecture(config, 'bench')),
    dtype,
  );
  await buildPolicyFolder(folder, folder, { close: '\n', open: '', closer: '\n' });
  return folder;
}

/** Seeded weights, one tensor in memory at a time: norms are 1, the rest has the variance that keeps activations near 1. */
async function writeRandomWeights(path, shapes, dtype) {
  const header = {};
  let offset = 0;
  for (const [name, shape] of shapes) {
    const length = (dtype === 'F32' ? 4 : 2) * shape.reduce((a, b) => a * b, 1);
    header[name] = { dtype, shape, data_offsets: [offset, offset + length] };
    offset += length;
  }
  const text = Buffer.from(JSON.stringify(header));
  const padded = Buffer.concat([text, Buffer.alloc((64 - ((8 + text.length) % 64)) % 64, ' ')]);
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(padded.length));
  const file = await open(path, 'w');
  await file.write(size);
  await file.write(padded);
  const random = mulberry32(1);
  for (const [, shape] of shapes) {
    const values = new Float32Array(shape.reduce((a, b) => a * b, 1));
    const scale = Math.sqrt(3 / (shape[1] ?? 1));
    for (let i = 0; i < values.length; i++) values[i] = shape.length === 1 ? 1 : (2 * random() - 1) * scale;
    await file.write(new Uint8Array(dtype === 'F32' ? values.buffer : upperHalves(values).buffer));
  }
  await file.close();
}

/** Floats as bfloat16: the upper 16 bits of each, little-endian. */
function upperHalves(values) {
  const halves = new Uint16Array(values.buffer);
  const upper = new Uint16Array(values.length);
  for (let i = 0; i < upper.length; i++) upper[i] = halves[2 * i + 1];
  return upper;
}

/** A small seeded generator of numbers in [0, 1) (mulberry32). */
export function mulberry32(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}
