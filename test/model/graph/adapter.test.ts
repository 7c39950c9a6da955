// `policy build --adapter`: weights with a LoRA adapter merged into them, against the formula in float64; what is refused.
import { linkSync, mkdirSync, mkdtempSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readAdapter } from '../../../dist/model/graph/adapter.js';
import { readCheckpoint } from '../../../dist/model/graph/checkpoint.js';
import { writtenWeights } from '../../../dist/model/graph/written.js';
import { buildPolicyFolder } from '../../../dist/model/onnx/build.js';
import { readSafetensors } from '../../oracle/safetensors.js';
import { seeded } from '../../oracle/toy.js';
import {
  type Json,
  LLAMA,
  safetensors,
  type TensorType,
  type TestTensor,
  writeCheckpoint,
} from '../../support/checkpoints.js';
import { temporaryFolder } from '../../support/program.js';

const home = await temporaryFolder();
const CONFIG: Json = {
  peft_type: 'LORA',
  r: 3,
  lora_alpha: 5,
  bias: 'none',
  use_dora: false,
  modules_to_save: [],
};
const MODULES = {
  'model.layers.0.self_attn.q_proj': [60, 44],
  'model.layers.1.mlp.down_proj': [44, 53],
} as const;

/** An adapter with random matrices. @param rank of each module */
function writeAdapter(
  more: Json = {},
  change: (tensors: Map<string, TestTensor>) => void = () => {},
  rank = 3,
): string {
  const random = seeded(7);
  const folder = mkdtempSync(join(home, 'adapter-'));
  const tensor = (shape: readonly number[]): TestTensor => {
    const values = Float32Array.from(
      { length: (shape[0] as number) * (shape[1] as number) },
      () => random() - 0.5,
    );
    return { dtype: 'F32', shape, bytes: Buffer.from(values.buffer) };
  };
  const tensors = new Map<string, TestTensor>();
  for (const [module, [out, width]] of Object.entries(MODULES)) {
    tensors.set(`base_model.model.${module}.lora_A.weight`, tensor([rank, width]));
    tensors.set(`base_model.model.${module}.lora_B.weight`, tensor([out, rank]));
  }
  change(tensors);
  writeFileSync(join(folder, 'adapter_model.safetensors'), safetensors(tensors));
  writeFileSync(join(folder, 'adapter_config.json'), JSON.stringify({ ...CONFIG, ...more }));
  return folder;
}

const base = (dtype: TensorType, shards = 1) =>
  writeCheckpoint(mkdtempSync(join(home, 'base-')), LLAMA, { dtype, shards });

async function merged(checkpoint: string, adapter: string): Promise<string> {
  const to = join(mkdtempSync(join(home, 'merged-')), 'model.safetensors');
  const base = await readCheckpoint(checkpoint);
  await writtenWeights(base, 'model.safetensors', await readAdapter(adapter, base)).write(to);
  return to;
}

describe('an adapter', () => {
  it.each([
    ['F32', {}, { q: 5 / 3, down: 5 / 3 }, 2 ** -24],
    ['F32', { use_rslora: true }, { q: 5 / Math.sqrt(3), down: 5 / Math.sqrt(3) }, 2 ** -24],
    ['F32', { alpha_pattern: { 'mlp.down_proj': 2 } }, { q: 5 / 3, down: 2 / 3 }, 2 ** -24],
    ['F16', {}, { q: 5 / 3, down: 5 / 3 }, 2 ** -11],
    ['BF16', {}, { q: 5 / 3, down: 5 / 3 }, 2 ** -8],
  ] as const)('is W + s·B A in %s, with %j', async (dtype, more, scales, rounding) => {
    const checkpoint = base(dtype, 2);
    const adapter = writeAdapter(more);
    const found = readSafetensors(await merged(checkpoint, adapter));
    const lora = readSafetensors(join(adapter, 'adapter_model.safetensors'));
    for (const shard of ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors'])
      for (const [name, { shape, data }] of readSafetensors(join(checkpoint, shard))) {
        const module = name.replace(/\.weight$/, '');
        const scale = module in MODULES ? scales[module.endsWith('q_proj') ? 'q' : 'down'] : 0;
        const [a, b] = ['A', 'B'].map(
          (letter) => lora.get(`base_model.model.${module}.lora_${letter}.weight`)?.data,
        );
        expect(found.get(name)?.shape).toEqual(shape);
        const width = shape.at(-1) as number;
        for (const [i, w] of data.entries()) {
          let expected = w;
          for (let j = 0; scale > 0 && j < 3; j++)
            expected +=
              scale * Number(b?.[Math.floor(i / width) * 3 + j]) * Number(a?.[j * width + (i % width)]);
          const away = Math.abs((found.get(name)?.data[i] as number) - expected);
          expect(away).toBeLessThanOrEqual(scale > 0 ? rounding * Math.abs(expected) + 2 ** -25 : 0);
        }
      }
  });

  it('makes a policy of its own, and leaves the base, which the folder was linked to, as it was', async () => {
    const checkpoint = base('F32');
    const [out, weights] = [join(home, 'policy'), join(checkpoint, 'model.safetensors')];
    const before = readFileSync(weights);
    mkdirSync(out);
    linkSync(weights, join(out, 'model.safetensors'));
    const template = { close: '\n', open: 'A:', closer: '\n' };
    const adapter = writeAdapter();
    const policy = await buildPolicyFolder(checkpoint, out, template, { adapter });
    expect(readFileSync(weights).equals(before)).toBe(true);
    const plain = await buildPolicyFolder(checkpoint, join(home, 'plain'), template);
    expect(policy.files['model.safetensors']).not.toBe(plain.files['model.safetensors']);
    expect(readFileSync(join(out, 'canary.json'))).not.toEqual(readFileSync(join(home, 'plain/canary.json')));
    await expect(buildPolicyFolder(checkpoint, checkpoint, template, { adapter })).rejects.toThrow(
      /holds the weights that the adapter is merged into/,
    );
  });

  it.each([
    [{ peft_type: 'IA3' }, /peft_type/],
    [{ use_dora: true }, /use_dora is true/],
    [{ bias: 'all' }, /bias is "all"/],
    [{ modules_to_save: ['lm_head'] }, /modules_to_save/],
    [{ init_lora_weights: 'pissa' }, /init_lora_weights is "pissa"/],
    [{ alpha_pattern: { '.*q_proj': 3 } }, /alpha_pattern/],
    [{ lora_alpha: undefined }, /lora_alpha/],
  ])('that does more, or says less, is refused: %j', async (more, why) => {
    const checkpoint = await readCheckpoint(base('F32'));
    await expect(readAdapter(writeAdapter(more), checkpoint)).rejects.toThrow(why);
  });

  it('names the model that it says it is of, and asks where the folder has another name', async () => {
    const folder = base('F32');
    const checkpoint = await readCheckpoint(folder);
    for (const [named, about] of [
      [folder, /an adapter of \S+$/],
      ['Qwen/Other-0.5B', /an adapter of Qwen\/Other-0.5B: is \S+ that model\?/],
      [undefined, /does not name its model: is it \S+\?$/],
    ] as const)
      expect((await readAdapter(writeAdapter({ base_model_name_or_path: named }), checkpoint)).about).toMatch(
        about,
      );
  });

  it('of another base, or with tensors that are no matrices of LoRA, is refused by name', async () => {
    const checkpoint = await readCheckpoint(base('F32'));
    const q = 'base_model.model.model.layers.0.self_attn.q_proj';
    const renamed =
      (to: string, from = `${q}.lora_A.weight`) =>
      (tensors: Map<string, TestTensor>) => {
        tensors.set(to, tensors.get(from) as TestTensor);
        tensors.delete(from);
      };
    for (const [change, why] of [
      [renamed(`${q.replace('.0.', '.7.')}.lora_A.weight`), /is no matrix of the checkpoint/],
      [renamed(`${q}.lora_embedding_A`), /lora_embedding_A is not merged here/],
      [renamed(`${q}.lora_magnitude_vector`), /lora_magnitude_vector is not merged here/],
      [renamed(`${q}x.lora_B.weight`, `${q}.lora_B.weight`), /its B \[undefined\]/],
      [(tensors: Map<string, TestTensor>) => tensors.clear(), /0 tensors/],
    ] as const)
      await expect(readAdapter(writeAdapter({}, change), checkpoint)).rejects.toThrow(why);
    await expect(readAdapter(join(home, 'nowhere'), checkpoint)).rejects.toThrow(/no adapter/);
    const linked = mkdtempSync(join(home, 'linked-'));
    for (const name of ['adapter_config.json', 'adapter_model.safetensors'])
      symlinkSync(join(writeAdapter(), name), join(linked, name));
    await expect(readAdapter(linked, checkpoint)).rejects.toThrow(/outside its folder/);
  });
});
