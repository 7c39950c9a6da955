// What tells the supported model families apart: what their layers add to Llama's, and what a config.json may leave out.

/** A family by the name that config.json gives it in `architectures`. */
export interface Family {
  /** q, k and v projections have a bias */
  readonly qkvBias: boolean;
  /** every query and key head is RMS-normalised before its rotation */
  readonly qkNorm: boolean;
  /** which layers may have a sliding window: none, all, or those that config.json switches on */
  readonly window: 'never' | 'always' | 'on request';
  /** the defaults of transformers' config class, where they are not the query heads and hidden / heads */
  readonly defaults: {
    readonly kvHeads?: number;
    readonly headDim?: number;
    readonly slidingWindow?: number;
  };
}

export const FAMILIES = {
  LlamaForCausalLM: { qkvBias: false, qkNorm: false, window: 'never', defaults: {} },
  MistralForCausalLM: {
    qkvBias: false,
    qkNorm: false,
    window: 'always',
    defaults: { kvHeads: 8, slidingWindow: 4096 },
  },
  Qwen2ForCausalLM: {
    qkvBias: true,
    qkNorm: false,
    window: 'on request',
    defaults: { kvHeads: 32, slidingWindow: 4096 },
  },
  Qwen3ForCausalLM: {
    qkvBias: false,
    qkNorm: true,
    window: 'on request',
    defaults: { kvHeads: 32, headDim: 128, slidingWindow: 4096 },
  },
} as const satisfies Record<string, Family>;

export type FamilyName = keyof typeof FAMILIES;
export const FAMILY_NAMES = Object.keys(FAMILIES) as [FamilyName, ...FamilyName[]];

/** A class whose head classifies every row in place of naming the next token. */
interface Classifier {
  readonly family: FamilyName;
  /** linear layers of its head; two have a ReLU between them */
  readonly layers: 1 | 2;
  /** labels of a head that always has as many, whatever config.json says */
  readonly labels?: number;
  /** token of the text behind which a step's label stands; without one labels stand at the steps' last tokens */
  readonly stepToken?: string;
}

/** Such classes by the name that config.json gives them in `architectures`. */
const CLASSIFIERS = {
  LlamaForTokenClassification: { family: 'LlamaForCausalLM', layers: 1 },
  MistralForTokenClassification: { family: 'MistralForCausalLM', layers: 1 },
  Qwen2ForTokenClassification: { family: 'Qwen2ForCausalLM', layers: 1 },
  Qwen3ForTokenClassification: { family: 'Qwen3ForCausalLM', layers: 1 },
  // outcome reward models, such as TRL's RewardTrainer makes: one score of a whole text
  LlamaForSequenceClassification: { family: 'LlamaForCausalLM', layers: 1, labels: 1 },
  MistralForSequenceClassification: { family: 'MistralForCausalLM', layers: 1, labels: 1 },
  Qwen2ForSequenceClassification: { family: 'Qwen2ForCausalLM', layers: 1, labels: 1 },
  Qwen3ForSequenceClassification: { family: 'Qwen3ForCausalLM', layers: 1, labels: 1 },
  // Qwen2.5-Math-PRM (arXiv 2501.07301)
  Qwen2ForProcessRewardModel: {
    family: 'Qwen2ForCausalLM',
    layers: 2,
    labels: 2,
    stepToken: '<extra_0>',
  },
} as const satisfies Record<string, Classifier>;

export const CLASSIFIER_NAMES = Object.keys(CLASSIFIERS) as (keyof typeof CLASSIFIERS)[];

/** The class that a config.json names, where its head classifies. */
export function classifierOf(config: unknown): Classifier | undefined {
  const named = (config as { architectures?: unknown } | null)?.architectures;
  if (!Array.isArray(named) || named.length !== 1) return undefined;
  const name = CLASSIFIER_NAMES.find((each) => each === named[0]);
  return name === undefined ? undefined : CLASSIFIERS[name];
}

/** The part of an architecture that says where attention is windowed. */
interface Windowed {
  readonly slidingWindow?: { readonly tokens: number; readonly layers: readonly number[] };
}

/** Keys that a row of a layer sees at most, its own among them; undefined: all before it. */
export function layerWindow(arch: Windowed, layer: number): number | undefined {
  return arch.slidingWindow?.layers.includes(layer) ? arch.slidingWindow.tokens : undefined;
}
