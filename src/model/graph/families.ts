// The model families, by the name that config.json gives each in `architectures`: to add one is to write its file and to name it here.
import { granite } from './families/granite.js';
import { llama } from './families/llama.js';
import { mistral } from './families/mistral.js';
import { olmo2 } from './families/olmo2.js';
import { qwen2 } from './families/qwen2.js';
import { qwen3 } from './families/qwen3.js';
import { smollm3 } from './families/smollm3.js';
import { type Family, type LayerSizes, operators } from './family.js';
import { Graph } from './onnx.js';

export const FAMILIES = {
  LlamaForCausalLM: llama,
  MistralForCausalLM: mistral,
  Qwen2ForCausalLM: qwen2,
  Qwen3ForCausalLM: qwen3,
  SmolLM3ForCausalLM: smollm3,
  Olmo2ForCausalLM: olmo2,
  GraniteForCausalLM: granite,
} as const satisfies Record<string, Family>;

type FamilyName = keyof typeof FAMILIES;
export const FAMILY_NAMES = Object.keys(FAMILIES) as [FamilyName, ...FamilyName[]];

/** Every tensor that the layers of an architecture name, with its shape. */
export function expectedWeights(
  arch: LayerSizes & Readonly<{ family: FamilyName; layers: number; tiedHead: boolean }>,
): Map<string, readonly number[]> {
  const shapes = new Map<string, readonly number[]>();
  const noted = (name: string, shape: readonly number[]): string => {
    shapes.set(name, shape);
    return name;
  };
  const family = FAMILIES[arch.family];
  const o = operators(new Graph('weights'), arch, { weight: noted, rowsOf: noted, number: String });
  family.embed(o, 'ids');
  family.last(o, 'x');
  if (!arch.tiedHead) noted(family.head, [arch.vocab, arch.hidden]);
  for (let i = 0; i < arch.layers; i++) {
    family.project(o, i, 'x');
    family.finish(o, i, 'x', 'attended');
  }
  return shapes;
}
