// Reads a Hugging Face config.json into the few sizes that the scoring graphs are built from.
import { z } from 'zod';
import { usageError } from '../../errors.js';
import { count } from '../../plural.js';
import { inOneLine } from '../text/checked-json.js';
import { FAMILIES, FAMILY_NAMES } from './families.js';
import { type Family, type LayerRule, layerSizes, MixtureSchema, size } from './family.js';
import { refuseModel } from './foreign.js';
import type { Graph, Precision } from './onnx.js';
import { parseRope, type Refuse, RopeScalingSchema, ropeFields } from './rope.js';

/** Some eighty times what models have: until the weights are read, nothing else bounds the loops over layers. */
const layerCount = size.max(10_000);

/** Four times the longest context that a checkpoint of these families is known to have; its rotary tables alone take 8 GB. */
const MOST_TOKENS = 2 ** 24;
const TOO_LONG = `more than ${count(MOST_TOKENS)} tokens, which is four times the longest context that such models have`;
const contextTokens = size.max(MOST_TOKENS, TOO_LONG);

const tokenId = z.number().int().nonnegative();

/** The shape of a Llama-style decoder, as policy.json holds it; fields that a plain one lacks are optional. */
const Sizes = z.object({
  family: z.enum(FAMILY_NAMES),
  layers: layerCount,
  ...layerSizes,
  /** longest sequence the checkpoint declares */
  maxTokens: contextTokens,
  ropeTheta: z.number().positive(),
  /** the output head is the embedding matrix */
  tiedHead: z.boolean(),
  /** how the rotary frequencies are stretched; absent: as ropeTheta says */
  ropeScaling: RopeScalingSchema.exactOptional(),
  /** the layers whose rows see only the last `tokens` keys, their own among them; absent where none is shorter than maxTokens */
  slidingWindow: z
    .strictObject({ tokens: size, layers: z.array(z.number().int().nonnegative()) })
    .exactOptional(),
  /** tokens in whose place a model that also sees has a picture; absent: there are none */
  pictures: z.array(tokenId).exactOptional(),
  /** leading numbers of a head that are rotated; absent: all */
  rotaryDim: size.exactOptional(),
  /** the layers that read no positions; absent: none */
  unrotated: z.array(z.number().int().nonnegative()).exactOptional(),
});
/** What is to be known of one whose graph is not built. */
export const TextSizesSchema = Sizes.pick({ vocab: true, maxTokens: true, pictures: true });

/** …, and its windows are of layers that there are. */
export const ArchitectureSchema = Sizes.refine(
  ({ layers, slidingWindow }) => slidingWindow?.layers.every((layer) => layer < layers) ?? true,
  { path: ['slidingWindow'], error: 'names layers that the policy does not have' },
);
export type Architecture = Readonly<z.infer<typeof ArchitectureSchema>>;

export interface GraphParts {
  readonly g: Graph;
  readonly arch: Architecture;
  readonly precision: Precision;
  /** rotation tables, graph inputs [M, rotaryDim/2] */
  readonly rope: Readonly<Record<'cos' | 'sin', string>>;
}

const multiplier = z.number().positive().default(1);
const Config = z.object({
  architectures: z.tuple([z.enum(FAMILY_NAMES)]),
  num_hidden_layers: layerCount,
  hidden_size: size,
  num_attention_heads: size,
  num_key_value_heads: size.nullish(),
  head_dim: size.nullish(),
  // of experts alone there is none
  intermediate_size: size.nullish(),
  vocab_size: size,
  max_position_embeddings: contextTokens,
  rms_norm_eps: z.number().positive(),
  ...ropeFields,
  tie_word_embeddings: z.boolean().optional(),
  // what has to be so for the layers to be the model's
  hidden_act: z.literal('silu').default('silu'),
  attention_bias: z.literal(false).default(false),
  mlp_bias: z.literal(false).default(false),
  // Qwen2-MoE writes 0 where no layer has a window
  sliding_window: z.union([z.literal(0), size]).nullish(),
  use_sliding_window: z.boolean().default(false),
  max_window_layers: z.number().int().nonnegative().default(28),
  layer_types: z.array(z.enum(['full_attention', 'sliding_attention', 'linear_attention'])).nullish(),
  // of delta nets, as their class has it where they are left out
  full_attention_interval: size.default(4),
  ...{ linear_num_key_heads: size.default(16), linear_key_head_dim: size.default(128) },
  ...{ linear_num_value_heads: size.default(32), linear_value_head_dim: size.default(128) },
  linear_conv_kernel_dim: size.min(2).default(4),
  no_rope_layers: z.array(z.union([z.literal(0), z.literal(1)])).nullish(),
  no_rope_layer_interval: size.default(4),
  // what the class takes for one that is left out
  embedding_multiplier: multiplier,
  attention_multiplier: multiplier,
  residual_multiplier: multiplier,
  logits_scaling: multiplier,
  num_experts: size.nullish(),
  num_local_experts: size.nullish(),
  num_experts_per_tok: size.nullish(),
  moe_intermediate_size: size.nullish(),
  shared_expert_intermediate_size: size.nullish(),
  norm_topk_prob: z.boolean().default(false),
  decoder_sparse_step: size.default(1),
  mlp_only_layers: z.array(z.number().int().nonnegative()).nullish(),
  // what makes another model of it: code of its own
  auto_map: z.null().optional(),
});
type ModelConfig = z.infer<typeof Config>;

/** What config.json of a checkpoint says. @param path of it @throws RredcotError (exit 2) for a kind that this version cannot build */
export function parseArchitecture(config: unknown, path: string): Architecture {
  const refuse: Refuse = (reason) => {
    throw usageError(
      `${path}: this checkpoint cannot be built: ${inOneLine(reason)}`,
      `supported: ${FAMILY_NAMES.join(', ')}, not quantised, rope type default, linear, llama3 or yarn`,
    );
  };
  refuseModel(config, path, FAMILY_NAMES);
  const parsed = Config.safeParse(textPart(config));
  if (!parsed.success) return refuse(z.prettifyError(parsed.error));
  const c = parsed.data;
  const [name] = c.architectures;
  const family: Family = FAMILIES[name];
  const kvHeads = c.num_key_value_heads ?? family.defaults.kvHeads ?? c.num_attention_heads;
  const headDim = c.head_dim ?? family.defaults.headDim ?? c.hidden_size / c.num_attention_heads;
  if (c.num_attention_heads % kvHeads !== 0 || !Number.isInteger(headDim) || headDim % 2 !== 0)
    return refuse(
      `${c.num_attention_heads} heads, ${kvHeads} key/value heads and head_dim ${headDim} do not fit together (expected a multiple of key/value heads, and an even head_dim)`,
    );
  const rope = parseRope(c, refuse);
  const rotated = rope.rotated ?? c.partial_rotary_factor ?? family.defaults.rotated ?? 1;
  const rotaryDim = Math.trunc(headDim * rotated);
  const expected = family.defaults.rotated ? `no even number of heads of ${headDim}` : 'expected 1';
  if (rotated !== 1 && (!family.defaults.rotated || rotaryDim < 2 || rotaryDim % 2 !== 0))
    return refuse(`partial_rotary_factor is ${rotated}, ${expected}`);
  if (rope.maxTokens > MOST_TOKENS) return refuse(`its rope scaling makes ${TOO_LONG}`);
  if (c.layer_types && c.layer_types.length !== c.num_hidden_layers)
    return refuse(`layer_types names ${c.layer_types.length} of ${c.num_hidden_layers} layers`);
  if (family.unrotated && c.no_rope_layers && c.no_rope_layers.length < c.num_hidden_layers)
    return refuse(`no_rope_layers names ${c.no_rope_layers.length} of ${c.num_hidden_layers} layers`);
  const slidingWindow = windowFrom(c, family, rope.maxTokens);
  if (slidingWindow?.tokens === 0) return refuse('sliding_window is 0');
  const unrotated = layersWith(c, family.unrotated);
  const mixture = mixtureFrom(c, family, refuse);
  const intermediate =
    c.intermediate_size ?? mixture?.intermediate ?? refuse('intermediate_size: expected number');
  const deltas = layersWith(c, family.delta?.layers);
  const strange = family.delta ? 'sliding_attention' : 'linear_attention';
  if (c.layer_types?.includes(strange))
    return refuse(`layer_types names ${strange}, which this family's graph does not have`);
  const [keyHeads, valueHeads] = [c.linear_num_key_heads, c.linear_num_value_heads];
  if (valueHeads % keyHeads !== 0)
    return refuse(`${valueHeads} value heads are no multiple of ${keyHeads} key heads`);
  return {
    family: name,
    layers: c.num_hidden_layers,
    hidden: c.hidden_size,
    heads: c.num_attention_heads,
    kvHeads,
    headDim,
    intermediate,
    vocab: c.vocab_size,
    maxTokens: rope.maxTokens,
    ...picturesOf(config),
    rmsNormEps: c.rms_norm_eps,
    ropeTheta: rope.theta,
    tiedHead: c.tie_word_embeddings ?? family.defaults.tiedHead ?? false,
    ...(rope.scaling && { ropeScaling: rope.scaling }),
    ...(slidingWindow && { slidingWindow }),
    ...(unrotated.length > 0 && { unrotated }),
    ...(mixture && { mixture }),
    ...(rotated !== 1 && { rotaryDim }),
    ...(deltas.length > 0 && {
      delta: {
        ...{ layers: deltas, keyHeads, valueHeads, taps: c.linear_conv_kernel_dim },
        ...{ keyDim: c.linear_key_head_dim, valueDim: c.linear_value_head_dim },
      },
    }),
    ...(family.hasMultipliers && {
      multipliers: {
        ...{ embedding: c.embedding_multiplier, attention: c.attention_multiplier },
        ...{ residual: c.residual_multiplier, logits: 1 / c.logits_scaling },
      },
    }),
  };
}

/** Of a model that also sees what its config.json says of the one that reads; that of one that only reads. */
function textPart(config: unknown): unknown {
  const { text_config, architectures, tie_word_embeddings } = Object(config);
  return text_config === undefined ? config : { ...text_config, architectures, tie_word_embeddings };
}

/** What is to be known of a checkpoint of any kind, whose graph is not built. @throws RredcotError (exit 2) where it does not say that */
export function parseSizes(config: unknown, path: string): z.infer<typeof TextSizesSchema> {
  const parsed = Config.pick({ vocab_size: true, max_position_embeddings: true }).safeParse(textPart(config));
  if (parsed.success)
    return {
      ...{ vocab: parsed.data.vocab_size, maxTokens: parsed.data.max_position_embeddings },
      ...picturesOf(config),
    };
  throw usageError(
    `${path}: ${inOneLine(z.prettifyError(parsed.error))}`,
    'vocab_size and max_position_embeddings belong there',
  );
}

/** What stands for pictures, video and sound in a text: `image_token_id`, and of old `image_token_index`. */
function picturesOf(config: unknown): { readonly pictures?: number[] } {
  const isOne = (key: string) => /^(image|video|audio)_token_(id|index)$/.test(key);
  const fields = Object.entries<number>(Object(config)).filter(
    ([key, id]) => isOne(key) && Number.isInteger(id),
  );
  const pictures = fields.map(([, id]) => id);
  return pictures.length > 0 ? { pictures } : {};
}

/** Which layers see a window only; undefined where none does, or the window is as long as the longest sequence. */
function windowFrom(c: ModelConfig, family: Family, maxTokens: number) {
  // null is a config's way to say none; a field left out has the class's default
  const tokens = c.sliding_window === undefined ? family.defaults.slidingWindow : c.sliding_window;
  if (tokens === undefined || tokens === null || tokens >= maxTokens) return undefined;
  const layers = layersWith(c, family.windows);
  return layers.length === 0 ? undefined : { tokens, layers };
}

/** Of all layers those that a family's rule names. */
function layersWith(c: ModelConfig, isOne: LayerRule = () => false): number[] {
  return Array.from({ length: c.num_hidden_layers }, (_, i) => i).filter((i) => isOne(c, i));
}

/** What experts it has; undefined where all layers are dense. */
function mixtureFrom(c: ModelConfig, { hasExperts, defaults }: Family, refuse: Refuse) {
  // transformers 5 writes the second for the first
  const experts = c.num_experts ?? c.num_local_experts;
  if (!hasExperts) {
    if (experts) refuse(`num_experts, num_local_experts: ${experts}, and its family has none`);
    return undefined;
  }
  const isSparse = (layer: number) => (layer + 1) % c.decoder_sparse_step === 0;
  const layers = layersWith(c, (_, layer) => isSparse(layer) && !c.mlp_only_layers?.includes(layer));
  const { num_experts_per_tok, moe_intermediate_size, num_local_experts } = c;
  const { shared_expert_intermediate_size: shared } = c;
  const mixture = MixtureSchema.safeParse({
    ...{ experts, chosen: num_experts_per_tok, intermediate: moe_intermediate_size },
    ...{ normalized: defaults.normalized ?? c.norm_topk_prob, layers },
    ...(hasExperts === 'shared' && { shared }),
  });
  if (!mixture.success || experts !== (num_local_experts ?? experts)) {
    const given = { num_experts: experts, num_local_experts, num_experts_per_tok, moe_intermediate_size };
    const all = { ...given, ...(hasExperts === 'shared' && { shared_expert_intermediate_size: shared }) };
    return refuse(
      `of its experts it says ${JSON.stringify(all)}: one is missing, or they do not fit together`,
    );
  }
  return layers.length > 0 ? mixture.data : undefined;
}

/** Keys that a row of a layer sees at most, its own among them; undefined: all before it. */
export function layerWindow({ slidingWindow }: Architecture, layer: number): number | undefined {
  return slidingWindow?.layers.includes(layer) ? slidingWindow.tokens : undefined;
}
