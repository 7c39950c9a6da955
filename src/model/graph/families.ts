// The model families, by the name that config.json gives each in `architectures`: to add one is to write its file and to name it here.
import { granite } from './families/granite.js';
import { llama } from './families/llama.js';
import { mistral } from './families/mistral.js';
import { olmo2 } from './families/olmo2.js';
import { phi3 } from './families/phi3.js';
import { qwen2 } from './families/qwen2.js';
import { qwen2Moe } from './families/qwen2-moe.js';
import { qwen3 } from './families/qwen3.js';
import { qwen35, qwen35Moe } from './families/qwen3-5.js';
import { qwen3Moe } from './families/qwen3-moe.js';
import { smollm3 } from './families/smollm3.js';
import { type Experts, type Family, HEAD, type LayerSizes, operators, type WeightSource } from './family.js';
import { Graph } from './onnx.js';

/** A model that also sees; what it reads goes through a family's layers. */
const seeing = (family: Family): Family => ({
  ...family,
  unread: /^(model\.)?(visual|vision_tower|multi_modal_projector)\./,
});

export const FAMILIES = {
  LlamaForCausalLM: llama,
  MistralForCausalLM: mistral,
  Qwen2ForCausalLM: qwen2,
  Qwen3ForCausalLM: qwen3,
  SmolLM3ForCausalLM: smollm3,
  Olmo2ForCausalLM: olmo2,
  GraniteForCausalLM: granite,
  Phi3ForCausalLM: phi3,
  Qwen2_5_VLForConditionalGeneration: seeing(qwen2),
  Qwen3VLForConditionalGeneration: seeing(qwen3),
  Mistral3ForConditionalGeneration: seeing(mistral),
  Qwen2MoeForCausalLM: qwen2Moe,
  Qwen3MoeForCausalLM: qwen3Moe,
  Qwen3_5ForCausalLM: qwen35,
  Qwen3_5ForConditionalGeneration: qwen35,
  Qwen3_5MoeForCausalLM: qwen35Moe,
  Qwen3_5MoeForConditionalGeneration: qwen35Moe,
} as const satisfies Record<string, Family>;

type FamilyName = keyof typeof FAMILIES;
export const FAMILY_NAMES = Object.keys(FAMILIES) as [FamilyName, ...FamilyName[]];

/** Every tensor that the layers of an architecture name, with its shape. */
export function expectedWeights(
  arch: LayerSizes & Readonly<{ family: FamilyName; layers: number; tiedHead: boolean }>,
): Map<string, readonly number[]> {
  const shapes = new Map<string, readonly number[]>();
  const weight: WeightSource['weight'] = (name, shape, part) => {
    shapes.set(name, part ? [part.of, ...shape.slice(1)] : shape);
    return name;
  };
  const family: Family = FAMILIES[arch.family];
  const rowsOf = (name: string, shape: readonly number[]) => weight(name, shape);
  const experts = (x: string, { router, gateUp, down }: Experts) => {
    for (const named of [router, gateUp, down]) weight(...named);
    return x;
  };
  const graph = new Graph('weights');
  const within = (layer: number) =>
    operators(graph, arch, { weight, rowsOf, number: String, experts }, layer);
  family.last(within(-1), family.embed(within(-1), 'ids'));
  if (!arch.tiedHead) weight(HEAD, [arch.vocab, arch.hidden]);
  for (let i = 0; i < arch.layers; i++) {
    const o = within(i);
    if (arch.delta?.layers.includes(i)) family.delta?.project(o, family.delta.read(o, 'x'));
    else family.project(o, 'x');
    family.finish(o, 'x', 'attended');
  }
  return shapes;
}
