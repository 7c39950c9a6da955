// The model families, by the name that config.json gives each in `architectures`: to add one is to write its file and to name it here.
import { llama } from './families/llama.js';
import { mistral } from './families/mistral.js';
import { qwen2 } from './families/qwen2.js';
import { qwen3 } from './families/qwen3.js';
import type { Family } from './family.js';

export const FAMILIES = {
  LlamaForCausalLM: llama,
  MistralForCausalLM: mistral,
  Qwen2ForCausalLM: qwen2,
  Qwen3ForCausalLM: qwen3,
} as const satisfies Record<string, Family>;

type FamilyName = keyof typeof FAMILIES;
export const FAMILY_NAMES = Object.keys(FAMILIES) as [FamilyName, ...FamilyName[]];
