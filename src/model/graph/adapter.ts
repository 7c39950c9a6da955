// A LoRA adapter as PEFT saves it, merged into its base while the weights are written: W + s·B A, a few rows at a time.
import { type FileHandle, open, rm } from 'node:fs/promises';
import { basename, dirname, join, sep } from 'node:path';
import { z } from 'zod';
import { usageError } from '../../errors.js';
import { fromFloat16, toFloat16 } from '../onnx/float16.js';
import { fromJson, untrustedFile, untrustedText } from '../text/untrusted-files.js';
import { type Checkpoint, SINGLE } from './checkpoint.js';
import type { Dtype } from './onnx.js';
import type { Weight } from './operators.js';
import { AGAIN, readSafetensorsHeader, type StoredTensor, safetensorsHeader } from './safetensors.js';

const CONFIG = 'adapter_config.json';
const TENSORS = 'adapter_model.safetensors';

const Config = z.looseObject({
  peft_type: z.literal('LORA'),
  lora_alpha: z.number(),
  base_model_name_or_path: z.string().nullish(),
  use_rslora: z.boolean().default(false),
  /** by the ends of modules' names; patterns of another kind match nothing here, and are refused */
  alpha_pattern: z.record(z.string().regex(/^[\w.]+$/, 'is no name of a module'), z.number()).default({}),
});

/** What else changes a model, or the base that the adapter is of: values with which it does not. */
const PLAIN: Readonly<Record<string, readonly unknown[]>> = {
  ...{ bias: ['none'], use_dora: [false], lora_bias: [false], use_qalora: [false], fan_in_fan_out: [false] },
  ...{ modules_to_save: [null], trainable_token_indices: [null], layer_replication: [null] },
  init_lora_weights: [true, false, 'gaussian', 'orthogonal', 'eva'],
};

/** The two matrices of a module, and what their product is multiplied by. */
interface Delta {
  /** [r,in] */
  readonly a: StoredTensor;
  /** [out,r] */
  readonly b: StoredTensor;
  readonly scale: number;
}

/**
 * The weights of a checkpoint with an adapter merged into them, each of the type that it has there.
 * @returns weights: where each will lie; write: writes them all, and replaces what has the name, whatever that is linked to
 * @throws RredcotError (exit 2) for what is no LoRA adapter of this checkpoint, or does more than that
 */
export async function mergedWeights(folder: string, { weights: base, files }: Checkpoint) {
  const path = join(folder, CONFIG);
  const hint = `python -c "from peft import AutoPeftModelForCausalLM as P; P.from_pretrained('${folder}').merge_and_unload().save_pretrained('merged')"`;
  const text = await untrustedText(folder, CONFIG);
  if (text === undefined)
    throw usageError(`${folder}: no adapter (no ${CONFIG})`, 'the folder of an adapter');
  const config = fromJson(Config, text, path, hint);
  for (const [key, plain] of Object.entries(PLAIN)) {
    const found = config[key] ?? plain[0];
    const isNone = typeof found === 'object' && Object.keys(found ?? {}).length === 0;
    if (!isNone && !plain.includes(found))
      throw usageError(`${path}: ${key} is ${JSON.stringify(found)}: that is not merged here`, hint);
  }
  const file = await untrustedFile(folder, TENSORS);
  if (file === undefined) throw usageError(`${join(folder, TENSORS)}: no such file`, AGAIN);
  const deltas = deltasOf(file, await readSafetensorsHeader(file), config, base, hint);
  const { header, tensors } = safetensorsHeader(base);
  const weights = new Map(Array.from(tensors, ([name, each]) => [name, { ...each, location: SINGLE }]));
  return {
    weights,
    about: `${deltas.size} matrices of ${folder}, ${ofBase(config.base_model_name_or_path, files)}`,
    async write(to: string): Promise<void> {
      // a link to the base would hand on what is written
      await rm(to, { force: true });
      await using out = await open(to, 'wx');
      await using own = await open(file);
      await out.write(header);
      const opened = new Map<string, FileHandle>();
      try {
        for (const { name, path } of files) opened.set(name, await open(path));
        for (const [name, weight] of base)
          for await (const bytes of merged(
            opened.get(weight.location) as FileHandle,
            weight,
            own,
            deltas.get(name),
          ))
            await out.write(bytes);
      } finally {
        for (const each of opened.values()) await each.close();
      }
    },
  };
}

/** What model the adapter says it is of; shapes tell no more, so a folder of another name is asked about. */
function ofBase(named: string | null | undefined, files: Checkpoint['files']): string {
  const own = dirname(files[0]?.path ?? '');
  if (!named) return `an adapter that does not name its model: is it ${own}?`;
  const isOne = own.split(sep).some((part) => part.endsWith(basename(named)));
  return `an adapter of ${named}${isOne ? '' : `: is ${own} that model? Nothing here can tell`}`;
}

/** By the name of the weight that each changes. */
function deltasOf(
  file: string,
  tensors: ReadonlyMap<string, StoredTensor>,
  { lora_alpha, use_rslora, alpha_pattern }: z.infer<typeof Config>,
  base: ReadonlyMap<string, Weight>,
  hint: string,
): Map<string, Delta> {
  const deltas = new Map<string, Delta>();
  for (const [name, a] of tensors) {
    const [, module, letter] = /^base_model\.model\.(.+)\.lora_([AB])\.weight$/.exec(name) ?? [];
    if (module === undefined) throw usageError(`${file}: tensor ${name} is not merged here`, hint);
    if (letter === 'B') continue;
    const weight = `${module}.weight`;
    const b = tensors.get(name.replace(/A\.weight$/, 'B.weight'));
    const [out, width] = base.get(weight)?.shape ?? [];
    const [rank = 0] = a.shape;
    if (b?.shape.join() !== [out, rank].join() || a.shape.join() !== [rank, width].join())
      throw usageError(
        `${file}: ${name} has shape [${a.shape.join(', ')}], its B [${b?.shape.join(', ')}], and ${weight} ${out ? `[${out}, ${width}]` : 'is no matrix of the checkpoint'}`,
        'give the checkpoint that the adapter was trained on',
      );
    const own = Object.keys(alpha_pattern).find((key) => `.${module}`.endsWith(`.${key}`));
    const alpha = own === undefined ? lora_alpha : (alpha_pattern[own] as number);
    deltas.set(weight, { a, b, scale: alpha / (use_rslora ? Math.sqrt(rank) : rank) });
  }
  if (2 * deltas.size !== tensors.size || deltas.size === 0)
    throw usageError(`${file}: ${tensors.size} tensors, of which ${deltas.size} are an A with its B`, AGAIN);
  return deltas;
}

/** Numbers that are read at once. */
const BLOCK = 2 ** 22;

/** The bytes of a tensor, with what is added to it. @param own the adapter's file */
async function* merged(
  from: FileHandle,
  weight: Weight,
  own: FileHandle,
  delta?: Delta,
): AsyncGenerator<Buffer> {
  const { dtype, offset, length, shape } = weight;
  const width = shape.at(-1) as number;
  const size = length / shape.reduce((product, n) => product * n, 1);
  const [a, b] = delta ? [await numbersOf(own, delta.a), await numbersOf(own, delta.b)] : [];
  const rank = delta?.a.shape[0] ?? 0;
  const step = Math.max(1, Math.floor(BLOCK / width)) * width * size;
  for (let at = 0; at < length; at += step) {
    const bytes = Buffer.alloc(Math.min(step, length - at));
    await from.read(bytes, 0, bytes.length, offset + at);
    if (!a || !b || !delta) {
      yield bytes;
      continue;
    }
    const rows = toNumbers(bytes, dtype);
    const first = at / size / width;
    const sum = new Float64Array(width);
    for (let row = 0; row * width < rows.length; row++) {
      sum.fill(0);
      for (let j = 0; j < rank; j++) {
        const factor = delta.scale * (b[(first + row) * rank + j] as number);
        for (let i = 0; i < width; i++) sum[i] = (sum[i] as number) + factor * (a[j * width + i] as number);
      }
      for (let i = 0; i < width; i++)
        rows[row * width + i] = (rows[row * width + i] as number) + (sum[i] as number);
    }
    yield toBytes(rows, dtype);
  }
}

async function numbersOf(file: FileHandle, { dtype, offset, length }: StoredTensor): Promise<Float32Array> {
  const bytes = Buffer.alloc(length);
  await file.read(bytes, 0, length, offset);
  return toNumbers(bytes, dtype);
}

function toNumbers({ buffer, byteOffset, byteLength }: Buffer, dtype: Dtype): Float32Array {
  const bytes = buffer.slice(byteOffset, byteOffset + byteLength);
  if (dtype === 'f32') return new Float32Array(bytes);
  const halves = new Uint16Array(bytes);
  if (dtype === 'bf16') return new Float32Array(Uint32Array.from(halves, (half) => half << 16).buffer);
  const numbers = new Float32Array(halves.length);
  fromFloat16(halves, numbers);
  return numbers;
}

/** To nearest, ties to even. */
function toBytes(numbers: Float32Array, dtype: Dtype): Buffer {
  if (dtype === 'f16') return Buffer.from(toFloat16(numbers).buffer);
  if (dtype === 'f32') return Buffer.from(numbers.buffer);
  const bits = new Uint32Array(numbers.buffer);
  return Buffer.from(Uint16Array.from(bits, (x) => (x + 0x7fff + ((x >>> 16) & 1)) >>> 16).buffer);
}
