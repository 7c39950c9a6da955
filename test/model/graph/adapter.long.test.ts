// `policy build --adapter` beside PEFT: adapters that it has made and saved, merged by both.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { readAdapter } from '../../../dist/model/graph/adapter.js';
import { readCheckpoint } from '../../../dist/model/graph/checkpoint.js';
import { writtenWeights } from '../../../dist/model/graph/written.js';
import { readSafetensors } from '../../oracle/safetensors.js';
import { temporaryFolder } from '../../support/program.js';
import { trainerPython } from '../../support/trainer-venv.js';

const MADE = `
import sys
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, Qwen3Config

base, adapter, merged, is_rank_stabilized = sys.argv[1:]
torch.manual_seed(0)
sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
config = Qwen3Config(vocab_size=263, head_dim=16, tie_word_embeddings=True, **sizes)
AutoModelForCausalLM.from_config(config).float().save_pretrained(base)
load = lambda: AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
lora = LoraConfig(r=4, lora_alpha=7, target_modules="all-linear", use_rslora=is_rank_stabilized == "true", alpha_pattern={"q_proj": 3})
model = get_peft_model(load(), lora)
for name, weight in model.named_parameters():
    if "lora_B" in name:
        torch.nn.init.normal_(weight, std=0.1)
model.save_pretrained(adapter)
PeftModel.from_pretrained(load(), adapter).merge_and_unload().save_pretrained(merged)
`;

const python = trainerPython();
it.skipIf(python === undefined).each(['false', 'true'])(
  'is its merge to 1e-6, rank stabilized: %s',
  async (stabilized) => {
    const home = await temporaryFolder();
    const [base, adapter, theirs, ours] = ['base', 'adapter', 'theirs', 'ours'].map((name) =>
      join(home, name),
    ) as [string, string, string, string];
    const { status, stderr } = spawnSync(python as string, ['-c', MADE, base, adapter, theirs, stabilized], {
      encoding: 'utf8',
    });
    expect(status, stderr).toBe(0);
    const checkpoint = await readCheckpoint(base);
    await writtenWeights(checkpoint, 'model.safetensors', await readAdapter(adapter, checkpoint)).write(ours);
    const [plain, found] = [readSafetensors(join(base, 'model.safetensors')), readSafetensors(ours)];
    let moved = 0;
    for (const [name, { data }] of readSafetensors(join(theirs, 'model.safetensors'))) {
      const own = found.get(name)?.data as Float64Array;
      for (const [i, w] of data.entries()) expect(Math.abs(w - (own[i] as number))).toBeLessThan(1e-6);
      if (data.some((w, i) => Math.abs(w - (plain.get(name)?.data[i] as number)) > 1e-3)) moved++;
    }
    // seven matrices a layer
    expect(moved).toBe(14);
  },
);
