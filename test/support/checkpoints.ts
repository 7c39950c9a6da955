/** Small random checkpoints of every family, written as Hugging Face lays them out. */
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { seeded } from '../oracle/toy.js';
import { EMBEDDED } from './program.js';

export type Json = Record<string, unknown>;
export type TensorType = 'F32' | 'F16' | 'BF16';

export interface TestTensor {
  readonly dtype: TensorType;
  readonly shape: readonly number[];
  readonly bytes: Buffer;
}

/** Odd sizes throughout: 6 heads on 3, hidden apart from heads × head_dim, a prime vocabulary. */
export const LLAMA: Json = {
  ...{ architectures: ['LlamaForCausalLM'], hidden_act: 'silu', tie_word_embeddings: false },
  ...{ num_hidden_layers: 2, num_attention_heads: 6, num_key_value_heads: 3 },
  ...{ hidden_size: 44, head_dim: 10, intermediate_size: 53, vocab_size: 131 },
  ...{ max_position_embeddings: 256, rms_norm_eps: 1e-6, rope_theta: 500 },
};

/** Whether a layer has experts: every so-and-so-manieth, but for those that are named. */
function isSparse(config: Json, layer: number): boolean {
  const every = (config.decoder_sparse_step as number | undefined) ?? 1;
  const dense = (config.mlp_only_layers as number[] | undefined) ?? [];
  return config.num_experts !== undefined && (layer + 1) % every === 0 && !dense.includes(layer);
}

/** Tensor names and shapes by the family's published layout. */
function shapesOf(config: Json): [string, number[]][] {
  const [family] = config.architectures as string[];
  const size = (key: string) => config[key] as number;
  const d = size('hidden_size');
  const hd = (config.head_dim as number | undefined) ?? d / size('num_attention_heads');
  const [q, kv, f, v] = [
    size('num_attention_heads') * hd,
    ((config.num_key_value_heads as number | undefined) ?? size('num_attention_heads')) * hd,
    size('intermediate_size'),
    size('vocab_size'),
  ];
  const shapes: [string, number[]][] = [['model.embed_tokens.weight', [v, d]]];
  for (let i = 0; i < size('num_hidden_layers'); i++) {
    const at = `model.layers.${i}`;
    const isOlmo = family === 'Olmo2ForCausalLM';
    for (const name of ['post_attention', isOlmo ? 'post_feedforward' : 'input'])
      shapes.push([`${at}.${name}_layernorm.weight`, [d]]);
    if ((config.layer_types as string[] | undefined)?.[i] === 'linear_attention') {
      shapes.push(...deltaShapes(config, `${at}.linear_attn`));
      for (const name of ['gate', 'up']) shapes.push([`${at}.mlp.${name}_proj.weight`, [f, d]]);
      shapes.push([`${at}.mlp.down_proj.weight`, [d, f]]);
      continue;
    }
    const isGated = family === 'Qwen3_5ForCausalLM';
    const isFused = family === 'Phi3ForCausalLM';
    if (isFused)
      shapes.push(
        [`${at}.self_attn.qkv_proj.weight`, [q + 2 * kv, d]],
        [`${at}.mlp.gate_up_proj.weight`, [2 * f, d]],
      );
    for (const [letter, rows] of isFused
      ? []
      : ([
          ['q', isGated ? 2 * q : q],
          ['k', kv],
          ['v', kv],
        ] as const)) {
      shapes.push([`${at}.self_attn.${letter}_proj.weight`, [rows, d]]);
      if (family === 'Qwen2ForCausalLM' || family === 'Qwen2MoeForCausalLM')
        shapes.push([`${at}.self_attn.${letter}_proj.bias`, [rows]]);
      if ((family === 'Qwen3ForCausalLM' || family === 'Qwen3MoeForCausalLM' || isGated) && letter !== 'v')
        shapes.push([`${at}.self_attn.${letter}_norm.weight`, [hd]]);
      if (isOlmo && letter !== 'v') shapes.push([`${at}.self_attn.${letter}_norm.weight`, [rows]]);
    }
    shapes.push([`${at}.self_attn.o_proj.weight`, [d, q]]);
    const mlp = (of: string, inner: number, names = ['gate', 'up']) => {
      shapes.push([`${of}.down_proj.weight`, [d, inner]]);
      for (const name of names) shapes.push([`${of}.${name}_proj.weight`, [inner, d]]);
    };
    if (!isSparse(config, i)) {
      mlp(`${at}.mlp`, f, isFused ? [] : undefined);
      continue;
    }
    shapes.push([`${at}.mlp.gate.weight`, [size('num_experts'), d]]);
    for (let e = 0; e < size('num_experts'); e++)
      mlp(`${at}.mlp.experts.${e}`, size('moe_intermediate_size'));
    if (family !== 'Qwen2MoeForCausalLM') continue;
    mlp(`${at}.mlp.shared_expert`, size('shared_expert_intermediate_size'));
    shapes.push([`${at}.mlp.shared_expert_gate.weight`, [1, d]]);
  }
  shapes.push(['model.norm.weight', [d]]);
  if ((config.tie_word_embeddings ?? family === 'SmolLM3ForCausalLM') !== true)
    shapes.push(['lm_head.weight', [v, d]]);
  return shapes;
}

function deltaShapes(config: Json, at: string): [string, number[]][] {
  const size = (key: string) => config[`linear_${key}`] as number;
  const d = config.hidden_size as number;
  const [heads, values] = [size('num_value_heads'), size('num_value_heads') * size('value_head_dim')];
  const channels = 2 * size('num_key_heads') * size('key_head_dim') + values;
  return [
    ...(
      [
        ['qkv', channels],
        ['z', values],
        ['a', heads],
        ['b', heads],
      ] as const
    ).map(([name, rows]): [string, number[]] => [`${at}.in_proj_${name}.weight`, [rows, d]]),
    [`${at}.conv1d.weight`, [channels, 1, size('conv_kernel_dim')]],
    ...['A_log', 'dt_bias'].map((name): [string, number[]] => [`${at}.${name}`, [heads]]),
    [`${at}.norm.weight`, [size('value_head_dim')]],
    [`${at}.out_proj.weight`, [d, values]],
  ];
}

/** Random tensors of a config: matrices that keep a row's size, norms around one, biases that matter. */
export function randomTensors(
  config: Json,
  dtype: TensorType,
  { seed = 1, size = 1.4 }: Pick<CheckpointOptions, 'seed' | 'size'> = {},
): Map<string, TestTensor> {
  const random = seeded(seed);
  const normal = () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
  const tensors = new Map<string, TestTensor>();
  for (const [name, shape] of shapesOf(config)) {
    const count = shape.reduce((product, n) => product * n, 1);
    const isNorm = name.includes('norm');
    const scale = isNorm ? 0.3 : shape.length === 1 ? 0.5 : size / Math.sqrt(shape[1] as number);
    // Qwen3.5 adds one to all norms but its delta nets'
    const isOffOne = config.linear_key_head_dim !== undefined && !name.includes('linear_attn');
    const middle = isNorm && !isOffOne ? 1 : 0;
    const values = Float32Array.from({ length: count }, () => middle + scale * normal());
    tensors.set(name, { dtype, shape, bytes: encoded(values, dtype) });
  }
  return tensors;
}

function encoded(values: Float32Array, dtype: TensorType): Buffer {
  const wide = Buffer.from(values.buffer);
  if (dtype === 'F32') return wide;
  const narrow = Buffer.alloc(2 * values.length);
  for (let i = 0; i < values.length; i++) {
    // bfloat16 is the upper half of a float32, here cut off; any value that the file holds will do
    const bits = dtype === 'BF16' ? wide.readUInt16LE(4 * i + 2) : half(values[i] as number);
    narrow.writeUInt16LE(bits, 2 * i);
  }
  return narrow;
}

/** binary16 bits near a number of moderate size; tiny ones become subnormals */
function half(value: number): number {
  const sign = value < 0 ? 0x8000 : 0;
  const size = Math.abs(value);
  const exponent = Math.max(-14, Math.floor(Math.log2(size)));
  if (size < 2 ** -14) return sign | Math.floor(size * 2 ** 24);
  return sign | ((exponent + 15) << 10) | Math.floor((size / 2 ** exponent - 1) * 1024);
}

export function safetensors(tensors: Iterable<readonly [string, TestTensor]>): Buffer {
  const header: Json = { __metadata__: { format: 'pt' } };
  const parts: Buffer[] = [];
  let offset = 0;
  for (const [name, { dtype, shape, bytes }] of tensors) {
    header[name] = { dtype, shape, data_offsets: [offset, offset + bytes.length] };
    offset += bytes.length;
    parts.push(bytes);
  }
  return Buffer.concat([headerBytes(JSON.stringify(header)), ...parts]);
}

/** The length field and a header text as it stands. */
export function headerBytes(text: string): Buffer {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(Buffer.byteLength(text)));
  return Buffer.concat([length, Buffer.from(text)]);
}

export interface CheckpointOptions {
  readonly dtype?: TensorType;
  /** number of files; above 1 there is an index */
  readonly shards?: number;
  readonly seed?: number;
  /** how much larger a row gets in a matrix (default: 1.4) */
  readonly size?: number;
  readonly tensors?: Map<string, TestTensor>;
}

export const SHARD = (i: number, of: number) =>
  `model-${String(i + 1).padStart(5, '0')}-of-${String(of).padStart(5, '0')}.safetensors`;

/** Writes a checkpoint with the embedded policy's byte-level tokenizer. */
export function writeCheckpoint(folder: string, config: Json, opts: CheckpointOptions = {}): string {
  const tensors = opts.tensors ?? randomTensors(config, opts.dtype ?? 'F32', opts);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
  for (const name of ['tokenizer.json', 'tokenizer_config.json'])
    copyFileSync(join(EMBEDDED, name), join(folder, name));
  const shards = opts.shards ?? 1;
  if (shards === 1) {
    writeFileSync(join(folder, 'model.safetensors'), safetensors(tensors));
    return folder;
  }
  const weight_map: Record<string, string> = {};
  for (let i = 0; i < shards; i++) {
    const own = [...tensors].filter((_, t) => t % shards === i);
    writeFileSync(join(folder, SHARD(i, shards)), safetensors(own));
    for (const [name] of own) weight_map[name] = SHARD(i, shards);
  }
  writeFileSync(join(folder, 'model.safetensors.index.json'), JSON.stringify({ metadata: {}, weight_map }));
  return folder;
}
