// `policy build --adapter` beside PEFT: adapters that it has made and saved, merged by both.
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { readAdapter } from '../../../dist/model/graph/adapter.js';
import { readCheckpoint } from '../../../dist/model/graph/checkpoint.js';
import { writtenWeights } from '../../../dist/model/graph/written.js';
import { readSafetensors } from '../../oracle/safetensors.js';
import { differences } from '../../support/family-checks.js';
import { temporaryFolder } from '../../support/program.js';
import { ONE_THREAD } from '../../support/python.js';
import { trainerPython } from '../../support/trainer-venv.js';

const MADE = `
import sys
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, Qwen3Config

home = sys.argv[1]
sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
config = Qwen3Config(vocab_size=263, head_dim=16, tie_word_embeddings=True, **sizes)
for stabilized in ("false", "true"):
    torch.manual_seed(0)
    base, adapter, merged = (f"{home}/{stabilized}/{name}" for name in ("base", "adapter", "theirs"))
    AutoModelForCausalLM.from_config(config).float().save_pretrained(base)
    load = lambda: AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    lora = LoraConfig(r=4, lora_alpha=7, target_modules="all-linear", use_rslora=stabilized == "true", alpha_pattern={"q_proj": 3})
    model = get_peft_model(load(), lora)
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.1)
    model.save_pretrained(adapter)
    PeftModel.from_pretrained(load(), adapter).merge_and_unload().save_pretrained(merged)
`;

const python = trainerPython();
describe.skipIf(python === undefined)('an adapter (skipped where pip cannot install PEFT)', () => {
  let home: string;
  beforeAll(async () => {
    home = await temporaryFolder();
    const { status, stderr } = spawnSync(python as string, ['-c', MADE, home], {
      ...{ encoding: 'utf8', env: ONE_THREAD },
    });
    expect(status, stderr).toBe(0);
  });

  it.each(['false', 'true'])('is its merge to 1e-6, rank stabilized: %s', async (stabilized) => {
    const [base, adapter, theirs, ours] = ['base', 'adapter', 'theirs', 'ours'].map((name) =>
      join(home, stabilized, name),
    ) as [string, string, string, string];
    const checkpoint = await readCheckpoint(base);
    await writtenWeights(checkpoint, 'model.safetensors', await readAdapter(adapter, checkpoint)).write(ours);
    const [plain, found] = [readSafetensors(join(base, 'model.safetensors')), readSafetensors(ours)];
    let moved = 0;
    for (const [name, { data }] of readSafetensors(join(theirs, 'model.safetensors'))) {
      expect(differences(found.get(name)?.data ?? [], data).most, name).toBeLessThan(1e-6);
      if (data.some((w, i) => Math.abs(w - (plain.get(name)?.data[i] as number)) > 1e-3)) moved++;
    }
    // seven matrices a layer
    expect(moved).toBe(14);
  });
});
