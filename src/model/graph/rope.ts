// What a config.json says of rotary positions, as transformers 4 or transformers 5 spells it, and what policy.json keeps of that.
import { z } from 'zod';

const positive = z.number().positive();
const share = positive.max(1);
const tokenCount = z.number().int().positive();

const base = { factor: positive, originalMaxTokens: tokenCount };
/** How a checkpoint stretches its rotary frequencies; absent: not at all. Stored in policy.json. */
export const RopeScalingSchema = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('linear'), factor: positive }),
  z.strictObject({ type: z.literal('llama3'), ...base, lowFreqFactor: positive, highFreqFactor: positive }),
  z.strictObject({
    ...{ type: z.literal('yarn'), ...base },
    /** multiplies cos and sin, hence every attention score by its square */
    attentionFactor: positive,
    betaFast: positive,
    betaSlow: positive,
    /** the ramp's ends are whole dimensions */
    truncate: z.boolean(),
  }),
]);
export type RopeScaling = z.infer<typeof RopeScalingSchema>;

/** The rotary fields of a config.json, still unchecked where their form depends on the type. */
export const ropeFields = {
  rope_theta: positive.optional(),
  rope_scaling: z.record(z.string(), z.unknown()).nullish(),
  rope_parameters: z.record(z.string(), z.unknown()).nullish(),
  partial_rotary_factor: share.nullish(),
};
type RopeFields = z.infer<z.ZodObject<typeof ropeFields>> & { readonly max_position_embeddings: number };

/** Throws what is wrong with a config.json. */
export type Refuse = (reason: string) => never;

const DEFAULT_THETA = 10_000;
const common = {
  ...{ rope_type: z.string().optional(), type: z.string().optional() },
  ...{ rope_theta: positive.optional(), partial_rotary_factor: share.optional() },
  // how positions in pictures are spread: those of a text are one number
  ...{ mrope_section: z.unknown().optional(), mrope_interleaved: z.unknown().optional() },
};
/** By rope type: what is read of it, and what is kept of that. @param declared max_position_embeddings */
const scalings = (declared: number) => ({
  default: z.strictObject(common).transform(() => undefined),
  mrope: z.strictObject(common).transform(() => undefined),
  linear: z
    .strictObject({ ...common, factor: positive })
    .transform(({ factor }) => ({ type: 'linear' as const, factor })),
  llama3: z
    .strictObject({
      ...{ ...common, factor: positive, original_max_position_embeddings: tokenCount },
      ...{ low_freq_factor: positive, high_freq_factor: positive },
    })
    .refine((c) => c.low_freq_factor < c.high_freq_factor, 'low_freq_factor must be below high_freq_factor')
    .transform((c) => ({
      ...{ type: 'llama3' as const, factor: c.factor, lowFreqFactor: c.low_freq_factor },
      ...{ highFreqFactor: c.high_freq_factor, originalMaxTokens: c.original_max_position_embeddings },
    })),
  yarn: z
    .strictObject({
      ...{ ...common, factor: positive, original_max_position_embeddings: tokenCount.nullish() },
      attention_factor: positive.nullish(),
      ...{ mscale: z.number().nonnegative().nullish(), mscale_all_dim: z.number().nonnegative().nullish() },
      ...{ beta_fast: positive.nullish(), beta_slow: positive.nullish(), truncate: z.boolean().nullish() },
    })
    .transform((c) => ({
      type: 'yarn' as const,
      factor: c.factor,
      originalMaxTokens: c.original_max_position_embeddings ?? declared,
      attentionFactor: c.attention_factor ?? yarnAttention(c.factor, c.mscale, c.mscale_all_dim),
      ...{ betaFast: c.beta_fast ?? 32, betaSlow: c.beta_slow ?? 1, truncate: c.truncate ?? true },
    })),
});

/** `maxTokens`: those that the scaling was made for, where it says so; `rotated`: the share of a head, the same. */
export function parseRope(config: RopeFields, refuse: Refuse) {
  const { rope_scaling: old, rope_parameters: modern, max_position_embeddings: declared } = config;
  if (old && modern) refuse('both rope_scaling and rope_parameters are given, expected one of them');
  const field = modern ? 'rope_parameters' : 'rope_scaling';
  const given = modern ?? old ?? {};
  const [modernType, oldType] = [given.rope_type, given.type].map((name) => JSON.stringify(name));
  if (modernType !== undefined && oldType !== undefined && modernType !== oldType)
    refuse(`${field}: rope_type is ${modernType} and type is ${oldType}`);
  const type = modernType ?? oldType ?? '"default"';
  const schema = Object.entries(scalings(declared)).find(([name]) => JSON.stringify(name) === type)?.[1];
  if (schema === undefined)
    return refuse(`${field}: rope type ${type}, expected default, linear, llama3 or yarn`);
  const parsed = (schema as z.ZodType<RopeScaling | undefined>).safeParse(given);
  if (!parsed.success) return refuse(`${field}: ${z.prettifyError(parsed.error)}`);
  const scaling = parsed.data;
  // model cards have users add yarn's scaling and leave max_position_embeddings as it was
  const isGrown = scaling?.type === 'yarn' && given.original_max_position_embeddings != null;
  const grown = isGrown ? Math.floor(scaling.originalMaxTokens * scaling.factor) : 0;
  const theta = (given.rope_theta as number | undefined) ?? config.rope_theta ?? DEFAULT_THETA;
  const rotated = given.partial_rotary_factor as number | undefined;
  return { theta, scaling, maxTokens: Math.max(declared, grown), rotated };
}

/** YaRN's 0.1·ln s + 1 (arXiv 2309.00071, eq. 22), or the ratio of two of them where a checkpoint names both weights. */
function yarnAttention(factor: number, mscale?: number | null, mscaleAllDim?: number | null): number {
  const grown = (weight: number) => (factor <= 1 ? 1 : 0.1 * weight * Math.log(factor) + 1);
  return mscale && mscaleAllDim ? grown(mscale) / grown(mscaleAllDim) : grown(1);
}
