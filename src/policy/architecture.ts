// Reads a Hugging Face config.json into the few sizes that the scoring graphs are built from.
import { z } from 'zod';
import { EXIT, RredcotError } from '../errors.js';

/** The shape of a Llama-style decoder. */
export interface Architecture {
  readonly family: 'LlamaForCausalLM';
  readonly layers: number;
  readonly hidden: number;
  readonly heads: number;
  /** key/value heads; heads / kvHeads queries share one (grouped-query attention) */
  readonly kvHeads: number;
  readonly headDim: number;
  readonly intermediate: number;
  readonly vocab: number;
  /** longest sequence the checkpoint declares */
  readonly maxTokens: number;
  readonly rmsNormEps: number;
  readonly ropeTheta: number;
  /** the output head is the embedding matrix */
  readonly tiedHead: boolean;
}

const size = z.number().int().positive();
const Config = z.object({
  architectures: z.tuple([z.literal('LlamaForCausalLM')]),
  num_hidden_layers: size,
  hidden_size: size,
  num_attention_heads: size,
  num_key_value_heads: size.optional(),
  head_dim: size.nullish(),
  intermediate_size: size,
  vocab_size: size,
  max_position_embeddings: size,
  rms_norm_eps: z.number().positive(),
  rope_theta: z.number().positive().default(10_000),
  rope_scaling: z.null().optional(),
  // where transformers 5 keeps the base and the scaling
  rope_parameters: z
    .strictObject({ rope_type: z.literal('default').optional(), rope_theta: z.number().positive() })
    .optional(),
  hidden_act: z.literal('silu').default('silu'),
  attention_bias: z.literal(false).default(false),
  mlp_bias: z.literal(false).default(false),
  tie_word_embeddings: z.boolean().default(false),
  quantization_config: z.undefined().optional(),
});

/**
 * @param config parsed config.json of a checkpoint
 * @param path of that file, for the message
 * @throws RredcotError (exit 2) where the checkpoint is of a kind that this version cannot build
 */
export function parseArchitecture(config: unknown, path: string): Architecture {
  const parsed = Config.safeParse(config);
  if (!parsed.success)
    throw new RredcotError(
      `${path}: this checkpoint cannot be built: ${z.prettifyError(parsed.error).replaceAll(/\s*\n\s*/g, ' ')}`,
      {
        exitCode: EXIT.usage,
        hint: 'supported: LlamaForCausalLM without rope scaling, biases or quantisation',
      },
    );
  const c = parsed.data;
  const kvHeads = c.num_key_value_heads ?? c.num_attention_heads;
  const headDim = c.head_dim ?? c.hidden_size / c.num_attention_heads;
  if (c.num_attention_heads % kvHeads !== 0 || !Number.isInteger(headDim) || headDim % 2 !== 0)
    throw new RredcotError(
      `${path}: ${c.num_attention_heads} heads, ${kvHeads} key/value heads and head_dim ${headDim} do not fit together`,
      { exitCode: EXIT.usage, hint: 'heads must be a multiple of key/value heads, head_dim an even number' },
    );
  return {
    family: 'LlamaForCausalLM',
    layers: c.num_hidden_layers,
    hidden: c.hidden_size,
    heads: c.num_attention_heads,
    kvHeads,
    headDim,
    intermediate: c.intermediate_size,
    vocab: c.vocab_size,
    maxTokens: c.max_position_embeddings,
    rmsNormEps: c.rms_norm_eps,
    ropeTheta: c.rope_parameters?.rope_theta ?? c.rope_theta,
    tiedHead: c.tie_word_embeddings,
  };
}
