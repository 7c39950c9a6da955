// Reads a LoRA adapter as PEFT saves it: what it adds to the weights of its base, s·B A.
import { basename, dirname, join, sep } from 'node:path';
import { z } from 'zod';
import { usageError } from '../../errors.js';
import { fromJson } from '../text/checked-json.js';
import { untrustedFile, untrustedText } from '../text/untrusted-files.js';
import type { Checkpoint } from './checkpoint.js';
import type { Weight } from './operators.js';
import { AGAIN, readSafetensorsHeader, type StoredTensor } from './safetensors.js';
import type { Adapter, Delta } from './written.js';

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

/** What an adapter adds to the weights of a checkpoint, and whose it is in words. @throws RredcotError (exit 2) for what is no LoRA adapter of it, or does more than that */
export async function readAdapter(
  folder: string,
  { weights, files }: Checkpoint,
): Promise<Adapter & { readonly about: string }> {
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
  const deltas = deltasOf(file, await readSafetensorsHeader(file), config, weights, hint);
  const of = `${deltas.size} matrices of ${folder}, ${ofBase(config.base_model_name_or_path, files)}`;
  return { file, deltas, about: of };
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
