// What a folder may hold that is no checkpoint as it is read here: named, with the line that makes one of it, or with what answers in its place.
import { open, readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { usageError } from '../../errors.js';
import { shellWord } from '../../printable.js';
import { parseJson, untrustedFile, untrustedText } from '../text/untrusted-files.js';

const LOAD = 'from transformers import AutoModelForCausalLM as M, AutoTokenizer as T';

/** By the name of a file or folder: what it is, the line that makes a checkpoint of it, and what stands beside it where nobody needs that. */
const FORMS = String.raw`
^adapter_(config\.json|model\.) | an adapter of BASE, which goes into its base | rredcot policy build 'BASE' --adapter 'DIR' -o <folder>
^model_world_size_\d+_rank_ | verl's shards of FSDP | python -m verl.model_merger merge --backend fsdp --local_dir 'DIR' --target_dir merged | ^model\.safetensors
^dist_ckpt$ | verl's shards of Megatron | python -m verl.model_merger merge --backend megatron --local_dir 'DIR' --target_dir merged | ^model\.safetensors
^zero_to_fp32\.py$ | shards of DeepSpeed ZeRO | python 'DIR/zero_to_fp32.py' 'DIR' 'DIR' --safe_serialization | ^model\.safetensors
zero_pp_rank_ | shards of DeepSpeed ZeRO | python 'DIR/../zero_to_fp32.py' 'DIR/..' 'DIR/..' --safe_serialization
^pytorch_model_fsdp_\d+$ | shards of FSDP | accelerate merge-weights 'DIR/NAME' 'DIR' | ^model\.safetensors
^iter_\d+$|^mp_rank_\d+ | a checkpoint of Megatron | python -c "from megatron.bridge import AutoBridge as B; B.from_hf_pretrained('<its base model>').export_ckpt('DIR', 'merged')" | ^model\.safetensors
^[\w.-]+\.gguf$ | weights in GGUF, expected safetensors | python -c "${LOAD}; M.from_pretrained('DIR', gguf_file='NAME').save_pretrained('merged'); T.from_pretrained('DIR', gguf_file='NAME').save_pretrained('merged')" | ^model\.safetensors
^weights(\.\d+)?\.(npz|safetensors)$ | weights of MLX | mlx_lm.convert --hf-path 'DIR' --mlx-path merged --dequantize | ^model\.safetensors
^pytorch_model.*\.bin$ | weights of PyTorch, expected safetensors | python -c "${LOAD}; M.from_pretrained('DIR').save_pretrained('DIR', safe_serialization=True)" | ^model\.safetensors
\.pth?$ | weights of PyTorch, expected safetensors | torch.load reads them; what save_pretrained('merged') of the model writes can be built | ^model\.safetensors
^(tokenizer\.model|vocab\.json)$ | no tokenizer.json beside it | python -c "${LOAD}; T.from_pretrained('DIR').save_pretrained('DIR')" | ^tokenizer\.json$`
  .split('\n')
  .slice(1)
  .map((line) => line.split(' | ') as [name: string, what: string, mend: string, beside?: string]);

/** @throws RredcotError (exit 2) for a family whose graph is not written, and for weights of fewer bits */
export function refuseModel(config: unknown, path: string, known: readonly string[]): void {
  const said = (config ?? {}) as Record<string, unknown>;
  const [named] = [said.architectures].flat();
  if (typeof named === 'string' && !known.includes(named)) {
    throw usageError(
      `${path}: ${named}: its graph is not written`,
      `python -m rredcot.export ${shellWord(dirname(path))} -o <folder>, if transformers has it (docs/policies.md#other-families), or --tokenizer-only, and an engine answers (docs/engines.md), or values of your own by --estimator given (docs/your-own-credit.md); graphs are written for ${known.join(', ')}`,
    );
  }
  const bits = (said.quantization_config ?? said.quantization) as { quant_method?: unknown } | undefined;
  if (!bits) return;
  const [dir, method = 'mlx'] = [dirname(path), bits.quant_method];
  const whole = `python -c "${LOAD}; M.from_pretrained('${dir}').dequantize().save_pretrained('merged'); T.from_pretrained('${dir}').save_pretrained('merged')"`;
  throw usageError(
    `${path}: its weights are quantized (${method}), expected F32, F16 or BF16`,
    method === 'bitsandbytes' ? whole : 'build the checkpoint that it was quantized from',
  );
}

const POINTER = 'version https://git-lfs';

/** @throws RredcotError (exit 2) for an adapter, weights of another form, and files that have still to be fetched or converted */
export async function refuseForeign(folder: string): Promise<void> {
  const [dir, one] = folder.endsWith('.gguf') ? [dirname(folder), basename(folder)] : [folder];
  const names = one === undefined ? (await readdir(dir).catch(() => [])).sort() : [one];
  for (const [form, what, mend, beside] of FORMS) {
    const name = names.find((each) => new RegExp(form).test(each));
    if (name === undefined || (beside && names.some((each) => new RegExp(beside).test(each)))) continue;
    const adapter = (await untrustedText(dir, 'adapter_config.json')) ?? '{}';
    const { base_model_name_or_path: said } = Object(parseJson(adapter, join(dir, 'adapter_config.json')));
    // it goes into a line for a shell
    const base = typeof said === 'string' && /^[\w./-]+$/.test(said) ? said : '<its base model>';
    const fill = (x: string) => x.replaceAll('DIR', dir).replaceAll('NAME', name).replaceAll('BASE', base);
    throw usageError(`${join(dir, name)}: ${fill(what)}`, fill(mend));
  }
  for (const name of names.filter((each) => /\.safetensors$|^tokenizer\.|^config\.json$/.test(each))) {
    await using file = await open((await untrustedFile(dir, name)) ?? join(dir, name));
    const { buffer } = await file.read(Buffer.alloc(POINTER.length), 0, POINTER.length, 0);
    if (buffer.toString() === POINTER)
      throw usageError(`${join(dir, name)}: a pointer of Git LFS, not the file`, `git -C '${dir}' lfs pull`);
  }
}
