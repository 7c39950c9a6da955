// Reads a Hugging Face config.json into the few sizes that the scoring graphs are built from.
import { z } from 'zod';
import { usageError } from '../../errors.js';
import { count } from '../../plural.js';
import { CLASSIFIER_NAMES, classifierOf, FAMILIES, FAMILY_NAMES, type Family } from './families.js';
import { inOneLine, ofSchema } from './json.js';
import { parseRope, RopeScalingSchema } from './rope.js';

const size = z.number().int().positive();
/** Some eighty times what models have: until the weights are read, nothing else bounds the loops over layers. */
const layerCount = size.max(10_000);

/** Four times the longest context that a checkpoint of these families is known to have; its rotary tables alone take 8 GB. */
const MOST_TOKENS = 2 ** 24;
const TOO_LONG = `more than ${count(MOST_TOKENS)} tokens, which is four times the longest context that such models have`;
const contextTokens = size.max(MOST_TOKENS, TOO_LONG);

/** The shape of a Llama-style decoder, as policy.json holds it; fields that a plain one lacks are optional. */
const Sizes = z.object({
  family: z.enum(FAMILY_NAMES),
  layers: layerCount,
  hidden: size,
  heads: size,
  /** key/value heads; heads / kvHeads queries share one (grouped-query attention) */
  kvHeads: size,
  headDim: size,
  intermediate: size,
  vocab: size,
  /** longest sequence the checkpoint declares */
  maxTokens: contextTokens,
  rmsNormEps: z.number().positive(),
  ropeTheta: z.number().positive(),
  /** the output head is the embedding matrix */
  tiedHead: z.boolean(),
  /** how the rotary frequencies are stretched; absent: as ropeTheta says */
  ropeScaling: RopeScalingSchema.exactOptional(),
  /** the layers whose rows see only the last `tokens` keys, their own among them; absent where none is shorter than maxTokens */
  slidingWindow: z
    .strictObject({ tokens: size, layers: z.array(z.number().int().nonnegative()) })
    .exactOptional(),
});
/** …, and its windows are of layers that there are. */
export const ArchitectureSchema = Sizes.refine(
  ({ layers, slidingWindow }) => slidingWindow?.layers.every((layer) => layer < layers) ?? true,
  { path: ['slidingWindow'], error: 'names layers that the policy does not have' },
);
export type Architecture = Readonly<z.infer<typeof ArchitectureSchema>>;

/** A head that classifies rows, as policy.json holds it. */
export const HeadSchema = z.strictObject({
  /** linear layers; two have a ReLU between them */
  layers: z.literal([1, 2]),
  /** the last one has a bias */
  bias: z.boolean(),
  /** names of what it tells apart; one: a score */
  labels: z.array(z.string()).min(1).max(1000),
});
export type Head = Readonly<z.infer<typeof HeadSchema>>;

/** Whether a head gives one score, of an outcome reward model: its logistic is P(right), before the first step too. */
export function isScore({ labels }: Pick<Head, 'labels'>): boolean {
  return labels.length === 1;
}

const nothing = z.null().optional();
const Config = z.object({
  architectures: z.tuple([z.enum(FAMILY_NAMES)]),
  num_hidden_layers: layerCount,
  hidden_size: size,
  num_attention_heads: size,
  num_key_value_heads: size.nullish(),
  head_dim: size.nullish(),
  intermediate_size: size,
  vocab_size: size,
  max_position_embeddings: contextTokens,
  rms_norm_eps: z.number().positive(),
  rope_theta: z.number().positive().optional(),
  rope_scaling: z.record(z.string(), z.unknown()).nullish(),
  rope_parameters: z.record(z.string(), z.unknown()).nullish(),
  partial_rotary_factor: z.literal(1).nullish(),
  hidden_act: z.literal('silu').default('silu'),
  // Qwen2's biases are part of the family and no field of its config
  attention_bias: z.literal(false).default(false),
  mlp_bias: z.literal(false).default(false),
  tie_word_embeddings: z.boolean().default(false),
  sliding_window: size.nullish(),
  use_sliding_window: z.boolean().default(false),
  max_window_layers: z.number().int().nonnegative().default(28),
  layer_types: z.array(z.enum(['full_attention', 'sliding_attention'])).nullish(),
  // what makes another model of it: fewer bits, experts, code of its own
  quantization_config: nothing,
  num_experts: nothing,
  num_local_experts: nothing,
  auto_map: nothing,
});

/**
 * @param config parsed config.json of a checkpoint; of one whose head classifies, the trunk is read as one with a tied head
 * @param path of that file, for the message
 * @throws RredcotError (exit 2) where the checkpoint is of a kind that this version cannot build
 */
export function parseArchitecture(config: unknown, path: string): Architecture {
  const refuse = (reason: string): never => {
    throw usageError(
      `${path}: this checkpoint cannot be built: ${inOneLine(reason)}`,
      `supported: ${[...FAMILY_NAMES, ...CLASSIFIER_NAMES].join(', ')}, dense and not quantised, rope type default, linear, llama3 or yarn`,
    );
  };
  const parsed = Config.safeParse(trunkConfig(config));
  if (!parsed.success) {
    const named = (config as { architectures?: unknown } | null)?.architectures;
    return refuse(
      `${named === undefined ? '' : `architectures is ${JSON.stringify(named)}: `}${z.prettifyError(parsed.error)}`,
    );
  }
  const c = parsed.data;
  const [name] = c.architectures;
  const family: Family = FAMILIES[name];
  const kvHeads = c.num_key_value_heads ?? family.defaults.kvHeads ?? c.num_attention_heads;
  const headDim = c.head_dim ?? family.defaults.headDim ?? c.hidden_size / c.num_attention_heads;
  if (c.num_attention_heads % kvHeads !== 0 || !Number.isInteger(headDim) || headDim % 2 !== 0)
    throw usageError(
      `${path}: ${c.num_attention_heads} heads, ${kvHeads} key/value heads and head_dim ${headDim} do not fit together`,
      'heads must be a multiple of key/value heads, head_dim an even number',
    );
  let rope: ReturnType<typeof parseRope>;
  try {
    rope = parseRope(c);
  } catch (error) {
    return refuse((error as Error).message);
  }
  if (rope.maxTokens > MOST_TOKENS) return refuse(`its rope scaling makes ${TOO_LONG}`);
  if (c.layer_types && c.layer_types.length !== c.num_hidden_layers)
    return refuse(`layer_types names ${c.layer_types.length} of ${c.num_hidden_layers} layers`);
  const slidingWindow = windowFrom(c, family, rope.maxTokens);
  return {
    family: name,
    layers: c.num_hidden_layers,
    hidden: c.hidden_size,
    heads: c.num_attention_heads,
    kvHeads,
    headDim,
    intermediate: c.intermediate_size,
    vocab: c.vocab_size,
    maxTokens: rope.maxTokens,
    rmsNormEps: c.rms_norm_eps,
    ropeTheta: rope.theta,
    tiedHead: c.tie_word_embeddings,
    ...(rope.scaling === undefined ? {} : { ropeScaling: rope.scaling }),
    ...(slidingWindow === undefined ? {} : { slidingWindow }),
  };
}

/** The configuration of the trunk alone: a classifier has no head over the vocabulary, and what code its repository has is known. */
function trunkConfig(config: unknown): unknown {
  const classifier = classifierOf(config);
  if (classifier === undefined) return config;
  const { auto_map: code, ...rest } = config as Record<string, unknown>;
  const isKnown = classifier.layers === 2 && Object.values(code ?? {}).every((each) => KNOWN_CODE.test(each));
  const own = { architectures: [classifier.family], tie_word_embeddings: true };
  return { ...rest, ...own, ...(isKnown ? {} : { auto_map: code }) };
}

/** The modules that Qwen2.5-Math-PRM's repository brings along. */
const KNOWN_CODE =
  /^(?:configuration_qwen2_rm\.Qwen2RMConfig|modeling_qwen2_rm\.Qwen2ForProcessRewardModel)$/;

const Labels = z.object({
  num_labels: z.number().int().min(1).max(1000).nullish(),
  id2label: z.record(z.string(), z.string()).nullish(),
});

/** The head that classifies; undefined for a checkpoint with another. Its bias is for the weights to tell. @throws RredcotError (exit 2) */
export function parseHead(config: unknown, path: string): Omit<Head, 'bias'> | undefined {
  const classifier = classifierOf(config);
  if (classifier === undefined) return undefined;
  const expected = 'expected num_labels, or id2label {"0": …, "1": …}';
  const { num_labels, id2label } = ofSchema(Labels, config, path, expected);
  const named = Object.keys(id2label ?? {}).length;
  const count = classifier.labels ?? num_labels ?? (named > 0 ? named : 2);
  const labels = Array.from({ length: count }, (_, i) => id2label?.[i] ?? `LABEL_${i}`);
  return { layers: classifier.layers, labels };
}

/** Which layers see a window only; undefined where none does, or the window is as long as the longest sequence. */
function windowFrom(c: z.infer<typeof Config>, family: Family, maxTokens: number) {
  const asked =
    family.window === 'always' || (family.window === 'on request' && c.use_sliding_window === true);
  // null is a config's way to say none; a field left out has the class's default
  const tokens = c.sliding_window === undefined ? family.defaults.slidingWindow : c.sliding_window;
  if (!asked || tokens === undefined || tokens === null || tokens >= maxTokens) return undefined;
  const layers = Array.from({ length: c.num_hidden_layers }, (_, i) => i).filter((i) => {
    if (family.window === 'always') return true;
    return c.layer_types ? c.layer_types[i] === 'sliding_attention' : i >= c.max_window_layers;
  });
  return layers.length === 0 ? undefined : { tokens, layers };
}
